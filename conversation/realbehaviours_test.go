package conversation

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// answerIsWhole shows that the turn does not end when codex takes the message. It ends
// once, with all messages of the agent and without the reasoning.
func answerIsWhole(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - steps:
      - - think: Let me see.
        - say: First I look.
        - shell: echo found
      - - think: Now I know.
        - wait: gate
        - say: It is here.
`)
	k := c.talk(t, s)
	in := k.input(turn(1, "m-1", "where is it?"))
	done := make(chan PumpResult, 1)
	go func() { done <- k.run(context.Background(), in) }()
	if _, err := s.AwaitWaiting(t.Context(), "gate"); err != nil {
		t.Fatal(err)
	}
	k.sink.await(t, "the first words", func() bool {
		return slices.ContainsFunc(k.sink.entries, func(e protocol.Entry) bool { return e.Type == protocol.EntryAssistant })
	})
	if !bytes.Contains(k.p.bytes(), []byte(`"id":"send/m-1/0"`)) {
		t.Error("codex has not said that it takes the message")
	}
	select {
	case r := <-done:
		t.Fatalf("the pump returned in the middle of the turn: %+v", r)
	default:
	}
	s.Release("gate")
	r := <-done
	if r.Reason != TurnEnded || r.Turn.FinalText != "First I look.\n\nIt is here." {
		t.Errorf("%s, turn %+v", r.Reason, r.Turn)
	}
	if got := k.sink.text(protocol.EntryReasoning); len(got) != 2 || strings.Contains(r.Turn.FinalText, got[0]) {
		t.Errorf("reasoning %q", got)
	}
	if r := k.pump(Bound); r.Turn != nil {
		t.Errorf("the turn ended again: %+v", r.Turn)
	}
}

// resumedHistoryIsNoAnswer shows that a new process has the thread with all its messages,
// in order. None of them is reported as new, and the model is not called.
func resumedHistoryIsNoAnswer(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `rules: [{reply: "to {{ .LastUser }}: yes"}]`)
	k := c.talk(t, s)
	k.pump(TurnEnded, turn(1, "m-1", "the first thing"))
	k.pump(TurnEnded, turn(2, "m-2", "the second thing"))
	thread, entries := k.state.ThreadID, len(k.sink.text(protocol.EntryAssistant, protocol.EntryUser))
	k.restart()
	if r := k.pump(Bound); r.Turn != nil || r.State.ThreadID != thread || r.State.Opened != 2 {
		t.Errorf("resumed: turn %+v, thread %s, was %s", r.Turn, r.State.ThreadID, thread)
	}
	if got := k.sink.text(protocol.EntryAssistant, protocol.EntryUser); len(got) != entries || len(s.Requests()) != 2 {
		t.Errorf("on record %q, the model was asked %d times", got, len(s.Requests()))
	}
	if r := k.pump(TurnEnded, turn(3, "m-3", "the third thing")); r.Turn.N != 3 || r.Turn.FinalText != "to the third thing: yes" {
		t.Errorf("turn %+v", r.Turn)
	}
	asked := s.Requests()
	body, at := string(asked[len(asked)-1].Body), 0
	for _, want := range []string{"the first thing", "to the first thing: yes", "the second thing", "to the second thing: yes", "the third thing"} {
		i := strings.Index(body[at:], want)
		if i < 0 {
			t.Fatalf("%q is not in what the model was given, or not in its place", want)
		}
		at += i + len(want)
	}
}

// refusedMessageBeginsNoTurn shows that codex refuses a message of more than a million
// characters, and that the next message gets its turn.
func refusedMessageBeginsNoTurn(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `rules: [{reply: hello}]`)
	k := c.talk(t, s)
	r := k.pump(Bound, turn(1, "m-1", strings.Repeat("x", 1<<20+1)))
	if got := delivered(t, r, "m-1"); got != protocol.Rejected || r.Deliveries[0].Error == "" || r.Turn != nil || r.State.TurnID != "" {
		t.Errorf("deliveries %+v, state %+v", r.Deliveries, r.State)
	}
	if r := k.pump(TurnEnded, turn(2, "m-2", "hello")); r.Turn.Status != "completed" || r.Turn.N != 2 || len(s.Requests()) != 1 {
		t.Errorf("turn %+v, the model was asked %d times", r.Turn, len(s.Requests()))
	}
}
