package conversation

import (
	"testing"

	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// interruptReachesATurnThatOnlyBegins shows that an interrupt ends its turn even if it is
// sent together with the turn's message, to a process that has just started.
func interruptReachesATurnThatOnlyBegins(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - when: {contains: go on}
    reply: gone on
  - steps:
      - - say: hm
        - wait: never
`)
	k := c.talk(t, s)
	in := k.input(turn(1, "m-1", "hello"), Send{ID: "i-1", Kind: SendInterrupt, Turn: 1})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("sent:\n%s\njournal:\n%s", k.p.sent.bytes(), k.p.bytes())
		}
	})
	r := k.run(t.Context(), in)
	if r.Reason != TurnEnded || r.Turn == nil || r.Turn.Status != "interrupted" || delivered(t, r, "i-1") != protocol.Acknowledged {
		t.Fatalf("the pump returned %+v", r)
	}
	k.state = r.State
	if r := k.pump(TurnEnded, turn(2, "m-2", "go on")); r.Turn.N != 2 || r.Turn.Status != "completed" {
		t.Errorf("the next turn is %+v", r.Turn)
	}
}
