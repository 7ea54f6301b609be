package conversation

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// These tests are about a thread that continues on another host: in a new CODEX_HOME that
// has only its rollouts, with another work folder. codex is told what happened.

// remembers is a model whose answer shows the messages that it got.
const remembers = `
rules:
  - reply: "{{ join .UserMessages \", \" }}"
`

const whatHappened = "The host was lost. You go on on another one."

func rollouts(t *testing.T, h *home) (names []string) {
	t.Helper()
	err := filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".jsonl") {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// elsewhere ends codex and starts another on another host. The new one gets the rollouts of
// these threads, or all rollouts if none is named.
func (k *talk) elsewhere(s *scriptedmodel.Server, threads ...string) {
	k.t.Helper()
	k.p.kill()
	here, there := k.h, newHome(k.t, s)
	there.codex = here.codex
	for _, name := range rollouts(k.t, here) {
		if len(threads) > 0 && !slices.ContainsFunc(threads, func(id string) bool { return strings.Contains(name, id) }) {
			continue
		}
		rel, err := filepath.Rel(here.dir, name)
		if err != nil {
			k.t.Fatal(err)
		}
		copyFile(k.t, name, filepath.Join(there.dir, rel))
	}
	k.h, k.p = there, there.start()
	k.spec.CWD = there.work
	k.state.Cursor, k.state.Rewind = protocol.Cursor{Incarnation: k.state.Cursor.Incarnation + 1}, 0
}

type modelMessage struct {
	Type    string `json:"type"`
	Role    string `json:"role"`
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
}

// sentToModel returns the messages of the newest request.
func sentToModel(t *testing.T, s *scriptedmodel.Server) (all []modelMessage) {
	t.Helper()
	reqs := s.Requests()
	var body struct {
		Input []modelMessage `json:"input"`
	}
	if err := json.Unmarshal(reqs[len(reqs)-1].Body, &body); err != nil {
		t.Fatal(err)
	}
	for _, m := range body.Input {
		if m.Type == "message" {
			all = append(all, m)
		}
	}
	return all
}

// tellings returns how often the model got the text as a separate developer message. It
// fails the test if the model got the text in any other way.
func tellings(t *testing.T, s *scriptedmodel.Server, text string) (n int) {
	t.Helper()
	for _, m := range sentToModel(t, s) {
		for _, c := range m.Content {
			if !strings.Contains(c.Text, text) {
				continue
			}
			if m.Role != "developer" || len(m.Content) != 1 || c.Text != text {
				t.Errorf("it was sent as %+v", m)
			}
			n++
		}
	}
	return n
}

func threadGoesOnElsewhereAndIsToldOnce(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, remembers)
	k := c.talk(t, s)
	k.spec.Effort = "low"
	k.pump(TurnEnded, turn(1, "m-1", "one"))
	k.pump(TurnEnded, turn(2, "m-2", "two"))
	thread, first := k.state.ThreadID, k.h.work
	k.elsewhere(s)
	k.spec.Effort = "high"

	// codex is told before there is a turn, and this begins no turn.
	in := k.input()
	in.Tell = &Tell{ID: "t-1", Text: whatHappened}
	if r := k.run(t.Context(), in); r.Reason != Bound || delivered(t, r, "t-1") != protocol.Acknowledged {
		t.Fatalf("result %+v", r)
	}
	if n := len(s.Requests()); n != 2 {
		t.Errorf("the model was asked %d times for two turns", n)
	}
	k.restart() // the message survives the process

	for i, text := range []string{"three", "four"} {
		r := k.pump(TurnEnded, turn(3+i, "m-"+text, text))
		want := strings.Join([]string{"one", "two", "three", "four"}[:3+i], ", ")
		if r.Turn.FinalText != want || r.Turn.N != 3+i || r.State.ThreadID != thread {
			t.Errorf("the model knows %q, want %q; turn %d of thread %s, want %s", r.Turn.FinalText, want, r.Turn.N, r.State.ThreadID, thread)
		}
		if n := tellings(t, s, whatHappened); n != 1 {
			t.Errorf("the model was told %d times", n)
		}
	}
	if got := k.sink.text(protocol.EntryUser); !slices.Equal(got, []string{"one", "two", "three", "four"}) {
		t.Errorf("words of a person: %q", got)
	}
	if got := k.sink.text(protocol.EntryState); !slices.Contains(got, whatHappened) {
		t.Errorf("what it was told is not on record: %q", got)
	}
	reqs := s.Requests()
	last := string(reqs[len(reqs)-1].Body)
	if !strings.Contains(last, "<cwd>"+k.h.work+"</cwd>") || !strings.Contains(last, "<cwd>"+first+"</cwd>") {
		t.Error("the model does not know both folders")
	}
	if !strings.Contains(last, `"effort":"high"`) || reqs[len(reqs)-1].Model != functions {
		t.Errorf("the model was asked as %s with another effort", reqs[len(reqs)-1].Model)
	}
}

func sandboxAndApprovalsHoldElsewhere(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - when: {contains: write}
    steps:
      - shell: echo here > here
      - say: "{{ .LastToolOutput }}"
  - when: {contains: escape}
    steps:
      - shell: {cmd: "echo out > ../out", escalate: true, justification: May I?}
      - say: "{{ .LastToolOutput }}"
  - reply: hello
`)
	k := c.talk(t, s)
	k.pump(TurnEnded, turn(1, "m-1", "hello"))
	k.elsewhere(s)
	k.pump(TurnEnded, turn(2, "m-2", "write"))
	if got, err := os.ReadFile(filepath.Join(k.h.work, "here")); string(got) != "here\n" {
		t.Errorf("the work folder of the new host has %q, %v", got, err)
	}
	r := k.pump(RequestsOpen, turn(3, "m-3", "escape"))
	if r.Requests[0].CWD != k.h.work {
		t.Errorf("it is to be run in %s, want %s", r.Requests[0].CWD, k.h.work)
	}
	k.pump(TurnEnded, decide("d-1", r.Requests[0], protocol.Decline))
	if _, err := os.Stat(filepath.Join(k.h.work, "..", "out")); !os.IsNotExist(err) {
		t.Errorf("declined, yet it was written (%v)", err)
	}
}

func tornRolloutGoesOnElsewhere(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, remembers)
	for name, tear := range map[string]func([]byte) []byte{
		"cut in its last line": func(b []byte) []byte { return b[:len(b)-30] },
		"a line begun":         func(b []byte) []byte { return append(b, `{"timestamp":"2026-`...) },
	} {
		k := c.talk(t, s)
		k.pump(TurnEnded, turn(1, "m-1", "one"))
		k.pump(TurnEnded, turn(2, "m-2", "two"))
		k.elsewhere(s)
		k.p.kill()
		file := rollouts(t, k.h)[0]
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, tear(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k.restart()
		in := k.input(turn(3, "m-3", "three"))
		in.Tell = &Tell{ID: "t-1", Text: whatHappened}
		if r := k.run(t.Context(), in); r.Turn == nil || r.Turn.FinalText != "one, two, three" || tellings(t, s, whatHappened) != 1 {
			t.Errorf("%s: result %+v, turn %+v", name, r, r.Turn)
		}
		// A codex that repairs the torn line also reads the lines after it. Another codex
		// loses the first line after it.
		told := 1
		if !c.has(wire.TornTailMended) {
			c.note, told = "what it was told is lost at the next resume", 0
		}
		k.restart()
		if r := k.pump(TurnEnded, turn(4, "m-4", "four")); r.Turn.FinalText != "one, two, three, four" || tellings(t, s, whatHappened) != told {
			t.Errorf("%s: resumed again, turn %+v", name, r.Turn)
		}
	}
}

func forkElsewhereHasTheHistoryAndLeavesItsSourceAlone(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, remembers)
	k := c.talk(t, s)
	k.pump(TurnEnded, turn(1, "m-1", "one"))
	source := k.state.ThreadID
	k.elsewhere(s)
	before, err := os.ReadFile(rollouts(t, k.h)[0])
	if err != nil {
		t.Fatal(err)
	}
	k.state = PumpState{Cursor: protocol.Cursor{Incarnation: 1}, ThreadID: source} // another session's
	in := k.input(turn(1, "n-1", "two"))
	in.Fork, in.Tell = true, &Tell{ID: "t-1", Text: whatHappened}
	r := k.run(t.Context(), in)
	if r.Reason != TurnEnded || r.Turn.FinalText != "one, two" || r.State.ThreadID == source || r.State.ForkedFrom != source {
		t.Fatalf("result %+v, turn %+v", r, r.Turn)
	}
	if n := tellings(t, s, whatHappened); n != 1 {
		t.Errorf("the model was told %d times", n)
	}
	fork := k.state.ThreadID
	k.restart()
	in = k.input(turn(2, "n-2", "three"))
	in.Fork = true // as in each input of a session that was opened as a fork
	if r := k.run(t.Context(), in); r.Turn == nil || r.Turn.FinalText != "one, two, three" || r.State.ThreadID != fork || tellings(t, s, whatHappened) != 1 {
		t.Errorf("result %+v, turn %+v", r, r.Turn)
	}
	for _, name := range rollouts(t, k.h) {
		if !strings.Contains(name, source) {
			continue
		}
		if after, err := os.ReadFile(name); string(after) != string(before) {
			t.Errorf("the source has changed (%v)", err)
		}
	}
	if n := len(rollouts(t, k.h)); n != 2 {
		t.Errorf("there are %d rollouts, want the source and its fork", n)
	}
}

func forkIsNotForkedAgainByALaterAttempt(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, remembers)
	k := c.talk(t, s)
	k.pump(TurnEnded, turn(1, "m-1", "one"))
	source := k.state.ThreadID
	k.restart()
	k.state = PumpState{Cursor: protocol.Cursor{Incarnation: 2}, ThreadID: source}
	before, in := k.state, k.input()
	in.Fork, in.Tell = true, &Tell{ID: "t-1", Text: whatHappened}
	fork := k.run(t.Context(), in).State.ThreadID
	// The result was lost, so the same input runs again, with a turn.
	k.state = before
	k.opt.Attempt = 2
	in.Sends = []Send{turn(1, "n-1", "two")}
	r := k.run(t.Context(), in)
	if r.Turn == nil || r.State.ThreadID != fork || fork == source || delivered(t, r, "t-1") != protocol.Acknowledged {
		t.Fatalf("thread %s, want %s; result %+v", r.State.ThreadID, fork, r)
	}
	if n := tellings(t, s, whatHappened); n != 1 {
		t.Errorf("the model was told %d times", n)
	}
	if n := len(rollouts(t, k.h)); n != 2 {
		t.Errorf("there are %d rollouts, want the source and its fork", n)
	}
}

func forkWithoutItsParentIsRefused(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, remembers)
	k := c.talk(t, s)
	k.pump(TurnEnded, turn(1, "m-1", "one"))
	source := k.state.ThreadID
	k.restart()
	k.state = PumpState{Cursor: protocol.Cursor{Incarnation: 1}, ThreadID: source}
	in := k.input(turn(1, "n-1", "two"))
	in.Fork = true
	fork := k.run(t.Context(), in).State.ThreadID
	all := k.h
	k.elsewhere(s, fork)
	if !c.has(wire.ForkByLineage) {
		c.note = "goes on: it has the history"
		if r := k.pump(TurnEnded, turn(2, "n-2", "three")); r.Turn.FinalText != "one, two, three" || r.State.ThreadID != fork {
			t.Errorf("turn %+v", r.Turn)
		}
		return
	}
	c.note = "refused"
	if r := k.pump(Refused, turn(2, "n-2", "three")); r.Problem.Kind != "thread_missing" {
		t.Errorf("problem %+v", r.Problem)
	}
	k.h = all
	k.elsewhere(s, fork, source)
	if r := k.pump(TurnEnded, turn(2, "n-2", "three")); r.Turn.FinalText != "one, two, three" || r.State.ThreadID != fork {
		t.Errorf("with its parent: turn %+v", r.Turn)
	}
}

// If a message was written before the process was killed, that process's journal shows it,
// or it is not sent again. So the model gets it at most once.
func killedWhileToldIsToldAtMostOnce(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, remembers)
	k := c.talk(t, s)
	k.pump(TurnEnded, turn(1, "m-1", "one"))
	k.restart()
	before := k.state
	in := k.input()
	in.Tell = &Tell{ID: "t-1", Text: whatHappened}
	k.run(t.Context(), in)
	// The workflow knows only that a pump was to tell codex and returned no result.
	k.state = before
	k.restart()
	in = k.input(turn(2, "m-2", "two"))
	in.Tell = &Tell{ID: "t-1", Text: whatHappened, Incarnation: before.Cursor.Incarnation}
	r := k.run(t.Context(), in)
	if r.Turn == nil || delivered(t, r, "t-1") != protocol.Void {
		t.Fatalf("result %+v", r)
	}
	if n := tellings(t, s, whatHappened); n != 1 {
		t.Errorf("the model was told %d times", n)
	}
}
