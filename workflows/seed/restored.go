package seed

import (
	"cmp"
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

// nowForQueries answers the query. Updates answer with now, without what this adds, because
// recorded histories contain those answers.
func (s *savingPart) nowForQueries() inquiry.SeedNow {
	out := s.now()
	out.Epoch, out.Lost, out.Deleted = s.st.Epoch, s.st.Lost, s.st.Deleted
	return out
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
	first := s.st.Epoch + 1
	s.st.Epoch = max(s.st.Epoch, workflow.Now(s.ctx).Unix())
	if first > s.st.Epoch {
		return
	}
	if n := len(s.st.Lost); n > 0 && s.st.Lost[n-1].Last == first-1 { // nothing was granted since the last time
		s.st.Lost[n-1].Last = s.st.Epoch
		return
	}
	s.st.Lost = append(s.st.Lost, inquiry.Epochs{First: first, Last: s.st.Epoch})
	s.st.Lost = s.st.Lost[max(len(s.st.Lost)-maxLost, 0):]
}
