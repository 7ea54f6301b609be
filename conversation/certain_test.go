package conversation

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// A send that an earlier attempt may have written is never reported as unwritten, because
// the workflow would send it again to the next process.

func TestWhatAnEarlierAttemptMayHaveWrittenIsNeverCalledUnwritten(t *testing.T) {
	sends := map[string]Send{
		"turn":      turn(5, "x", "hello"),
		"steer":     {ID: "x", Kind: SendSteer, Text: "faster"},
		"decision":  decision("x", 1, protocol.Accept),
		"interrupt": {ID: "x", Kind: SendInterrupt},
	}
	for name, send := range sends {
		st := running()
		if send.Kind == SendTurn {
			st = opened()
		}
		st.Open = []OpenRequest{openRequest(1, "c")}
		for _, c := range []struct {
			attempt int
			before  bool
			want    protocol.DeliveryState
		}{{1, false, protocol.Decided}, {2, false, protocol.Sent}, {1, true, protocol.Sent}} {
			send.Uncertain = c.before
			in := PumpInput{State: st, Sends: []Send{send}}
			// The process ended before the journal was read.
			s := behind(t, in, Options{Attempt: c.attempt})
			s.m.ended(time.Second)
			if got := delivered(t, s.result(ProcessEnded), "x"); got != c.want {
				t.Errorf("%s, attempt %d, uncertain %v, at the process's end: %s, want %s", name, c.attempt, c.before, got, c.want)
			}
			// The workflow cancelled the pump before it wrote anything.
			s = behind(t, in, Options{Attempt: c.attempt})
			s.m.cancel(time.Second)
			s.m.caughtUp(time.Second)
			if got := delivered(t, s.result(PumpCancelled), "x"); got != c.want {
				t.Errorf("%s, attempt %d, uncertain %v, called back: %s, want %s", name, c.attempt, c.before, got, c.want)
			}
		}
	}
}

func TestSilentBarrierLeavesAMessageUncertain(t *testing.T) {
	s := perform(t, PumpInput{State: opened(), Sends: []Send{turn(5, "m-5", "hello")}}, Options{Attempt: 2})
	s.wait(2 * time.Minute)
	if got := delivered(t, s.result(TimedOut), "m-5"); got != protocol.Sent {
		t.Errorf("codex never answered the barrier: %s, want %s", got, protocol.Sent)
	}
}

func TestAnsweredBarrierMakesAMessageCertain(t *testing.T) {
	s := perform(t, PumpInput{State: opened(), Sends: []Send{turn(5, "m-5", "hello")}}, Options{Attempt: 2, Nonce: "n"})
	s.hear(`{"id":"g1.p9.barrier-n.0","result":{}}`, `{"id":"send/m-5/0","error":{"code":-32001,"message":"Server overloaded; retry later."}}`)
	s.m.cancel(s.m.now)
	if got := delivered(t, s.result(PumpCancelled), "m-5"); got != protocol.Decided {
		t.Errorf("codex has not had it, for certain: %s, want %s", got, protocol.Decided)
	}
}

func TestAnswerInADeadProcesssJournalAcknowledges(t *testing.T) {
	st := running()
	st.Open = []OpenRequest{openRequest(1, "c")}
	for name, c := range map[string]struct {
		state PumpState
		send  Send
		line  string
	}{
		"answer":   {opened(), turn(5, "x", "hello"), `{"id":"send/x/0","result":{"turn":{"id":"turn-1"}}}`},
		"echo":     {opened(), turn(5, "x", "hello"), started("u-1", "userMessage", `,"clientId":"x"`)},
		"steer":    {running(), Send{ID: "x", Kind: SendSteer}, `{"id":"send/x/0","result":{"turnId":"turn-1"}}`},
		"decision": {st, decision("x", 1, protocol.Accept), resolvedLine(1)},
	} {
		s := perform(t, PumpInput{State: c.state, Sends: []Send{c.send}}, Options{Attempt: 2}, c.line)
		s.m.ended(s.m.now)
		if got := delivered(t, s.result(ProcessEnded), "x"); got != protocol.Acknowledged {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// behind returns a stage whose journal was not read yet.
func behind(t *testing.T, in PumpInput, opt Options) *stage {
	t.Helper()
	in.Prefix = "g1.p9"
	k := newKeeper()
	m, err := newMachine(in, k, opt, in.State.Rewind+100)
	if err != nil {
		t.Fatal(err)
	}
	m.atStart()
	return &stage{t: t, m: m, sink: k, at: in.State.Rewind}
}

// If a steer may have come too late, the pump stays until it knows.

func TestSteerInTheTurnsLastMomentIsAcknowledgedOrComesBack(t *testing.T) {
	steer := Send{ID: "s-1", Kind: SendSteer, Text: "faster"}
	for name, c := range map[string]struct {
		answer string
		want   protocol.DeliveryState
	}{
		"taken":    {`{"id":"send/s-1/0","result":{"turnId":"turn-1"}}`, protocol.Acknowledged},
		"too late": {`{"id":"send/s-1/0","error":{"code":-32600,"message":"no active turn to steer"}}`, protocol.Void},
	} {
		s := perform(t, PumpInput{State: running(), Sends: []Send{steer}}, Options{})
		s.hear(turnDone("completed", ""))
		s.attached()
		s.hear(c.answer)
		if got := delivered(t, s.result(TurnEnded), "s-1"); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	// An earlier attempt may have sent the steer, and the turn ended meanwhile.
	s := perform(t, PumpInput{State: running(), Sends: []Send{steer}}, Options{Attempt: 2, Nonce: "n"}, turnDone("completed", ""))
	s.attached()
	s.hear(`{"id":"g1.p9.barrier-n.0","result":{}}`)
	if got := delivered(t, s.result(TurnEnded), "s-1"); got != protocol.Void {
		t.Errorf("not delivered, for certain: %s", got)
	}
	// A codex that says nothing more does not hold up the turn's end.
	s = perform(t, PumpInput{State: running(), Sends: []Send{steer}}, Options{})
	s.hear(turnDone("completed", ""))
	s.wait(time.Minute)
	if got := delivered(t, s.result(TurnEnded), "s-1"); got != protocol.Sent {
		t.Errorf("not known: %s", got)
	}
}

func TestAnswerThatIsTooLongToReadAcknowledges(t *testing.T) {
	in := PumpInput{State: opened(), Limits: Limits{Line: 200}, Sends: []Send{turn(5, "m-5", "hello")}}
	s := perform(t, in, Options{})
	s.hear(`{"id":"send/m-5/0","result":{"turn":{"id":"turn-1","items":"` + long(300) + `"}}}`)
	s.wait(time.Second)
	s.attached() // codex took the message, but has not named its turn yet
	s.hear(wireEvent("turn/started", `"turn":{"id":"turn-1"}`))
	if got := s.m.delivery.sends[0].state; got != protocol.Acknowledged || s.m.st.Foreign || s.m.st.Turn != 5 {
		t.Errorf("codex took the message: %s, state %+v", got, s.m.st)
	}
	s = perform(t, in, Options{})
	s.hear(`{"id":"send/m-5/0","error":{"code":-32602,"message":"` + long(300) + `"}}`)
	if got := s.m.delivery.sends[0].state; got != protocol.Rejected {
		t.Errorf("codex refused the message: %s", got)
	}
}

func TestRequestOfAnEndedTurnIsAnsweredBeforeTheNextOne(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{},
		`{"method":"nobody/knows","id":7,"params":{}}`, turnDone("completed", ""),
		wireEvent("turn/started", `"turn":{"id":"turn-2"}`), wireEvent("turn/started", `"turn":{"id":"turn-2"}`))
	s.result(TurnEnded)
	if len(s.said) != 1 {
		t.Errorf("said %q", s.said)
	}
}

func long(n int) string { return strings.Repeat("x", n) }
