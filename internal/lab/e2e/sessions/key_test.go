package sessions

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

type started struct {
	ID       string `json:"id"`
	N        int    `json:"n"`
	Message  string `json:"message_id"`
	Existing bool   `json:"existing"`
}

// start runs `session start` on web-1 and closes the session when the test
// ends.
func start(t *testing.T, flags ...string) started {
	t.Helper()
	var s started
	if err := e2e.Lab.JSON(e2e.Within(t), &s, append([]string{"session", "start", "--host", "web-1", "--seed", "team"}, flags...)...); err != nil {
		t.Fatal(err)
	}
	return s
}

// reused checks the error for a key that is used for something else.
func reused(t *testing.T, r lab.Result, says string) {
	t.Helper()
	if !strings.Contains(r.Stdout, `"kind":"key_reused"`) || !strings.Contains(r.Stderr, says) {
		t.Errorf("it does not say that the key is used for %q: %v", says, r)
	}
}

func TestTheSameRequestUnderAKeyIsOneSession(t *testing.T) {
	first := start(t, "--key", "build 17")
	if first.Existing || !strings.HasPrefix(first.ID, "k-") {
		t.Fatalf("the first start gave %+v", first)
	}
	if again := start(t, "--key", "build 17"); again.ID != first.ID || !again.Existing {
		t.Errorf("the second start gave %+v, the first %+v", again, first)
	}
	if other := start(t, "--key", "build 18", "--id", "of-build-18"); other.ID != "of-build-18" || other.Existing {
		t.Errorf("another key gave %+v", other)
	}
	t.Run("another request is refused", func(t *testing.T) {
		flags := []string{"-o", "json", "session", "start", "--host", "web-1", "--seed", "team", "--key", "build 17"}
		reused(t, e2e.Exits(t, 6, append(flags, "--model", "gpt-other")...), "another request")
		reused(t, e2e.Exits(t, 6, append(flags, "--id", "elsewhere")...), first.ID)
		reused(t, e2e.Exits(t, 6, "-o", "json", "run", "--host", "web-1", "--seed", "team", "--key", "build 17", "hello"), "another request")
		e2e.Exits(t, 3, "session", "show", "elsewhere")
		// A key is also taken if its session was started with an explicit id.
		reused(t, e2e.Exits(t, 6, "-o", "json", "session", "start", "--host", "web-1", "--seed", "team", "--key", "build 18"), "of-build-18")
	})
	t.Run("an id in use is no session of ours", func(t *testing.T) {
		e2e.Exits(t, 6, "session", "start", "--host", "web-1", "--seed", "team", "--id", first.ID)
		e2e.Session(t, "keyless")
		e2e.Exits(t, 6, "session", "start", "--host", "web-1", "--seed", "team", "--id", "keyless", "--key", "build 19")
		if free := start(t, "--key", "build 19"); free.Existing { // nothing was done, so the key is free
			t.Errorf("the key of a refused start gave %+v", free)
		} else {
			e2e.OK(t, "session", "close", free.ID)
		}
		e2e.Exits(t, 6, "session", "start", "--host", "web-1", "--seed", "team", "--id", "of-build-18", "--key", "build 20")
	})
	t.Run("the same is said of one that is closed", func(t *testing.T) {
		e2e.OK(t, "session", "close", first.ID)
		e2e.OK(t, "session", "close", "of-build-18")
		if again := start(t, "--key", "build 17"); again.ID != first.ID || !again.Existing {
			t.Errorf("after it closed the start gave %+v", again)
		}
		e2e.Exits(t, 6, "session", "start", "--host", "web-1", "--seed", "team", "--key", "build 17", "--sandbox", "read-only")
		if v := e2e.Show(t, first.ID); v.State != protocol.Closed {
			t.Errorf("it is %s", v.State)
		}
	})
	t.Run("keys that cannot be", func(t *testing.T) {
		for _, key := range []string{strings.Repeat("k", 201), "a\nb", "\xff"} {
			e2e.Exits(t, 2, "session", "start", "--host", "web-1", "--seed", "team", "--key", key)
		}
	})
}

// CI repeats a step that has ended, or whose runner disappeared: codex is asked
// once.
func TestARunUnderAKeyIsOneTurnHoweverOftenItIsAsked(t *testing.T) {
	asked := func(file, text string) []string {
		return []string{"run", "--host", "web-1", "--seed", "team", "--key", "nightly 3", "--file", filepath.Join(e2e.Repo, file), text}
	}
	args := asked("go.mod", "just say it")
	var first, again protocol.TurnView
	if err := e2e.Lab.JSON(e2e.Within(t), &first, args...); err != nil {
		t.Fatal(err)
	}
	if err := e2e.Lab.JSON(e2e.Within(t), &again, args...); err != nil {
		t.Fatal(err)
	}
	if first.Status != "completed" || first.FinalText == "" || again.TurnID != first.TurnID || again.FinalText != first.FinalText || again.Session != first.Session {
		t.Errorf("first %+v\nagain %+v", first, again)
	}
	if said := e2e.Texts(e2e.Transcript(t, first.Session), protocol.EntryUser); len(said) != 1 {
		t.Errorf("codex was told %q", said)
	}
	var d started
	if err := e2e.Lab.JSON(e2e.Within(t), &d, append(args, "--detach")...); err != nil || d.ID != first.Session || !d.Existing {
		t.Errorf("detached it is %+v, %v", d, err)
	}
	e2e.Exits(t, 6, asked("go.mod", "just say something else")...)
	e2e.Exits(t, 6, asked("README.md", "just say it")...)
}

// A runner that is killed while no worker is up, before it has an answer, has
// started a session all the same; one of an older version may have started it
// without the message. Running the same command again under the key asks codex,
// once.
func TestARunThatWasCutShortIsMadeUpForUnderItsKey(t *testing.T) {
	asked := func(key string) []string {
		return []string{"run", "--host", "web-1", "--seed", "team", "--timeout", "2m", "--key", key, "say it under the key " + key}
	}
	c, err := e2e.Lab.Temporal(e2e.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var st lab.Status
	if err := e2e.Lab.JSON(e2e.Within(t), &st, "status"); err != nil {
		t.Fatal(err)
	}
	back := e2e.NoWorker(t)
	whole, bare, over := cutShort(t, c, asked("cut short")), cutShort(t, c, asked("cut and bare")), cutShort(t, c, asked("cut and over"))
	withoutFirst(t, c, bare)
	withoutFirst(t, c, over)
	e2e.Kill(t, st.Temporal.PID) // what it had only in memory is lost
	back()

	var d started
	if err := e2e.Lab.JSON(e2e.Within(t), &d, append(asked("cut and bare"), "--detach")...); err != nil || d.ID != bare || !d.Existing || d.N != 1 || d.Message == "" {
		t.Errorf("detached it is %+v, %v", d, err)
	}
	for key, id := range map[string]string{"cut short": whole, "cut and bare": bare} {
		var v protocol.TurnView
		if err := e2e.Lab.JSON(e2e.Within(t), &v, asked(key)...); err != nil {
			t.Fatal(err)
		}
		if v.Session != id || v.N != 1 || v.Status != "completed" || v.FinalText == "" {
			t.Errorf("%s gave %+v", key, v)
		}
		if said := e2e.Texts(e2e.Transcript(t, id), protocol.EntryUser); len(said) != 1 || said[0] != "say it under the key "+key {
			t.Errorf("%s: codex was told %q", key, said)
		}
	}
	// A session that closed meanwhile has no such turn, and never will.
	e2e.OK(t, "session", "close", over)
	if r := e2e.Exits(t, 1, asked("cut and over")...); !strings.Contains(r.Stderr, "it is closed, and turn 1 never began") {
		t.Errorf("of a session that closed ctl says %v", r)
	}
}

// cutShort runs ctl until its session exists, kills it before it has an answer,
// and returns the session's id.
func cutShort(t *testing.T, c client.Client, args []string) (id string) {
	t.Helper()
	id = protocol.IDOfKey(args[slices.Index(args, "--key")+1])
	cmd := e2e.Lab.Command(e2e.Within(t), args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e2e.Until(t, "session "+id+" to be there", func() (bool, error) {
		_, err := c.DescribeWorkflowExecution(e2e.Within(t), protocol.SessionID(id), "")
		var none *serviceerror.NotFound
		if errors.As(err, &none) {
			return false, nil
		}
		return err == nil, err
	})
	e2e.Kill(t, cmd.Process.Pid)
	_ = cmd.Wait() // it was killed
	return id
}

// withoutFirst replaces a session by one that has not begun and that equals it
// except for the message it began with.
func withoutFirst(t *testing.T, c client.Client, id string) {
	t.Helper()
	ctx := e2e.Within(t)
	name := protocol.SessionID(id)
	began, err := c.GetWorkflowHistory(ctx, name, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Next()
	if err != nil {
		t.Fatal(err)
	}
	as := began.GetWorkflowExecutionStartedEventAttributes()
	codec, err := e2e.Lab.Codec("default")
	if err != nil {
		t.Fatal(err)
	}
	var in session.Input
	var claim protocol.KeyClaim
	if err := codec.DataConverter().FromPayloads(as.GetInput(), &in); err != nil {
		t.Fatal(err)
	}
	if err := codec.DataConverter().FromPayload(as.GetMemo().GetFields()[protocol.MemoClaim], &claim); err != nil {
		t.Fatal(err)
	}
	if err := c.TerminateWorkflow(ctx, name, "", "the test has another one in its place"); err != nil {
		t.Fatal(err)
	}
	in.First = nil
	_, err = c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: name, TaskQueue: protocol.TaskQueueOf(""),
		Memo: map[string]any{protocol.MemoClaim: claim}}, protocol.TypeSession, in)
	if err != nil {
		t.Fatal(err)
	}
}

func TestStartsAtOnceUnderAKeyAreOneSession(t *testing.T) {
	const callers = 8
	got := make([]lab.Result, callers)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			// One in four requests another model.
			model := "gpt-a"
			if i%4 == 3 {
				model = "gpt-b"
			}
			got[i] = e2e.Lab.Ctl(e2e.Within(t), nil, "-o", "json", "session", "start", "--host", "web-1", "--seed", "team", "--key", "all at once", "--model", model)
		})
	}
	wg.Wait()
	ids, firsts, models := map[string]bool{}, 0, map[string]int{}
	for i, r := range got {
		model := map[bool]string{true: "gpt-b", false: "gpt-a"}[i%4 == 3]
		switch r.Code {
		case 0:
			var s started
			if err := json.Unmarshal([]byte(r.Stdout), &s); err != nil {
				t.Fatalf("%v: %v", r, err)
			}
			ids[s.ID] = true
			if !s.Existing {
				firsts++
			}
			models[model]++
		case 6:
			reused(t, r, "another request")
		default:
			t.Errorf("%v", r)
		}
	}
	if len(ids) != 1 || firsts != 1 || len(models) != 1 || models["gpt-a"] != 6 && models["gpt-b"] != 2 {
		t.Errorf("sessions %v, of them %d the first, for %v", ids, firsts, models)
	}
	for id := range ids {
		e2e.OK(t, "session", "close", id)
	}
}

// A start is durable without a worker; repeating it gives the same session.
func TestAKeyHoldsWithNoWorkerUp(t *testing.T) {
	first := start(t, "--key", "before the worker went")
	back := e2e.NoWorker(t)
	// A worker checks names, and did so the first time.
	if again := start(t, "--key", "before the worker went"); again.ID != first.ID || !again.Existing {
		t.Errorf("with no worker up the start gave %+v, before %+v", again, first)
	}
	e2e.Exits(t, 6, "session", "start", "--host", "web-1", "--seed", "team", "--key", "before the worker went", "--sandbox", "read-only")
	back()
	e2e.Idle(t, first.ID)
	e2e.OK(t, "session", "close", first.ID)
	if list, err := lab.Lines[protocol.SessionView](e2e.Within(t), e2e.Lab, "session", "list"); err != nil {
		t.Error(err)
	} else if n := strings.Count(fmt.Sprint(list), first.ID); n == 0 {
		t.Errorf("session %s is not listed", first.ID)
	}
}

// The content of a batch's file is part of the request, its formatting is not.
func TestTheSameBatchUnderAKeyIsOneBatch(t *testing.T) {
	tree := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(tree, "a.txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	text := "prompt: hello\ndefaults: {host: web-1, seed: team, upload: " + tree + "}\nitems: [{id: a}]\n"
	run := func(text string) []string {
		return []string{"-o", "json", "batch", "run", "--detach", "--key", "fleet 7", batchFile(t, text)}
	}
	var first, again started
	for _, out := range []*started{&first, &again} {
		if err := json.Unmarshal([]byte(e2e.OK(t, run(text)...)), out); err != nil {
			t.Fatal(err)
		}
		text += "# nobody reads this\n"
	}
	if first.Existing || !again.Existing || again.ID != first.ID {
		t.Errorf("first %+v, again %+v", first, again)
	}
	write("two")
	reused(t, e2e.Exits(t, 6, run(text)...), "another request")
	write("one")
	reused(t, e2e.Exits(t, 6, run(strings.Replace(text, "hello", "goodbye", 1))...), "another request")
	if err := json.Unmarshal([]byte(e2e.OK(t, run(text)...)), &again); err != nil || !again.Existing || again.ID != first.ID {
		t.Errorf("as it was again: %+v, %v", again, err)
	}
	becomesBatch(t, first.ID, "it has ended", func(v shownBatch) bool { return v.State == protocol.BatchDone })
}
