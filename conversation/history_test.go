package conversation

import (
	"context"
	"testing"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// If an earlier process may have received a message, the thread's history shows whether it
// did. If the history cannot show it, the message counts as not known.

func TestMessageOfAnotherProcessIsNotSentWhereHistoryCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		history string
		of      int // the process that may have received the message; the current process is the third
		want    protocol.DeliveryState
		codex   string
	}{
		"an older codex":       {`"error":{"code":-32600,"message":"unknown variant"}`, 2, protocol.Void, ""},
		"nonsense":             {`"result":"?"`, 2, protocol.Void, ""},
		"the same process":     {`"error":{"code":-32600,"message":"unknown variant"}`, 3, protocol.Sent, ""}, // its journal has no trace of it
		"a history without it": {`"result":{"data":[]}`, 2, protocol.Sent, "0.140.0"},
		"one without our ids":  {`"result":{"data":[]}`, 2, protocol.Void, "0.133.0"},
	} {
		m := turn(5, "m-5", "hello")
		m.Uncertain, m.Incarnation = true, c.of
		st := opened()
		st.CodexVersion = c.codex
		s := perform(t, PumpInput{State: st, Sends: []Send{m}}, Options{Nonce: "n"})
		s.hear(`{"id":"g1.p9.history-n.0",`+c.history+`}`, `{"id":"g1.p9.barrier-n.0","result":{}}`)
		s.m.cancel(time.Second)
		if got := delivered(t, s.result(map[protocol.DeliveryState]PumpReason{protocol.Void: Bound, protocol.Sent: PumpCancelled}[c.want]), "m-5"); got != c.want {
			t.Errorf("%s: the message is %s, want %s", name, got, c.want)
		}
	}
}

func turnOfAKilledProcessIsFoundInterruptedInItsThreadsHistory(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - steps:
      - - say: one two three four
        - wait: never
`)
	k := c.talk(t, s)
	before := k.state
	in := k.input(turn(1, "m-1", "first"))
	done := make(chan PumpResult, 1)
	go func() { done <- k.run(context.Background(), in) }()
	if _, err := s.AwaitWaiting(t.Context(), "never"); err != nil {
		t.Fatal(err)
	}
	k.p.kill()
	thread := (<-done).State.ThreadID
	// The workflow knows only that the message may have been sent.
	k.state = before
	k.state.ThreadID = thread
	k.restart()
	again := turn(1, "m-1", "first")
	again.Uncertain, again.Incarnation = true, 1
	if !c.has(wire.ClientIDs) {
		c.isNotKnownToHaveArrived(t, k, s, again, 1)
		return
	}
	r := k.pump(TurnEnded, again)
	if got := delivered(t, r, "m-1"); got != protocol.Acknowledged || r.Turn.N != 1 || r.Turn.Status != "interrupted" {
		t.Errorf("the message is %s, turn %+v", got, r.Turn)
	}
	if n := len(s.Requests()); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}
