package seed

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// A pool lends the free seed that was used least recently, of those that are not nearly
// used up. If every healthy seed of the pool is nearly used up, it lends the free one of
// which least is used. It does not lend a used-up seed before its limit resets: sessions
// wait in line.

var useWords = map[string]string{protocol.NearlyUsedUp: "nearly used up", protocol.UsedUp: "used up"}

// use returns the state of the seed's account now.
func (m *Member) use(now time.Time) string {
	if m.Use == "" || !m.UseUntil.After(now) {
		return ""
	}
	return m.Use
}

func (m *Member) healthy() bool {
	return m.Health != protocol.Dead && m.Health != protocol.Suspect
}

// answerLooks leaves out what a worker of an older version met in this run, which left it unread:
// its history has no answer.
func (p *seedPool) answerLooks() {
	looks := p.looks
	p.looks = nil
	if len(looks) == 0 || workflow.GetVersion(p.ctx, "seed pool answers looks", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return
	}
	for _, a := range looks {
		p.no = append(p.no, p.look(a))
	}
}

// look answers a session that wants another seed. Seeds that the line waits for are not
// free.
func (p *seedPool) look(a lease.Acquire) lease.Letter {
	g := lease.Granted{From: protocol.SeedPoolID(p.name), Run: a.Run}
	waits := slices.ContainsFunc(p.st.Queue, func(t Ticket) bool { return t.Asked == "" })
	if m := p.next(a.Not); m != nil && !waits {
		g.Free = m.Seed
		return lease.Letter{To: a.Holder, Text: g}
	}
	g.Queued = p.busy()
	now := workflow.Now(p.ctx)
	for _, m := range p.st.Members {
		if left := m.UseUntil.Sub(now); m.Seed != a.Not && m.use(now) != "" && (g.RetryAfter == 0 || left < g.RetryAfter) {
			g.RetryAfter = left
		}
	}
	return lease.Letter{To: a.Holder, Text: g}
}

// next returns the seed to lend now, or nil. It skips the seed that not names.
func (p *seedPool) next(not string) *Member {
	var best, last *Member
	now, worn := workflow.Now(p.ctx), true
	for i := range p.st.Members {
		m := &p.st.Members[i]
		if m.Seed == not {
			continue
		}
		use := m.use(now)
		if m.healthy() && use == "" {
			worn = false
		}
		switch free := m.Free && !m.Asked; {
		case free && use == "" && (best == nil || m.UsedAt.Before(best.UsedAt)):
			best = m
		case free && use == protocol.NearlyUsedUp && (last == nil || m.Percent < last.Percent):
			last = m
		}
	}
	if best == nil && worn {
		return last
	}
	return best
}

// awaitReset has the pool look again when the limit of a free seed resets for which
// sessions wait.
func (p *seedPool) awaitReset() {
	if p.reset.Due() {
		p.reset.Off()
	}
	now, first := workflow.Now(p.ctx), time.Time{}
	for i := range p.st.Members {
		m := &p.st.Members[i]
		if m.Free && m.use(now) != "" && (first.IsZero() || m.UseUntil.Before(first)) {
			first = m.UseUntil
		}
	}
	if len(p.st.Queue) == 0 || first.IsZero() {
		p.reset.Off()
		return
	}
	p.reset.Set(first)
}
