package conversation

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// withGoals switches codex's goals on. With an active goal, codex begins turns by
// itself.
func withGoals(t *testing.T, h *home) {
	t.Helper()
	name := filepath.Join(h.dir, "config.toml")
	config, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(config, "goals = true\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
}

func startsOf(p *process, message string) int {
	return bytes.Count(p.sent.bytes(), []byte(`"clientUserMessageId":"`+message+`"`))
}

// setsAGoal is a script that ends its turn when the gate is released.
const setsAGoal = `
rules:
  - steps:
      - call: {name: create_goal, arguments: {objective: "make it"}}
      - - wait: {gate: set}
        - say: the goal is set
`

// pursue lets codex set a goal, and returns when the first continuation has begun. The
// script next answers the continuations. Its first step is never requested.
func pursue(t *testing.T, next string) *talk {
	t.Helper()
	s := scriptedmodel.Serve(t, setsAGoal)
	h := newHome(t, s)
	withGoals(t, h)
	k := talkAt(t, h)
	script, err := scriptedmodel.Parse([]byte(next))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if _, err := s.AwaitWaiting(t.Context(), "set"); err != nil {
			return // the pump reports the turn
		}
		if err := s.SetScript(script); err != nil {
			t.Error(err)
		}
		s.Release("set")
	}()
	k.spec.Sandbox = "read-only"
	r := k.pump(TurnEnded, turn(1, "m-1", "pursue it"))
	if r.Turn.Foreign || r.Turn.FinalText != "the goal is set" || !r.State.Restless || !r.Begun {
		t.Fatalf("turn %+v, begun %v, state %+v", r.Turn, r.Begun, r.State)
	}
	return k
}

func TestTurnOfAGoalIsCodexsOwnAndAMessageWaitsForIt(t *testing.T) {
	k := pursue(t, `
rules:
  - when: {contains: hello}
    reply: "you said {{ .LastUser }}"
  - steps:
      - call: {name: create_goal, arguments: {}}
      - shell: {cmd: "printf made > made", escalate: true, justification: May I?}
      - call: {name: update_goal, arguments: {status: complete}}
      - say: made
`)
	// The message arrives while codex is in a turn that it began by itself.
	r := k.pump(TurnBegun, turn(2, "m-2", "hello"))
	if delivered(t, r, "m-2") != protocol.Decided || !r.State.Foreign || r.State.Turn != 2 {
		t.Fatalf("%+v", r)
	}
	if len(r.Requests) == 0 {
		r = k.pump(RequestsOpen)
	}
	if len(r.Requests) != 1 || r.Requests[0].Reason != "May I?" {
		t.Fatalf("requests %+v", r.Requests)
	}
	// The worker has died, and another attempt has the same input.
	in := k.input(decide("d-1", r.Requests[0], protocol.Accept))
	k.opt.Attempt = 2
	r = k.run(t.Context(), in)
	k.opt.Attempt = 0
	if r.Reason != TurnEnded || !r.Turn.Foreign || r.Turn.N != 2 || r.Turn.FinalText != "made" || r.Turn.Usage == (protocol.Usage{}) || r.State.Restless {
		t.Fatalf("%s, turn %+v", r.Reason, r.Turn)
	}
	if made, err := os.ReadFile(filepath.Join(k.h.work, "made")); string(made) != "made" {
		t.Errorf("the accepted command left %q, %v", made, err)
	}
	r = k.pump(TurnEnded, turn(3, "m-2", "hello"))
	if r.Turn.Foreign || r.Turn.N != 3 || r.Turn.FinalText != "you said hello" || startsOf(k.p, "m-2") != 1 {
		t.Errorf("turn %+v, sent %d times", r.Turn, startsOf(k.p, "m-2"))
	}
	if got := k.sink.text(protocol.EntryUser); len(got) != 2 {
		t.Errorf("user messages %q", got)
	}
}

// A resumed thread continues its goal at once. A message that comes meanwhile is taken into
// that turn or waits for its end, and is sent once.
func TestMessageToAResumedThreadWithAGoalIsSaidOnce(t *testing.T) {
	k := pursue(t, `
rules:
  - when: {contains: hello}
    steps:
      - call: {name: update_goal, arguments: {status: complete}}
      - say: "you said {{ .LastUser }}"
  - steps:
      - call: {name: create_goal, arguments: {}}
      - wait: never
`)
	k.pump(TurnBegun)
	k.restart()
	n := 3
	r := k.run(t.Context(), k.input(turn(n, "m-2", "hello")))
	for ; r.Reason != TurnEnded || r.Turn.Foreign; n++ {
		if n > 8 || delivered(t, r, "m-2") != protocol.Decided {
			t.Fatalf("%+v", r)
		}
		if r.Reason == TurnBegun { // the turn does not end by itself
			k.pump(TurnEnded, Send{ID: "i", Kind: SendInterrupt})
		}
		r = k.run(t.Context(), k.input(turn(n+1, "m-2", "hello")))
	}
	if startsOf(k.p, "m-2") != 1 || delivered(t, r, "m-2") != protocol.Acknowledged || r.Turn.FinalText != "you said hello" {
		t.Errorf("sent %d times, turn %+v", startsOf(k.p, "m-2"), r.Turn)
	}
}

// An interrupt ends a continuation, and codex begins no other.
func TestInterruptEndsTheTurnsOfAGoal(t *testing.T) {
	k := pursue(t, `
rules:
  - when: {contains: hello}
    reply: hello
  - steps:
      - call: {name: create_goal, arguments: {}}
      - wait: never
`)
	k.pump(TurnBegun)
	r := k.pump(TurnEnded, Send{ID: "i", Kind: SendInterrupt})
	if !r.Turn.Foreign || r.Turn.Status != "interrupted" || r.Begun {
		t.Errorf("%+v", r)
	}
	if r = k.pump(TurnEnded, turn(3, "m-2", "hello")); r.Turn.Foreign || r.Turn.FinalText != "hello" {
		t.Errorf("%+v", r.Turn)
	}
}
