package credentials

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// aModel starts a model of its own.
func aModel(t *testing.T, script string) *scriptedmodel.Server {
	t.Helper()
	parsed, err := scriptedmodel.Parse([]byte(script))
	if err != nil {
		t.Fatal(err)
	}
	m, err := scriptedmodel.New(parsed, nil)
	if err == nil {
		err = m.Start("127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() }) // a test may have closed it
	return m
}

// askedBy counts the requests for answers to a model, and reports whether each came with the key
// and asked for the model.
func askedBy(m *scriptedmodel.Server, key, model, text string) (n int, as bool) {
	sum := sha256.Sum256([]byte(key))
	as = true
	for _, r := range m.Requests() {
		raw, err := json.Marshal(r.UserMessages)
		if err != nil || !strings.HasSuffix(r.Path, "/responses") || !strings.Contains(string(raw), text) {
			continue
		}
		n++
		as = as && r.TokenSHA256 == hex.EncodeToString(sum[:]) && r.Model == model
	}
	return n, as
}

// The first provider dies in the middle of an answer. The turn ends by the second one, which is
// asked once, and the next turn does not ask the first one again. Neither key leaves the worker.
func TestATurnEndsByTheNextProviderWhenTheFirstDiesInItsMiddle(t *testing.T) {
	const id, text = "fallback", "count, says fallback"
	first := aModel(t, "pace: 1ms\nrules:\n- name: counting\n  when: {contains: says fallback}\n  steps:\n  - - wait: {gate: dying, after: 2}\n    - say: one two three four\n")
	second := aModel(t, "pace: 1ms\nrules:\n- name: counting\n  when: {contains: says fallback}\n  reply: one two three four\n- name: again\n  when: {contains: says later}\n  reply: still here\n")
	keys := []string{"sk-first-" + strings.Repeat("0a1b2c", 5), "sk-second-" + strings.Repeat("3d4e5f", 5)}
	dir := t.TempDir()
	settings := filepath.Join(t.TempDir(), "settings.yaml")
	for path, content := range map[string]string{
		filepath.Join(dir, "auth.json"):   `{"auth_mode":"apikey","OPENAI_API_KEY":"` + keys[0] + `"}`,
		filepath.Join(dir, "config.toml"): scriptedmodel.LoginConfigTOML(first.BaseURL()),
		settings: fmt.Sprintf("fallback:\n  attempts: 2\n  stay: 1h\n  upstreams:\n    - {name: second, base_url: %q, bearer_token: %s, models: {\"*\": another-model}}\n",
			second.BaseURL(), keys[1]),
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e2e.OK(t, "seed", "import", "keyed-fallback", dir, "--settings", settings)
	_, root := keylessHost(t, "keyless-fallback", hosttest.Options{})
	e2e.OK(t, "session", "start", "--host", "keyless-fallback", "--seed", "keyed-fallback", "--credentials", "gateway", "--id", id)
	ended(t, id)
	e2e.Send(t, id, text)
	if _, err := first.AwaitWaiting(e2e.Within(t), "dying"); err != nil {
		t.Fatal(err)
	}
	noKeyIn(t, id, keys[1], "says fallback")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if v := e2e.Ended(t, id, 1); v.Turn.Status != "completed" {
		t.Fatalf("turn %+v, error %+v", v.Turn, v.Error)
	}
	saidOnce(t, id, "one two three four")
	if n, as := askedBy(second, keys[1], "another-model", "says fallback"); n != 1 || !as {
		t.Errorf("the second provider was asked %d times, each with its key for its model: %v", n, as)
	}
	if n, _ := askedBy(first, keys[0], "", "says fallback"); n != 1 {
		t.Errorf("the first provider was asked %d times", n)
	}
	e2e.Send(t, id, "and now, says later")
	if v := e2e.Ended(t, id, 2); v.Turn.Status != "completed" {
		t.Fatalf("turn %+v, error %+v", v.Turn, v.Error)
	}
	v := e2e.Show(t, id)
	if g := v.Gateway; g == nil || g.Upstream != "second" || g.Model != "another-model" || g.FellBack < 2 || !strings.Contains(g.LastFellBack, "a short time ago") {
		t.Errorf("the gateway did %+v", v.Gateway)
	}
	told := false
	for _, e := range e2e.Transcript(t, id) {
		told = told || e.Type == protocol.EntryState && strings.Contains(e.Text, "asks second for the model")
	}
	if !told {
		t.Error("the transcript does not say that the second provider was asked")
	}
	e2e.OK(t, "session", "close", id)
	for _, key := range keys {
		if found, files, _, err := lab.FindSecret(key, root, e2e.Lab.State); err != nil || len(found) > 0 || files < 10 {
			t.Errorf("a key is in %v (%d files, %v)", found, files, err)
		}
	}
}
