package conversation

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

func interruptedMessageIsOnRecordOnce(t *testing.T, c *codex) {
	const text = "one two three größer "
	s := scriptedmodel.Serve(t, `
rules:
  - steps:
      - - think: Let me see.
        - say: {text: "`+strings.Repeat(text, 500)+`", pace: 20ms}
`)
	k := c.talk(t, s)
	in := k.input(turn(1, "m-1", "talk"))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan PumpResult, 1)
	go func() { done <- k.run(ctx, in) }()
	saying := func() (n int) {
		for _, d := range k.sink.deltas {
			if d.Type == protocol.EntryAssistant {
				n += len(d.Text)
			}
		}
		return n
	}
	k.sink.await(t, "the stream", func() bool { return saying() > len(text) })
	cancel() // another pump takes over in the middle of the message
	if r := <-done; r.Reason != PumpCancelled || r.State.Rewind >= r.State.Cursor.Offset {
		t.Fatalf("%+v", r)
	}
	r := k.pump(TurnEnded, Send{ID: "i-1", Kind: SendInterrupt})
	if r.Turn.Status != "interrupted" {
		t.Errorf("turn %+v", r.Turn)
	}
	var got []protocol.Entry
	for _, e := range k.sink.entries {
		if e.Type == protocol.EntryAssistant {
			got = append(got, e)
		}
	}
	if len(got) != 1 || got[0].Status != "interrupted" || !strings.HasPrefix(got[0].Text, text) || len(got[0].Text) != saying() {
		t.Fatalf("on record: %+v, streamed %d bytes", got, saying())
	}
	if bytes.Contains(k.p.bytes(), []byte("<turn_aborted>")) {
		t.Error("codex says by now that a turn was aborted in a message, too: record it")
	}
	// What both pumps heard of the message is the turn's final text, once.
	if r.Turn.FinalText != got[0].Text || r.Turn.FinalTruncated {
		t.Errorf("final text %q, on record %q", r.Turn.FinalText, got[0].Text)
	}
}

func turnOverItsBudgetIsInterruptedInTheRealCodex(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - steps:
      - - shell: "true"
        - usage: {input: 1000, output: 50}
      - - say: this goes on and on
        - wait: never
`)
	k := c.talk(t, s)
	k.spec.Sandbox = "danger-full-access"
	k.limit.Budget.Tokens = 1049
	r := k.pump(TurnEnded, turn(1, "m-1", "work"))
	if p := r.Turn.Problem; r.Turn.Status != "interrupted" || p == nil || p.Kind != "budget" || r.Turn.Usage.Input != 1000 {
		t.Errorf("turn %+v, problem %+v", r.Turn, p)
	}
	if n := strings.Count(string(k.p.sent.bytes()), wire.MethodInterrupt); n != 1 {
		t.Errorf("interrupted %d times", n)
	}
}

// A barrier covers steers too: codex answers thread/read after them.
func barrierIsAnsweredBehindASteer(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - steps:
      - - say: one two three
        - wait: never
`)
	k := c.talk(t, s)
	in := k.input(turn(1, "m-1", "talk"))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan PumpResult, 1)
	go func() { done <- k.run(ctx, in) }()
	k.sink.await(t, "the stream", func() bool { return len(k.sink.deltas) > 0 })
	cancel()
	r := <-done
	const rounds = 40
	for i := range rounds {
		lines := fmt.Sprintf(`{"id":"steer-%d-","method":"turn/steer","params":{"threadId":%q,"expectedTurnId":%q,"clientUserMessageId":"s-%d","input":[{"type":"text","text":"faster"}]}}
{"id":"read-%d-","method":"thread/read","params":{"threadId":%q,"includeTurns":false}}
`, i, r.State.ThreadID, r.State.TurnID, i, i, r.State.ThreadID)
		if _, err := k.p.stdin.Write([]byte(lines)); err != nil {
			t.Fatal(err)
		}
	}
	k.sink.await(t, "the last answer", func() bool { return strings.Contains(string(k.p.bytes()), fmt.Sprintf(`"read-%d-"`, rounds-1)) })
	journal := string(k.p.bytes())
	for i := range rounds {
		steer, read := strings.Index(journal, fmt.Sprintf(`"steer-%d-"`, i)), strings.Index(journal, fmt.Sprintf(`"read-%d-"`, i))
		if steer < 0 || read < steer {
			t.Errorf("round %d: the steer was answered at %d, thread/read at %d", i, steer, read)
		}
	}
}
