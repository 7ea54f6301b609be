package session

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// With on_limit=switch, a session whose turn met the end of its seed's quota asks its pool
// of seeds whether another one is free and has some left. If so, it parks, which saves the
// login and gives it back, and comes up with the next seed. If not, it waits for the end of
// the limit, and asks again meanwhile.

// AfterSwitchText replaces the message of a turn that met the limit after it had effects,
// if the session goes on with another seed.
const AfterSwitchText = "The last turn was cut off because the limit of the account was reached; this session goes on with another account now. " +
	"What the turn had begun may be half done or done: look at the present state first, do not blindly repeat what has effects, then go on with the task."

const (
	// poolAnswers is how long a pool of seeds has to answer.
	poolAnswers = time.Minute
	// bySwitch is who moves the session.
	bySwitch = "on_limit=switch"
)

// askPauses are the pauses between two questions to the pool. The last one repeats.
var askPauses = []time.Duration{5 * time.Minute, 10 * time.Minute, 30 * time.Minute}

// switches reports whether a session that met a limit of a kind looks for another seed.
func (s *boundsPart) switches(kind string) bool {
	return s.opt.OnLimit == protocol.LimitSwitch && kind == protocol.EndQuota && s.opt.SeedPool != ""
}

// mayAskForAnother reports whether to ask the pool for another seed now.
func (s *movingPart) mayAskForAnother() bool {
	st := s.st
	if st.Limit == nil || st.Limit.AskAt.IsZero() || st.Close != nil || st.Resume != nil || !s.bounds.limited() || workflow.Now(s.ctx).Before(st.Limit.AskAt) {
		return false
	}
	return st.Parked != nil || s.parking.quiet() && st.SeedHeld && !st.SeedGone
}

// askForAnother asks the pool whether it would lend another seed now, and goes on with that.
func (s *movingPart) askForAnother() {
	l, from := s.st.Limit, protocol.SeedPoolID(s.opt.SeedPool)
	s.publish()
	got := s.askPool(from)
	switch {
	case s.st.Limit != l || !s.bounds.waitsForLimit() || s.st.Close != nil:
	case got != nil && got.Free != "":
		s.switchSeed()
	case got == nil && s.full(): // the next run asks
	default:
		pause := askPauses[min(l.Asks, len(askPauses)-1)]
		l.Why = "the pool did not answer"
		if got != nil {
			l.Why = kit.Cut(got.Queued, kit.MaxWord)
			if got.RetryAfter > 0 {
				pause = min(pause, got.RetryAfter)
			}
		}
		l.Asks++
		l.AskAt = workflow.Now(s.ctx).Add(max(pause, leastWait))
	}
}

// askPool returns nil if there is no answer in time, or if the session has to do something
// else. A pool of an older version does not answer. No answer is a grant.
func (s *movingPart) askPool(from string) *lease.Granted {
	s.leases.giveBack()
	s.st.Asked = from
	defer func() { s.st.Asked = "" }()
	a := lease.Acquire{Holder: s.id, Run: s.firstRun(), Look: true}
	if s.st.Seed != nil {
		a.Not = s.st.Seed.Name
	}
	if err := workflow.SignalExternalWorkflow(s.ctx, from, "", lease.SignalLook, a).Get(s.ctx, nil); err != nil {
		s.log.Warn("pool of seeds not asked", "error", err)
		return nil
	}
	late := kit.NewWake(s.ctx, "no answer of "+from)
	late.Set(workflow.Now(s.ctx).Add(poolAnswers))
	defer late.Off()
	over := func() bool {
		return s.st.Close != nil || !s.bounds.waitsForLimit() || s.full() || late.Due()
	}
	for {
		err := s.await(func() bool { return len(s.st.Answers) > 0 || over() })
		got := s.leases.answer(from)
		switch {
		case err != nil:
			return nil
		case got != nil && got.Seed != nil:
			s.leases.stray(*got)
		case got != nil || over():
			return got
		}
	}
}

func (s *movingPart) switchSeed() {
	now, l := workflow.Now(s.ctx), s.st.Limit
	l.Since, l.Until, l.AskAt, l.Why = now, now, time.Time{}, ""
	if m := &s.st.Queue[0]; m.Text == AfterLimitText && m.Blob == "" {
		m.Text = AfterSwitchText
	}
	n := 1
	if s.st.Switched != nil {
		n = s.st.Switched.N + 1
	}
	sw := &protocol.SwitchedView{N: n, From: s.leases.heldSeed(), Pool: s.opt.SeedPool, Turn: s.st.Queue[0].N, At: now}
	s.st.Switched = sw
	s.note(conversation.Note{Type: protocol.EntryState, Text: fmt.Sprintf("the quota of seed %s has ended: the session gives it back and goes on with another one of pool %s, in turn %d (attempt %d)",
		sw.From, sw.Pool, sw.Turn, s.st.Attempt+1), Data: map[string]string{"by": bySwitch, "set_by": s.opt.By, "from": sw.From, "pool": sw.Pool, "attempt": fmt.Sprint(s.st.Attempt + 1)}})
	if s.st.Parked == nil {
		s.st.Resume = &protocol.Resume{By: bySwitch}
	}
}

func (s *leasesPart) heldSeed() string {
	if s.st.Seed == nil {
		return ""
	}
	return s.st.Seed.Name
}

// tellSwitched notes which seed the session got in place of that whose quota ended.
func (s *leasesPart) tellSwitched() {
	sw := s.st.Switched
	if sw == nil || sw.To != "" {
		return
	}
	sw.To, sw.Attempt = s.st.Seed.Name, s.st.Attempt
	s.note(conversation.Note{Type: protocol.EntryState, Text: fmt.Sprintf("the session goes on with seed %s in place of %s (attempt %d)", sw.To, sw.From, sw.Attempt),
		Data: map[string]string{"by": bySwitch, "from": sw.From, "to": sw.To, "pool": sw.Pool, "attempt": fmt.Sprint(sw.Attempt)}})
}

// checkSwitch refuses on_limit=switch where there is nothing to switch to.
func (o Options) checkSwitch() error {
	switch {
	case !slices.Contains([]string{"", protocol.LimitFail, protocol.LimitWait, protocol.LimitSwitch}, o.OnLimit):
		return fmt.Errorf("unknown on_limit %q: use fail, wait or switch", kit.Cut(o.OnLimit, kit.MaxWord))
	case o.OnLimit != protocol.LimitSwitch:
		return nil
	case o.SeedPool == "":
		return fmt.Errorf("on_limit switch needs a pool of seeds: name one with --seed-pool")
	case o.Snapshot.When == protocol.SnapshotOff:
		return fmt.Errorf("on_limit switch parks the session, which takes a snapshot: do not switch snapshots off")
	}
	return nil
}
