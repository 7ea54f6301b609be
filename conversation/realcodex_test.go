package conversation

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

func turnCompletesAndThreadRemembers(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - when: {turn: 1}
    steps:
      - - think: Let me see.
        - say: Pleased to meet you.
  - when: {turn: 2}
    reply: "Before that you said {{ .FirstUser }}"
`)
	k := c.talk(t, s)
	r := k.pump(TurnEnded, turn(1, "m-1", "I am Ada"))
	if r.Turn.Status != "completed" || r.Turn.N != 1 || r.Turn.FinalText != "Pleased to meet you." {
		t.Errorf("turn %+v", r.Turn)
	}
	if got := delivered(t, r, "m-1"); got != protocol.Acknowledged {
		t.Errorf("the message is %s", got)
	}
	if r.State.ThreadID == "" || r.State.CodexVersion == "" || r.State.Model != functions || r.State.TurnID != "" {
		t.Errorf("state %+v", r.State)
	}
	r = k.pump(TurnEnded, turn(2, "m-2", "And now?"))
	if r.Turn.FinalText != "Before that you said I am Ada" || r.Turn.N != 2 {
		t.Errorf("second turn %+v", r.Turn)
	}
	if got := k.sink.text(protocol.EntryUser); !slices.Equal(got, []string{"I am Ada", "And now?"}) {
		t.Errorf("user entries %q", got)
	}
	if got := k.sink.text(protocol.EntryReasoning); !slices.Equal(got, []string{"Let me see."}) {
		t.Errorf("reasoning %q", got)
	}
	for i, e := range k.sink.entries {
		if e.Seq != int64(i+1) {
			t.Errorf("entry %d has seq %d", i, e.Seq)
		}
	}
}

func acceptedCommandRunsAndDeclinedChangeDoesNot(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - steps:
      - - shell: {cmd: "printf made > made; cat made", escalate: true, justification: May I?}
        - shell: {cmd: "printf two > two", escalate: true, justification: And this?}
      - patch: |
          *** Begin Patch
          *** Add File: /outside.txt
          +hello
          *** End Patch
      - say: "done: {{ .LastToolOutput }}"
`)
	k := c.talk(t, s)
	k.spec.Sandbox = "read-only"
	r := k.pump(RequestsOpen, turn(1, "m-1", "make it"))
	if len(r.Requests) != 2 {
		t.Fatalf("requests %+v", r.Requests)
	}
	one, other := r.Requests[0], r.Requests[1] // codex asks in any order
	if one.Reason != "May I?" {
		one, other = other, one
	}
	if one.Kind != protocol.KindCommand || one.CWD != k.h.work || !strings.Contains(one.Command, "printf made > made") || one.Summary != "run printf made > made; cat made" {
		t.Errorf("request %+v", one)
	}
	r = k.pump(RequestsOpen, decide("d-1", one, protocol.Accept))
	if got := delivered(t, r, "d-1"); got != protocol.Acknowledged {
		t.Errorf("the decision is %s", got)
	}
	if len(r.Requests) != 0 || len(r.State.Open) != 1 {
		t.Errorf("the second request is not merely open still: %+v", r)
	}
	r = k.pump(RequestsOpen, decide("d-2", other, protocol.Decline))
	if len(r.Requests) != 1 || r.Requests[0].Kind != protocol.KindFileChange {
		t.Fatalf("requests %+v", r.Requests)
	}
	f := r.Requests[0]
	if len(f.Changes) != 1 || f.Changes[0].Kind != "add" || !strings.Contains(f.Changes[0].Diff, "hello") {
		t.Errorf("changes %+v", f.Changes)
	}
	r = k.pump(TurnEnded, decide("d-3", f, protocol.Decline))
	if r.Turn.Status != "completed" || !strings.Contains(r.Turn.FinalText, "rejected by user") {
		t.Errorf("turn %+v", r.Turn)
	}
	if got, err := os.ReadFile(filepath.Join(k.h.work, "made")); string(got) != "made" {
		t.Errorf("the accepted command left %q, %v", got, err)
	}
	for _, name := range []string{filepath.Join(k.h.work, "two"), "/outside.txt"} {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("declined, yet there is %s (%v)", name, err)
		}
	}
}

func interruptEndsTurnAndItsCommand(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - steps:
      - shell: {cmd: "touch begun; exec sleep 600", yield: 600s}
      - say: never
`)
	k := c.talk(t, s)
	in := k.input(turn(1, "m-1", "sleep"))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan PumpResult, 1)
	go func() { done <- k.run(ctx, in) }()
	begun := filepath.Join(k.h.work, "begun")
	k.sink.await(t, "the command", func() bool {
		_, err := os.Stat(begun)
		return err == nil && strings.Contains(string(k.p.bytes()), `"type":"commandExecution"`) && len(sleepers(t, k.h.work)) > 0
	})
	cancel()
	if r := <-done; r.Reason != PumpCancelled || r.State.TurnID == "" || delivered(t, r, "m-1") != protocol.Acknowledged {
		t.Fatalf("cancelled pump returned %+v", r)
	}
	r := k.pump(TurnEnded, Send{ID: "i-1", Kind: SendInterrupt})
	if r.Turn.Status != "interrupted" || delivered(t, r, "i-1") != protocol.Acknowledged {
		t.Errorf("turn %+v, deliveries %+v", r.Turn, r.Deliveries)
	}
	// codex reports a command as finished when it has sent the signal.
	k.sink.await(t, "the command's end", func() bool { return len(sleepers(t, k.h.work)) == 0 })
	r = k.pump(Bound, Send{ID: "i-2", Kind: SendInterrupt})
	if got := delivered(t, r, "i-2"); got != protocol.Void {
		t.Errorf("an interrupt of nothing is %s", got)
	}
	if n := bytes.Count(k.p.sent.bytes(), []byte(`"turn/interrupt"`)); n != 1 {
		t.Errorf("codex was told to interrupt %d times", n)
	}
}

// sleepers returns the processes that sleep in dir. (A command's own pid is of the
// sandbox's namespace.)
func sleepers(t *testing.T, dir string) (found []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		args, err := os.ReadFile(filepath.Join(p, "cmdline"))
		if err != nil {
			continue // it has ended meanwhile
		}
		cwd, err := os.Readlink(filepath.Join(p, "cwd"))
		if err == nil && cwd == dir && strings.HasPrefix(string(args), "sleep\x00") {
			found = append(found, filepath.Base(p))
		}
	}
	return found
}

func killedProcessEndsThePumpAndThreadResumes(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - when: {contains: first}
    steps:
      - - say: one two three four
        - wait: never
  - when: {contains: second}
    reply: "you said {{ .FirstUser }}"
`)
	k := c.talk(t, s)
	in := k.input(turn(1, "m-1", "first"))
	done := make(chan PumpResult, 1)
	go func() { done <- k.run(context.Background(), in) }()
	if _, err := s.AwaitWaiting(t.Context(), "never"); err != nil {
		t.Fatal(err)
	}
	k.sink.await(t, "a delta", func() bool { return len(k.sink.deltas) > 0 })
	k.p.kill()
	r := <-done
	if r.Reason != ProcessEnded || r.Turn != nil || r.State.TurnID == "" || r.Problem == nil || r.Problem.Kind != "process_exit" {
		t.Fatalf("after kill -9: %+v", r)
	}
	if got := delivered(t, r, "m-1"); got != protocol.Acknowledged {
		t.Errorf("the message is %s", got)
	}
	thread := r.State.ThreadID
	k.restart()
	r = k.pump(TurnEnded, turn(2, "m-2", "second"))
	if r.State.ThreadID != thread || r.Turn.Status != "completed" || r.Turn.FinalText != "you said first" || r.Turn.N != 2 {
		t.Errorf("after resume: thread %s, want %s; turn %+v", r.State.ThreadID, thread, r.Turn)
	}
	if !strings.Contains(string(k.p.sent.bytes()), `"sandbox":"workspace-write"`) {
		t.Error("the thread was resumed without its sandbox")
	}
}

func messageThatADeadProcessTookIsNotSentAgain(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - reply: "reply to {{ .LastUser }}"
`)
	k := c.talk(t, s)
	k.pump(TurnEnded, turn(1, "m-1", "first"))
	before := k.state
	k.pump(TurnEnded, turn(2, "m-2", "second"))
	// The workflow never learnt of the second turn: it knows only that the message
	// may have been sent, and that the process is gone.
	k.state = before
	k.restart()
	again := turn(2, "m-2", "second")
	again.Uncertain, again.Incarnation = true, 1
	if !c.has(wire.ClientIDs) {
		c.isNotKnownToHaveArrived(t, k, s, again, 2)
		return
	}
	r := k.pump(TurnEnded, again)
	if got := delivered(t, r, "m-2"); got != protocol.Acknowledged {
		t.Errorf("the message is %s", got)
	}
	if r.Turn.N != 2 || r.Turn.Status != "completed" {
		t.Errorf("turn %+v", r.Turn)
	}
	if n := len(s.Requests()); n != 2 {
		t.Errorf("the model was asked %d times, want 2", n)
	}
}

// isNotKnownToHaveArrived shows that a message is void and not sent again if codex cannot
// say whether it received the message.
func (c *codex) isNotKnownToHaveArrived(t *testing.T, k *talk, s *scriptedmodel.Server, again Send, asked int) {
	t.Helper()
	c.note = "cannot be known: void"
	if r := k.pump(Bound, again); delivered(t, r, again.ID) != protocol.Void {
		t.Errorf("deliveries %+v", r.Deliveries)
	}
	if n := len(s.Requests()); n != asked {
		t.Errorf("the model was asked %d times, want %d", n, asked)
	}
}

func missingThreadIsRefusedAndNeverReplaced(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, "rules: [{reply: hello}]")
	k := c.talk(t, s)
	k.state.ThreadID = "01a1fe13-33cc-7970-8380-7064a3872d3b"
	r := k.pump(Refused, turn(1, "m-1", "hello"))
	if r.Problem == nil || r.Problem.Kind != "thread_missing" || r.Problem.Hint == "" {
		t.Errorf("problem %+v", r.Problem)
	}
	if got := delivered(t, r, "m-1"); got != protocol.Decided {
		t.Errorf("the message is %s", got)
	}
	if strings.Contains(string(k.p.bytes()), `"thread/started"`) || len(s.Requests()) != 0 {
		t.Error("something was begun all the same")
	}
}

func commandsBearTheSessionsMark(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - steps:
      - shell: echo "mark $FAIRLEAD_SESSION"
      - say: "{{ .LastToolOutput }}"
`)
	k := c.talk(t, s)
	for n := range 2 { // started, and resumed
		r := k.pump(TurnEnded, turn(n+1, "m-"+string(rune('1'+n)), "go"))
		if !strings.Contains(r.Turn.FinalText, "mark a-session") {
			t.Errorf("turn %+v", r.Turn)
		}
		k.restart()
	}
}

func openingThatWasBrokenOffIsTakenUp(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, "rules: [{reply: hello}]")
	k := c.talk(t, s)
	before := k.state
	k.pump(Bound) // opened, but the result was lost
	at := k.state.Cursor
	k.state = before
	k.state.Cursor, k.state.Rewind = at, at.Offset
	r := k.pump(TurnEnded, turn(1, "m-1", "hello"))
	if r.Turn.FinalText != "hello" || r.State.CodexVersion == "" {
		t.Errorf("turn %+v, state %+v", r.Turn, r.State)
	}
}

func busyThreadIsRefused(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, "rules: [{reply: hello}]")
	k := c.talk(t, s)
	k.pump(TurnEnded, turn(1, "m-1", "hello"))
	k.p = k.h.start() // beside the first process, which has the thread
	k.state.Cursor, k.state.Rewind = protocol.Cursor{Incarnation: 2}, 0
	if !c.has(wire.WriterLock) {
		c.note = "both have it"
		if r := k.pump(Bound); r.State.Opened != 2 {
			t.Errorf("state %+v", r.State)
		}
		return
	}
	if r := k.pump(Refused); r.Problem.Kind != "thread_busy" {
		t.Errorf("problem %+v", r.Problem)
	}
}
