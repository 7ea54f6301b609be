package sessions

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

func batchFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "batch.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

type shownBatch struct {
	protocol.BatchView
	Waiting []struct {
		Session   string `json:"session"`
		Approvals int    `json:"approvals"`
	} `json:"waiting"`
}

func batch(t *testing.T, id string) shownBatch {
	t.Helper()
	var v shownBatch
	if err := e2e.Lab.JSON(e2e.Within(t), &v, "batch", "show", id); err != nil {
		t.Fatal(err)
	}
	return v
}

// becomesBatch waits until is returns true for a batch.
func becomesBatch(t *testing.T, id, what string, is func(shownBatch) bool) (v shownBatch) {
	t.Helper()
	e2e.Until(t, what, func() (bool, error) {
		v = batch(t, id)
		return is(v), nil
	})
	return v
}

func batchResults(t *testing.T, id string) map[string]protocol.BatchResult {
	t.Helper()
	out := map[string]protocol.BatchResult{}
	d := json.NewDecoder(strings.NewReader(e2e.OK(t, "batch", "results", id)))
	for d.More() {
		var r protocol.BatchResult
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		if _, twice := out[r.Session]; twice {
			t.Errorf("session %s has two results", r.Session)
		}
		out[r.Item] = r
	}
	return out
}

func TestABatchOutlivesItsWorkerAndAccountsForEveryItem(t *testing.T) {
	path := batchFile(t, `id: many
window: 2
prompt: "{{.item}}"
defaults: {host: web-1, seed: team}
items:
  - one
  - {id: asks, vars: {item: need a command}}
  - {id: poor, vars: {item: no quota left}}
  - two
  - {id: shaped, prompt: "say {{.id}}", vars: {}, sandbox: read-only}
`)
	e2e.OK(t, "batch", "check", path)
	e2e.OK(t, "batch", "run", path, "--detach")
	v := becomesBatch(t, "many", "a session waits for a person", func(v shownBatch) bool { return len(v.Waiting) == 1 })
	if v.Waiting[0].Session != "many-asks" || v.Waiting[0].Approvals != 1 || v.State != protocol.BatchRunning {
		t.Errorf("the batch is %+v", v)
	}
	pid := e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	e2e.Back(t, pid)
	becomesBatch(t, "many", "all but the one that waits have ended", func(v shownBatch) bool { return v.Done+v.Failed == 4 })
	e2e.OK(t, "approval", "accept", "many-asks.1")
	r := e2e.Lab.Ctl(e2e.Within(t), nil, "batch", "run", path) // its id is in use
	if r.Code != 6 {
		t.Errorf("a second batch of the id: %v", r)
	}
	res := batchResults(t, "many")
	if end := batch(t, "many"); end.State != protocol.BatchDone || end.Done != 4 || end.Failed != 1 || end.Kinds["quota"] != 1 || len(res) != 5 {
		t.Fatalf("the batch is %+v with %d results", end, len(res))
	}
	for item, says := range map[string]string{"1": "You said: one", "4": "You said: two", "asks": "I need a command.\n\nThe command said: it ran", "shaped": "You said: say shaped"} {
		if got := res[item]; got.State != protocol.ItemCompleted || got.FinalText != says {
			t.Errorf("item %s is %+v, want %q", item, got, says)
		}
	}
	if poor := res["poor"]; poor.State != protocol.ItemFailed || poor.Error == nil || poor.Error.Kind != "quota" || poor.Error.Hint == "" {
		t.Errorf("the poor item is %+v", poor)
	}
	if asks := res["asks"]; asks.Effects != protocol.EffectsSome {
		t.Errorf("the item with a command had effects %q", asks.Effects)
	}
	if list := e2e.OK(t, "-o", "json", "session", "list", "--batch", "many"); strings.Count(list, `"origin":"batch/many"`) != 5 {
		t.Errorf("its sessions are %s", list)
	}
	if list := e2e.OK(t, "-o", "json", "batch", "list"); !strings.Contains(list, `"id":"many"`) {
		t.Errorf("the batches are %s", list)
	}
	for _, item := range []string{"1", "asks", "poor", "4", "shaped"} {
		if _, err := os.Stat(filepath.Join(e2e.Root, "sessions", "many-"+item)); !os.IsNotExist(err) {
			t.Errorf("of item %s there is a folder left: %v", item, err)
		}
	}

	t.Run("what failed is tried again, and nothing else", func(t *testing.T) {
		r := e2e.Lab.Ctl(e2e.Within(t), nil, "-o", "json", "batch", "retry", "many")
		lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
		if r.Code != 1 || len(lines) != 2 || !strings.Contains(lines[0], `"session":"many-poor.t2"`) {
			t.Errorf("the retry was answered %v", r)
		}
		if end := batch(t, "many"); end.Done != 4 || end.Failed != 1 || end.Tries != 6 {
			t.Errorf("the batch is %+v", end)
		}
	})
}

func TestABatchCountsAnItemThatItsAgentDeclaredFailedAsFailed(t *testing.T) {
	path := batchFile(t, `id: declared
prompt: "{{.item}}"
defaults: {host: web-1, seed: team, tools: finish}
items: [declare yourself done, declare yourself failed]
`)
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "batch", "run", path); r.Code != 1 || !strings.Contains(r.Stdout, protocol.EndAgentFailed) {
		t.Errorf("the batch was run: %v", r)
	}
	if v := batch(t, "declared"); v.State != protocol.BatchDone || v.Done != 1 || v.Failed != 1 || v.Kinds[protocol.EndAgentFailed] != 1 {
		t.Errorf("the batch is %+v", v)
	}
	res := batchResults(t, "declared")
	if r := res["1"]; r.State != protocol.ItemCompleted || r.Status != "completed" {
		t.Errorf("the item that was done is %+v", r)
	}
	if r := res["2"]; r.State != protocol.ItemFailed || r.Status != "failed" || r.Error == nil || r.Error.Kind != protocol.EndAgentFailed || !strings.Contains(r.Error.Message, "the sources are failed") {
		t.Errorf("the item that was declared failed is %+v", r)
	}
}

func TestARunWhoseAgentDeclaresItselfFailedExitsWithOneAndItsSummary(t *testing.T) {
	r := e2e.Exits(t, 1, "run", "--host", "web-1", "--seed", "team", "--tools", "finish", "declare yourself failed")
	if !strings.Contains(r.Stderr, "the sources are failed") {
		t.Errorf("standard error is %s", r.Stderr)
	}
	r = e2e.Exits(t, 1, "run", "--host", "web-1", "--seed", "team", "--tools", "finish", "-o", "json", "declare yourself failed")
	if !strings.Contains(r.Stdout, `"kind":"agent_failed"`) || !strings.Contains(r.Stdout, "the sources are failed") {
		t.Errorf("standard output is %s", r.Stdout)
	}
}

// The agent of an item starts sessions and waits for them, and the item ends after them.
func TestAnItemOfABatchStartsSessions(t *testing.T) {
	id := fresh("leads")
	path := batchFile(t, "id: "+id+`
prompt: "{{.item}}"
defaults: {host: web-1, seed: team, tools: finish, children: 3}
items: [lead two sessions]
`)
	e2e.OK(t, "batch", "run", path)
	res := batchResults(t, id)
	r := res["1"]
	if r.State != protocol.ItemCompleted || r.Status != "completed" || !strings.Contains(r.FinalText, `"outcome":"completed","text":"You said: hello from one"`) || !strings.Contains(r.FinalText, `"outcome":"failed"`) {
		t.Fatalf("the item is %+v", r)
	}
	e2e.Until(t, "its two children have closed", func() (bool, error) {
		return strings.Count(e2e.OK(t, "session", "list", "--children-of", r.Session, "-o", "json"), `"state":"closed"`) == 2, nil
	})
}

func TestACancelledBatchLeavesNothing(t *testing.T) {
	path := batchFile(t, "window: 2\nprompt: '{{.item}}'\ndefaults: {host: web-1, seed: team}\nitems: [need a command, need a command, hello]\n")
	e2e.OK(t, "batch", "run", path, "--id", "gone", "--detach")
	becomesBatch(t, "gone", "both wait", func(v shownBatch) bool { return len(v.Waiting) == 2 })
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "--no-input", "batch", "run", path, "--id", "gone"); r.Code != 6 {
		t.Errorf("a second one: %v", r)
	}
	e2e.OK(t, "batch", "cancel", "gone")
	if v := batch(t, "gone"); v.State != protocol.BatchCancelled || v.Cancelled != 2 || v.Queued != 1 || v.Done != 0 {
		t.Errorf("the batch is %+v", v)
	}
	for _, s := range []string{"gone-1", "gone-2"} {
		if v := e2e.Show(t, s); v.State != protocol.Closed {
			t.Errorf("session %s is %+v", s, v)
		}
	}
	e2e.Exits(t, 3, "session", "show", "gone-3")
	e2e.Exits(t, 6, "batch", "cancel", "gone")
}

func TestABatchFileWithMistakesStartsNothing(t *testing.T) {
	path := batchFile(t, "window: 0\nprompt: '{{.what}}'\ndefaults: {sandbox: glass}\nitems:\n  - one\n  - {id: two, hots: web-1}\n")
	r := e2e.Exits(t, 2, "-o", "json", "batch", "run", path, "--id", "wrong")
	for _, says := range []string{
		"line 1, column 9: window takes a whole number", "line 3, column 21: --sandbox", "line 5, column 5: item 1: its prompt wants the variable what",
		"line 6, column 15: hots: a session has no such flag: is host meant?",
	} {
		if !strings.Contains(r.Stderr, says) {
			t.Errorf("nothing says %q in %s", says, r.Stderr)
		}
	}
	e2e.Exits(t, 3, "batch", "show", "wrong")
	nowhere := batchFile(t, "prompt: hello\ndefaults: {host: nowhere}\nitems: [a]\n")
	if r := e2e.Exits(t, 3, "batch", "run", nowhere, "--id", "wrong"); !strings.Contains(r.Stderr, "line 2") {
		t.Errorf("a host that is not there: %v", r)
	}
	e2e.Exits(t, 3, "batch", "show", "wrong")
}
