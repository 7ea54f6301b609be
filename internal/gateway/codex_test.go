package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/realparts"
)

// A keyless host has codex and sshd, and reaches the gateway through a forward alone.
type keyless struct {
	*testing.T
	sshd    *hosttest.SSHD
	host    hostexec.Host
	forward *hostexec.Forward
	tokens  *Tokens
	dir     string

	mu  sync.Mutex
	out []Outcome
}

func newKeyless(t *testing.T, model *scriptedmodel.Server) *keyless {
	t.Helper()
	return newMetered(t, model, nil)
}

func newMetered(t *testing.T, model *scriptedmodel.Server, meter Meter) *keyless {
	t.Helper()
	k := &keyless{T: t, sshd: hosttest.StartSSHD(t, hosttest.Options{}), tokens: &Tokens{}}
	k.dir = filepath.Join(k.sshd.Home, "s1")
	for _, d := range []string{"codex-home", "work", "tmp"} {
		if err := os.MkdirAll(filepath.Join(k.dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	var err error
	if k.host, err = pool.Host(k.sshd.Spec()); err != nil {
		t.Fatal(err)
	}
	k.forward, err = pool.OpenForward(t.Context(), k.host, hostexec.ForwardSpec{Name: "model",
		Fence: hostexec.Fence{Dir: filepath.Join(k.sshd.Home, "sessions", "s1"), Epoch: hostexec.Epoch{Generation: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(Options{Tokens: k.tokens, Meter: meter, Upstreams: []Upstream{{Name: "scripted", BaseURL: model.BaseURL(), Key: theKey}}, Record: func(o Outcome) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.out = append(k.out, o)
	}})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(k.forward) }()
	t.Cleanup(func() {
		k.forward.Close()
		<-served
	})
	k.rotate()
	quote := func(s string) string { b, _ := json.Marshal(s); return string(b) } // a JSON text is a TOML text
	config := fmt.Sprintf(`model_provider = "fairlead"
check_for_update_on_startup = false
project_root_markers = []

[model_providers.fairlead]
name = "the model gateway"
base_url = "http://127.0.0.1:%d/v1"
wire_api = "responses"
request_max_retries = 9
stream_max_retries = 9

[model_providers.fairlead.auth]
command = "cat"
args = [%s]
refresh_interval_ms = 1000

[analytics]
enabled = false

[features]
plugins = false
apps = false
remote_plugin = false
skill_search = false
`, k.forward.Port(), quote(k.tokenFile()))
	if err := os.WriteFile(filepath.Join(k.dir, "codex-home", "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *keyless) tokenFile() string { return filepath.Join(k.dir, "token") }

// rotate puts another token onto the host. The one before is worthless at once.
func (k *keyless) rotate() {
	k.Helper()
	if err := os.WriteFile(k.tokenFile(), []byte(k.tokens.Issue(time.Now(), 0)), 0o600); err != nil {
		k.Fatal(err)
	}
}

// codex runs a turn on the host and returns the last message.
func (k *keyless) codex(ctx context.Context, h hostexec.Host, prompt string) (string, error) {
	last := filepath.Join(k.dir, "last")
	res, err := h.Run(ctx, hostexec.Command{
		Script: `unset OPENAI_API_KEY CODEX_API_KEY OPENAI_BASE_URL; cd "$1/work" || exit
CODEX_HOME=$1/codex-home TMPDIR=$1/tmp; export CODEX_HOME TMPDIR
"$2" exec --skip-git-repo-check --sandbox read-only -o "$3" "$4" </dev/null 2>&1`,
		Args: []string{k.dir, realparts.CodexBinary(k.T), last, prompt},
	})
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, res.Stdout)
	}
	text, err := os.ReadFile(last)
	return strings.TrimSpace(string(text)), err
}

func (k *keyless) endings(kind Kind) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, o := range k.out {
		if o.Kind == kind && o.Path == "/v1/responses" {
			n++
		}
	}
	return n
}

// noKey searches all files that codex and the session have on the host.
func (k *keyless) noKey() {
	k.Helper()
	err := filepath.WalkDir(k.sshd.Home, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), theKey) {
			k.Errorf("%s has the provider's key", path)
		}
		return err
	})
	if err != nil {
		k.Fatal(err)
	}
}

func TestCodexCompletesATurnOnAHostWithoutAKey(t *testing.T) {
	t.Parallel()
	realparts.NotShort(t)
	k := newKeyless(t, scriptedmodel.Serve(t, "rules:\n  - reply: the answer is 42\n"))
	for range 2 { // the second with another token
		got, err := k.codex(t.Context(), k.host, "what is the answer?")
		if err != nil || got != "the answer is 42" {
			t.Fatalf("codex said %q: %v", got, err)
		}
		k.rotate()
	}
	if k.endings(KindCompleted) != 2 {
		t.Errorf("records %+v", k.out)
	}
	k.noKey()
	k.tokens.End()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // codex repeats a refused request for minutes
	defer cancel()
	if got, err := k.codex(ctx, k.host, "and after the end?"); err == nil {
		t.Errorf("after the end of the session codex said %q", got)
	}
	if k.endings(KindCompleted) != 2 || k.endings(KindRefused) == 0 {
		t.Errorf("records %+v", k.out)
	}
}

func TestATurnSurvivesTheLossOfTheForwardInMidStream(t *testing.T) {
	t.Parallel()
	realparts.NotShort(t)
	model := scriptedmodel.Serve(t, `
rules:
  - steps:
      - - wait: {gate: half, after: 2}
        - say: one two three four
`)
	k := newKeyless(t, model)
	other := hosttest.StartSSHD(t, hosttest.Options{})
	type said struct {
		text string
		err  error
	}
	end := make(chan said, 1)
	go func() {
		// Not by the connections that are about to be lost.
		pool := hostexec.NewPool(hostexec.PoolOptions{})
		defer pool.Close()
		h, err := pool.Host(other.Spec())
		if err != nil {
			end <- said{"", err}
			return
		}
		text, err := k.codex(t.Context(), h, "count")
		end <- said{text, err}
	}()
	if _, err := model.AwaitWaiting(t.Context(), "half"); err != nil {
		t.Fatal(err)
	}
	port := k.forward.Port()
	k.sshd.KillSessions()
	for k.endings(KindGone) == 0 { // the gateway notices while the model is silent
		select {
		case got := <-end:
			t.Fatalf("codex said %q: %v", got.text, got.err)
		case <-time.After(2 * time.Millisecond):
		}
	}
	model.Release("half")
	got := <-end
	if got.err != nil || got.text != "one two three four" {
		t.Fatalf("codex said %q: %v", got.text, got.err)
	}
	if k.forward.Port() != port || k.forward.State().Times < 2 {
		t.Errorf("the forward is %+v, its port was %d", k.forward.State(), port)
	}
	// The model was asked once more, by codex and not by the gateway.
	attempts := 0
	for _, o := range k.out {
		if o.Path == "/v1/responses" {
			attempts += o.Attempts
		}
	}
	if k.endings(KindGone) != 1 || k.endings(KindCompleted) != 1 || attempts != 2 {
		t.Errorf("the model was asked %d times, records %+v", attempts, k.out)
	}
	k.noKey()
}
