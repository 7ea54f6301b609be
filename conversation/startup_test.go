package conversation

import (
	"fmt"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

func interruptSaid(try int) string {
	return fmt.Sprintf(`{"id":"send/i-1/%d","method":"turn/interrupt","params":{"threadId":"thread-1","turnId":"turn-1"}}`, try)
}

func interruptRefused(try int) string {
	return fmt.Sprintf(`{"id":"send/i-1/%d","error":{"code":-32600,"message":"no active turn to interrupt"}}`, try)
}

// withItsInterrupt returns a pump that has a message that begins a turn, and an interrupt
// of that turn.
func withItsInterrupt(t *testing.T) *stage {
	t.Helper()
	s := perform(t, PumpInput{State: opened(), Sends: []Send{
		{ID: "m-1", Kind: SendTurn, Turn: 5, Text: "x"}, {ID: "i-1", Kind: SendInterrupt, Turn: 5},
	}}, Options{})
	if len(s.said) != 1 {
		t.Fatalf("said %q, want the turn alone: no interrupt can name it yet", s.said)
	}
	s.said = nil
	s.hear(`{"id":"send/m-1/0","result":{"turn":{"id":"turn-1"}}}`)
	s.heard(interruptSaid(0))
	return s
}

func TestInterruptThatComesWithItsTurnWaitsForIt(t *testing.T) {
	s := withItsInterrupt(t)
	s.hear(`{"id":"send/i-1/0","result":{}}`, turnDone("interrupted", ""), `{"id":"g1.p9.clean.0","result":{}}`)
	if r := s.result(TurnEnded); r.Turn.N != 5 || r.Turn.Status != "interrupted" || delivered(t, r, "i-1") != protocol.Acknowledged {
		t.Errorf("%+v", r)
	}
}

// codex answers turn/start before the turn can be interrupted.
func TestInterruptThatIsTooEarlyForCodexIsSaidAgain(t *testing.T) {
	s := withItsInterrupt(t)
	s.hear(interruptRefused(0))
	s.heard(interruptSaid(0))
	s.hear(wireEvent("turn/started", `"turn":{"id":"turn-1"}`))
	s.heard(interruptSaid(0), interruptSaid(1))
	s.hear(interruptRefused(1))
	s.wait(time.Second)
	s.heard(interruptSaid(0), interruptSaid(1), interruptSaid(2))
	s.hear(`{"id":"send/i-1/2","result":{}}`, turnDone("interrupted", ""), `{"id":"g1.p9.clean.0","result":{}}`)
	if r := s.result(TurnEnded); r.Turn.Status != "interrupted" || delivered(t, r, "i-1") != protocol.Acknowledged {
		t.Errorf("%+v", r)
	}
}

func TestInterruptOfATurnThatEndsMeanwhileIsVoid(t *testing.T) {
	s := withItsInterrupt(t)
	s.hear(interruptRefused(0), turnDone("completed", ""))
	if r := s.result(TurnEnded); r.Turn.Status != "completed" || delivered(t, r, "i-1") != protocol.Void {
		t.Errorf("%+v", r)
	}
}

// If a turn runs according to the journal, but codex says that none runs, the pump does not
// wait for the turn.
func TestInterruptThatCodexAlwaysRefusesEndsItsProcess(t *testing.T) {
	s := withItsInterrupt(t)
	for try := 0; s.m.result == nil && try < 100; try++ {
		s.hear(interruptRefused(try))
		s.wait(9 * time.Second)
	}
	if r := s.result(TimedOut); r.Problem == nil || s.m.now > 2*defaultRequest {
		t.Errorf("gave up after %v: %+v", s.m.now, r.Problem)
	}
}
