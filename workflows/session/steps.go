package session

import (
	"fairlead.dev/fairlead/internal/protocol"
)

// The loop takes the first step of a table whose guard holds, and looks again. So the order
// of the table decides what goes first, and a guard may assume that no earlier guard holds.
// A step that waits asks the table whether it is still the first, so that it wakes up for
// everything that the loop would do instead.
//
// Waits in the middle of a step end when the step is to be given up, whichever comes next.
// See follow, waitOut, acquire, park and reap.

type loopStep struct {
	name string
	due  func() bool // a guard changes nothing
	take func() (outcome, error)
}

// outcome says how the loop goes on after a step.
type outcome int

const (
	nextStep outcome = iota
	nextRun          // continue as new
	theEnd           // clean up
)

// The steps that wait.
const (
	stepRest = "rest"
	stepWait = "wait"
)

// steps returns the table. The last step is always due. The functions are literals, since
// workflowcheck does not look into method values.
func (s *session) steps() []loopStep {
	st := s.st
	always := func() bool { return true }
	do := func(what func()) func() (outcome, error) {
		return func() (outcome, error) { what(); return nextStep, nil }
	}
	try := func(what func() error) func() (outcome, error) {
		return func() (outcome, error) { return nextStep, what() }
	}
	perhapsAgain := func(what func() (again bool)) func() (outcome, error) {
		return func() (outcome, error) {
			if what() {
				return nextRun, nil
			}
			return nextStep, nil
		}
	}
	end := func(how outcome) func() (outcome, error) {
		return func() (outcome, error) { return how, nil }
	}
	return []loopStep{
		{"end, since it failed", func() bool { return st.Status == protocol.Failed }, end(theEnd)},
		{"look before it closes", func() bool { return st.Close != nil && !st.Running && s.turns.mayRunStill() }, try(func() error { return s.lookBeforeClose() })},
		{"close", func() bool { return st.Close != nil && !st.Running }, end(theEnd)},
		{"push", func() bool { return s.pushes.mayPushNow() }, do(func() { s.pushes.pushNext() })},
		{"continue as new", func() bool { return s.full() }, end(nextRun)},
		{"end the turn, to close", func() bool { return st.Close != nil }, try(func() error { return s.ending.interruptForClose() })},
		{"give back a lease", func() bool { return s.leases.unasked() }, do(func() { s.leases.giveBack() })},
		{"ask for another seed", func() bool { return s.moving.mayAskForAnother() }, do(func() { s.moving.askForAnother() })},
		{stepRest, func() bool { return st.Parked != nil && !s.parking.wantsUp() }, try(func() error { defer s.audits.rest()(); return s.parking.rest() })},
		{"come up", func() bool { return st.Layout == nil }, perhapsAgain(func() bool { return s.parking.comeUp() })},
		{"leave a lost host", func() bool { return st.Resume != nil && st.Lost != nil }, do(func() { s.moving.goAway(s.moving.lostFailure()) })},
		{"stay, since a turn runs", func() bool { return st.Resume != nil && st.Running }, do(func() { s.moving.stayAfterAll() })},
		{"get the seed back", func() bool { return s.leases.mustRegainSeed() }, perhapsAgain(func() bool { return s.leases.regainSeed() })},
		// The turn may not have begun: the next process has to tell.
		{"start codex for the turn", func() bool { return st.Running && !st.Alive }, perhapsAgain(func() bool { return s.process.startForTurn() })},
		{"move", func() bool { return st.Resume != nil && s.parking.quiet() }, perhapsAgain(func() bool { return s.moving.move() })},
		{"park", func() bool { return s.parking.parkDue() }, perhapsAgain(func() bool { return s.parking.leaveOrStay() })},
		{"clear the host", func() bool { return st.Reap && !s.turns.canBegin() }, do(func() { s.process.reap() })},
		{"start child sessions", func() bool { return s.children.mayStart() }, do(func() { s.children.startDue() })},
		{"answer who waits for child sessions", func() bool { return s.children.waitIsOver() }, do(func() { s.children.answerWaits() })},
		{"talk to codex", func() bool { return s.process.wantsPump() }, try(func() error { return s.process.pump() })},
		{"renew the journal", func() bool { return s.process.journalFull() }, do(func() { s.process.renewJournal() })},
		{"begin a turn", func() bool { return s.turns.canBegin() }, do(func() { s.turns.beginTurn() })},
		{stepWait, always, try(func() error { return s.wait() })},
	}
}

func (s *session) next() *loopStep {
	for i := range s.table {
		if one := &s.table[i]; one.due() {
			return one
		}
	}
	return nil // not reached
}

// still reports whether the step of that name is the next.
func (s *session) still(name string) bool { return s.next().name == name }

// converse takes steps until the session is to be cleaned up.
func (s *session) converse() (again bool, err error) {
	for {
		s.approvals.expire()
		how, err := s.next().take()
		if err != nil || how == theEnd {
			return false, err
		}
		if how == nextRun {
			return true, nil
		}
	}
}
