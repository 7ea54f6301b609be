package conversation

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

func act(n int, id string, do protocol.Act) Send {
	s := Send{ID: id, Kind: SendTurn, Turn: n, Do: do}
	if do == protocol.ActReview {
		s.Review = &protocol.Review{Instructions: "look at the patch"}
	}
	return s
}

const actScript = `
rules:
  - when: {contains: look at the patch}
    reply: It is a fine patch.
  - reply: hello
`

// began counts the items of this type that codex began, by its journal.
func (k *talk) began(item string) int {
	return bytes.Count(k.p.bytes(), []byte(`"method":"item/started","params":{"item":{"type":"`+item+`"`))
}

// actsAreTurns shows that a compaction and a review are turns of the session. It also shows
// that a second attempt finds in the journal an act that may have begun.
func actsAreTurns(t *testing.T, c *codex) {
	k := c.talk(t, scriptedmodel.Serve(t, actScript))
	k.pump(TurnEnded, turn(1, "m-1", "hello"))
	for n, do := range []protocol.Act{protocol.ActCompact, protocol.ActReview} {
		before, id := k.state, "act-"+string(do)
		r := k.pump(TurnEnded, act(n+2, id, do))
		if r.Turn.N != n+2 || r.Turn.Status != "completed" || delivered(t, r, id) != protocol.Acknowledged || r.Turn.Effects {
			t.Errorf("%s: turn %+v, deliveries %+v", do, r.Turn, r.Deliveries)
		}
		if do == protocol.ActReview && r.Turn.FinalText != "It is a fine patch." {
			t.Errorf("the review says %q", r.Turn.FinalText)
		}
		// The workflow never learnt of the act.
		after, again := k.state, act(n+2, id, do)
		k.state, again.Uncertain = before, true
		r = k.pump(TurnEnded, again)
		if r.Turn.N != n+2 || r.Turn.Status != "completed" || delivered(t, r, id) != protocol.Acknowledged {
			t.Errorf("%s, again: turn %+v, deliveries %+v", do, r.Turn, r.Deliveries)
		}
		k.state = after
	}
	if a, b := k.began("contextCompaction"), k.began("enteredReviewMode"); a != 1 || b != 1 {
		t.Errorf("codex began %d compactions and %d reviews, want one each", a, b)
	}
	if r := k.pump(TurnEnded, turn(4, "m-4", "and now")); r.Turn.N != 4 || r.Turn.FinalText != "hello" {
		t.Errorf("the next turn is %+v", r.Turn)
	}
}

// reviewIsInterrupted shows that a review takes no steer, and that an interrupt
// ends it.
func reviewIsInterrupted(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - when: {contains: look at the patch}
    steps:
      - - say: hm
        - wait: never
  - reply: hello
`)
	k := c.talk(t, s)
	k.pump(TurnEnded, turn(1, "m-1", "hello"))
	in := k.input(act(2, "r-1", protocol.ActReview))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan PumpResult, 1)
	go func() { done <- k.run(ctx, in) }()
	if _, err := s.AwaitWaiting(t.Context(), "never"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if r := <-done; r.Reason != PumpCancelled || r.State.Turn != 2 || delivered(t, r, "r-1") != protocol.Acknowledged {
		t.Fatalf("cancelled pump returned %+v", r)
	}
	steer := []Send{{ID: "s-0", Kind: SendSteer, Turn: 1, Text: "of another turn"}}
	if c.has(wire.SteeredTurnID) { // older versions accept a steer and lose it; no session sends one to them
		steer = append(steer, Send{ID: "s-1", Kind: SendSteer, Turn: 2, Text: "of this turn"})
	}
	r := k.pump(TurnEnded, append(steer, Send{ID: "i-1", Kind: SendInterrupt})...)
	for _, s := range steer {
		if delivered(t, r, s.ID) != protocol.Void {
			t.Errorf("a steer %s is %+v", s.Text, r.Deliveries)
		}
	}
	if r.Turn.N != 2 || r.Turn.Status != "interrupted" || delivered(t, r, "i-1") != protocol.Acknowledged {
		t.Errorf("turn %+v, deliveries %+v", r.Turn, r.Deliveries)
	}
	if r := k.pump(TurnEnded, turn(3, "m-3", "go on")); r.Turn.N != 3 || r.Turn.Status != "completed" {
		t.Errorf("the next turn is %+v", r.Turn)
	}
}

// actOfADeadProcessIsVoid shows that an act of a dead process is void, because codex's
// history does not show whether the act began.
func actOfADeadProcessIsVoid(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, actScript)
	k := c.talk(t, s)
	k.pump(TurnEnded, turn(1, "m-1", "hello"))
	before := k.state
	k.pump(TurnEnded, act(2, "act-1", protocol.ActCompact))
	asked := len(s.Requests())
	k.state = before
	k.restart()
	again := act(2, "act-1", protocol.ActCompact)
	again.Uncertain, again.Incarnation = true, 1
	if r := k.pump(Bound, again); delivered(t, r, "act-1") != protocol.Void {
		t.Errorf("deliveries %+v", r.Deliveries)
	}
	if n := len(s.Requests()); n != asked {
		t.Errorf("the model was asked %d times, want %d", n, asked)
	}
}

// actsAreBehindTheBarrier shows that thread/read is answered after acts that were begun
// before it.
func actsAreBehindTheBarrier(t *testing.T, c *codex) {
	const rounds = 10
	k := c.talk(t, scriptedmodel.Serve(t, actScript))
	l := c.line(t, k)
	for i := range rounds {
		thread := l.thread(nil)
		l.ended(l.turn(thread, "hello"), "completed")
		begin := fmt.Sprintf(`{"id":"act-%d-","method":"thread/compact/start","params":{"threadId":%q}}`, i, thread)
		if i%2 == 0 {
			begin = fmt.Sprintf(`{"id":"act-%d-","method":"review/start","params":{"threadId":%q,"target":{"type":"custom","instructions":"look at the patch"},"delivery":"inline"}}`, i, thread)
		}
		if _, err := fmt.Fprintf(k.p.stdin, "%s\n"+`{"id":"read-%d-","method":"thread/read","params":{"threadId":%q,"includeTurns":false}}`+"\n", begin, i, thread); err != nil {
			t.Fatal(err)
		}
	}
	answers := func(what string, i int) int {
		return bytes.Index(k.p.bytes(), fmt.Appendf(nil, `"id":"%s-%d-"`, what, i))
	}
	k.sink.await(t, "the last answer", func() bool { return answers("read", rounds-1) >= 0 })
	for i := range rounds {
		if begun, read := answers("act", i), answers("read", i); begun < 0 || read < begun {
			t.Errorf("round %d: the act was answered at %d, thread/read at %d", i, begun, read)
		}
	}
}

// modelsAreListedAndTheThreadIsNamed shows the requests of a pump that its turn does not
// need.
func modelsAreListedAndTheThreadIsNamed(t *testing.T, c *codex) {
	k := c.talk(t, scriptedmodel.Serve(t, actScript))
	k.spec.Name = "the October release"
	r := k.pump(TurnEnded, turn(1, "m-1", "hello"))
	m, ok := r.Models.Find(functions)
	if !ok || len(m.Efforts) < 3 || m.DefaultEffort == "" || r.Models.Codex != c.version || r.State.Provider == "" {
		t.Errorf("models %+v", r.Models)
	}
	for _, m := range r.Models.Models {
		if strings.Contains(m.ID, "auto-review") {
			t.Errorf("a hidden model is listed: %+v", m)
		}
	}
	in := k.input()
	in.Models = true
	if r = k.run(t.Context(), in); r.Reason != Bound || len(r.Models.Models) == 0 || r.State.Named != k.spec.Name {
		t.Errorf("asked anew: %s, %+v, named %q", r.Reason, r.Models, r.State.Named)
	}
	k.state = r.State
	// A pump does not wait for notifications that follow an answer.
	k.sink.await(t, "codex saying that the thread has its name", func() bool {
		return bytes.Contains(k.p.bytes(), []byte(`"threadName":"the October release"`))
	})
	// A turn may end before codex has answered. Then the next pump asks again.
	naming := func() int { return bytes.Count(k.p.sent.bytes(), []byte(`"thread/name/set"`)) }
	before := naming()
	if r := k.pump(Bound); before == 0 || naming() != before || len(r.Models.Models) != 0 {
		t.Errorf("codex was told again, or asked: %+v", r.Models)
	}
}

func modelIsSwitchedForTheNextTurn(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, actScript)
	k := c.talk(t, s)
	k.pump(TurnEnded, turn(1, "m-1", "hello"))
	next := turn(2, "m-2", "hello again")
	next.Model, next.Effort = functions, "high"
	if r := k.pump(TurnEnded, next); r.Turn.Status != "completed" {
		t.Errorf("turn %+v", r.Turn)
	}
	all := s.Requests()
	if first, last := string(all[0].Body), string(all[len(all)-1].Body); strings.Contains(first, `"effort":"high"`) || !strings.Contains(last, `"effort":"high"`) {
		t.Error("the effort is not that of the second turn, or was of the first")
	}
}

// interruptEndsChildrenToo shows that the children of a command end with the command.
func interruptEndsChildrenToo(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - steps:
      - shell: {cmd: "(sleep 600 & sleep 600) & touch begun; sleep 600", yield: 600s}
      - say: never
`)
	k := c.talk(t, s)
	in := k.input(turn(1, "m-1", "sleep"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan PumpResult, 1)
	go func() { done <- k.run(ctx, in) }()
	k.sink.await(t, "the commands", func() bool {
		_, err := os.Stat(filepath.Join(k.h.work, "begun"))
		return err == nil && bytes.Contains(k.p.bytes(), []byte(`"type":"commandExecution"`)) && len(sleepers(t, k.h.work)) == 3
	})
	cancel()
	<-done
	r := k.pump(TurnEnded, Send{ID: "i-1", Kind: SendInterrupt})
	if r.Turn.Status != "interrupted" {
		t.Errorf("turn %+v", r.Turn)
	}
	k.sink.await(t, "the commands' end", func() bool { return len(sleepers(t, k.h.work)) == 0 })
}

// reviewFailsAlone shows that a failed review does not affect the next turn's end.
func reviewFailsAlone(t *testing.T, c *codex) {
	for _, kind := range []string{"bad_request", "usage_limit", "failed, code: insufficient_quota", "incomplete"} {
		k := c.talk(t, scriptedmodel.Serve(t, `
rules:
  - when: {contains: look at the patch}
    steps: [[{fail: {kind: `+kind+`, times: -1}}, {say: never}]]
  - reply: hello
`))
		k.pump(TurnEnded, turn(1, "m-1", "hello"))
		if r := k.pump(TurnEnded, act(2, "m-2", protocol.ActReview)); r.Turn.Status != "failed" || r.Turn.Problem == nil {
			t.Errorf("%s: the review is %+v", kind, r.Turn)
		}
		for n := 3; n < 5; n++ {
			if r := k.pump(TurnEnded, turn(n, fmt.Sprint("m-", n), "and now")); r.Turn.Status != "completed" || r.Turn.FinalText != "hello" {
				t.Errorf("%s: turn %d, behind the review, is %+v", kind, n, r.Turn)
			}
		}
	}
}
