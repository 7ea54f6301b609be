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

// slow returns a model that talks for a while. It ends by itself if no steer ends it
// earlier.
func (c *codex) slow(t *testing.T) *scriptedmodel.Server {
	t.Helper()
	end := ""
	if c.has(wire.SteerCuts) {
		end = "\n        - wait: never"
	}
	return scriptedmodel.Serve(t, `
rules:
  - when: {contains: slow}
    steps:
      - - say: {text: "one two three four five six seven eight", pace: 250ms}`+end+`
  - reply: "you said {{ .LastUser }}"
`)
}

func steerReachesTheTurn(t *testing.T, c *codex) {
	k := c.talk(t, c.slow(t))
	in := k.input(turn(1, "m-1", "slow"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan PumpResult, 1)
	go func() { done <- k.run(ctx, in) }()
	k.sink.await(t, "the stream", func() bool { return len(k.sink.deltas) > 0 })
	cancel()
	before := (<-done).State.TurnID
	r := k.pump(TurnEnded, Send{ID: "s-1", Kind: SendSteer, Text: "faster"})
	if delivered(t, r, "s-1") != protocol.Acknowledged || r.Turn.ID != before || r.Turn.Status != "completed" || !strings.Contains(r.Turn.FinalText, "you said faster") {
		t.Errorf("turn %+v, deliveries %+v", r.Turn, r.Deliveries)
	}
}

func steerOfAnotherTurnIsRefused(t *testing.T, c *codex) {
	l := c.line(t, c.talk(t, c.slow(t)))
	thread := l.thread(nil)
	steer := func(turn string) error {
		p := say(thread, "faster")
		p["expectedTurnId"] = turn
		return l.call(wire.MethodTurnSteer, p, nil)
	}
	if err := steer("none"); err == nil || !strings.Contains(err.Error(), "no active turn") {
		t.Errorf("with no turn: %v", err)
	}
	l.turn(thread, "slow")
	l.streams()
	if err := steer("another"); err == nil || !strings.Contains(err.Error(), "expected active turn id") {
		t.Errorf("of another turn: %v", err)
	}
}

// interruptOfAnEndedTurn shows that older versions answer an interrupt only when a turn
// ends. The pump does not wait for the answer, because the end of the turn settles the
// interrupt.
func interruptOfAnEndedTurn(t *testing.T, c *codex) {
	k := c.talk(t, c.slow(t))
	l := c.line(t, k)
	thread := l.thread(nil)
	id := l.turn(thread, "slow")
	l.streams()
	l.must(wire.MethodInterrupt, map[string]any{"threadId": thread, "turnId": id}, nil)
	l.ended(id, "interrupted")
	again := fmt.Sprintf(`{"id":"again-","method":"turn/interrupt","params":{"threadId":%q,"turnId":%q}}`+"\n", thread, id)
	if _, err := k.p.stdin.Write([]byte(again)); err != nil {
		t.Fatal(err)
	}
	answered := func() bool { return bytes.Contains(k.p.bytes(), []byte(`"again-"`)) }
	if c.has(wire.EndedRefused) {
		k.sink.await(t, "the answer", answered)
		return
	}
	c.note = "it is answered late or never, and does nothing"
	for _, text := range []string{"a", "b", "c"} {
		l.ended(l.turn(thread, text), "completed")
	}
	if answered() && !bytes.Contains(k.p.bytes(), []byte(`{"id":"again-","result":{}}`)) {
		t.Error("it is refused")
	}
}

func turnStartInATurnSteers(t *testing.T, c *codex) {
	l := c.line(t, c.talk(t, c.slow(t)))
	thread := l.thread(nil)
	id := l.turn(thread, "slow")
	l.streams()
	if again := l.turn(thread, "and then"); (again == id) != c.has(wire.SteeredTurnID) {
		t.Errorf("answered with turn %s, running is %s", again, id)
	}
	if got := l.ended(id, "completed"); !strings.Contains(got, "you said and then") {
		t.Errorf("the model said %q", got)
	}
	c.note = "yes, under its id"
	if !c.has(wire.SteeredTurnID) {
		c.note = "yes, under another id"
	}
}

// barrierIsAnsweredBehindATurn shows that if thread/read is answered and turn/start is not,
// codex never received the turn/start.
func barrierIsAnsweredBehindATurn(t *testing.T, c *codex) {
	k := c.talk(t, scriptedmodel.Serve(t, `rules: [{reply: hello}]`))
	l := c.line(t, k)
	const rounds = 20
	for i := range rounds {
		thread := l.thread(nil)
		lines := fmt.Sprintf(`{"id":"start-%d-","method":"turn/start","params":{"threadId":%q,"input":[{"type":"text","text":"x"}]}}
{"id":"read-%d-","method":"thread/read","params":{"threadId":%q,"includeTurns":false}}
`, i, thread, i, thread)
		if _, err := k.p.stdin.Write([]byte(lines)); err != nil {
			t.Fatal(err)
		}
	}
	answers := func(what string, i int) int {
		return bytes.Index(k.p.bytes(), []byte(fmt.Sprintf(`"id":"%s-%d-"`, what, i)))
	}
	// Requests for different threads are answered concurrently, so the last answer may come
	// before others.
	k.sink.await(t, "all answers", func() bool {
		for i := range rounds {
			if answers("read", i) < 0 {
				return false
			}
		}
		return true
	})
	for i := range rounds {
		if start, read := answers("start", i), answers("read", i); start < 0 || read < start {
			t.Errorf("round %d: turn/start was answered at %d, thread/read at %d", i, start, read)
		}
	}
}
