package seed

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// If Temporal's database was restored to an earlier point, the seed knows neither the logins
// that were made since nor the leases that it granted since.

// maxLost bounds the ranges of forgotten epochs. A reconciliation adds one, unless nothing was granted
// since the one before.
const maxLost = 8

// maxGrants bounds the newest leases that are told from forgotten ones.
const maxGrants = 50

// grants are the newest leases that this run granted. After a restore, a lease gets the number of a
// forgotten one. They are not carried to the next run, because a worker of an earlier release would
// leave every such run to newer workers.
type grants struct {
	after int64 // the epoch before the first
	to    map[int64]string
}

func (g *grants) add(epoch int64, holder string) {
	if g.to == nil {
		g.to = map[int64]string{}
	}
	g.to[epoch] = holder
	for len(g.to) > maxGrants {
		for g.after++; ; g.after++ {
			if _, ok := g.to[g.after]; ok {
				break
			}
		}
		delete(g.to, g.after)
	}
}

// until returns the range of epochs after the one before the first, up to last.
func (g *grants) until(last int64) inquiry.Epochs {
	return inquiry.Epochs{First: g.after + 1, Last: last, Granted: maps.Clone(g.to)}
}

// nowForQueries answers the query. Updates answer with now, without what this adds, because
// recorded histories contain those answers.
func (s *savingPart) nowForQueries() inquiry.SeedNow {
	out := s.now()
	out.Epoch, out.Settled, out.Deleted = s.st.Epoch, s.st.Settled, s.st.Deleted
	out.Lost = append(slices.Clone(s.st.Lost), s.grants.until(s.st.Epoch))
	return out
}

// settle notes that a person says that no login is newer than the seed's. It does so only after a
// reconciliation: a worker of an earlier release does not know the field, and would leave the seed to
// newer workers.
func (s *seedCore) settle() {
	if len(s.st.Lost) > 0 || !s.st.Settled.IsZero() {
		s.st.Settled = workflow.Now(s.ctx)
	}
}

func (s *savingPart) checkAdopt(in inquiry.AdoptSeed) error {
	switch {
	case s.st.Ref == nil || s.st.Deleted:
		return kit.Refuse(protocol.RefusedNotFound, "there is no seed %q", s.name)
	case s.asking && s.exclusive():
		return s.busyVerifying()
	case in.Generation != s.st.Ref.Generation || in.Auth != authOf(s.st.Files):
		return kit.Refuse(protocol.RefusedState, "seed %s is not at generation %d any more: try again", s.name, in.Generation)
	case in.Ref != nil && (in.Ref.Kind != s.st.Ref.Kind || in.Ref.Digest == "" || authOf(in.Files) == "" || !strings.HasPrefix(in.Ref.Blob, "seeds/"+s.name+"/")):
		return kit.Refuse(protocol.RefusedBadInput, "seed %s: what is to be adopted is no login of it in the store", s.name)
	}
	return nil
}

// adopt takes what the store has beyond the newest generation.
func (s *savingPart) adopt(in inquiry.AdoptSeed) inquiry.SeedNow {
	s.fenceForgotten()
	if in.Ref != nil {
		if s.rec != nil {
			s.rec.stale = true
		}
		s.st.Former = append(s.st.Former, in.Former...)
		s.advance(*in.Ref, in.Files)
		s.st.Ref.Generation = max(s.st.Ref.Generation, in.Highest)
		s.st.Tools, s.st.FollowUps = in.Tools, in.FollowUps
		if r := s.st.Rotated; r != nil && r.Auth == authOf(s.st.Files) {
			s.st.Rotated = nil
		}
		if s.st.Health.State != "" {
			s.judge("", "", "")
		}
		s.recordSaved("the store had it, and Temporal did not know it: its database was restored to an earlier point")
	}
	if doubt := kit.Cut(in.Doubt, kit.MaxReason); doubt != "" {
		s.burnt(doubt, cmp.Or(kit.Cut(in.Hint, kit.MaxReason), hintBurnt(s.name)))
	}
	return s.now()
}

// fenceForgotten puts the epoch above those of all leases that were ever granted, and
// remembers which of them this workflow does not know.
func (s *savingPart) fenceForgotten() {
	s.st.Epoch = max(s.st.Epoch, workflow.Now(s.ctx).Unix())
	lost := s.grants.until(s.st.Epoch)
	s.grants = grants{after: s.st.Epoch}
	if lost.First > lost.Last {
		return
	}
	if n := len(s.st.Lost); n > 0 && len(lost.Granted) == 0 && s.st.Lost[n-1].Last == lost.First-1 { // nothing was granted since the last time
		s.st.Lost[n-1].Last = lost.Last
		return
	}
	s.st.Lost = append(s.st.Lost, lost)
	s.st.Lost = s.st.Lost[max(len(s.st.Lost)-maxLost, 0):]
}
