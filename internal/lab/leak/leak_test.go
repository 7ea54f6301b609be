package leak

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/scriptedauth"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// mark returns a unique piece of a secret.
func mark() string {
	b := make([]byte, 8)
	rand.Read(b)
	return "mk" + hex.EncodeToString(b)
}

// A day is a stack, a host whose user is not root, and all output of ctl.
type day struct {
	t      *testing.T
	lab    *lab.Lab
	issuer *scriptedauth.Server
	host   *hosttest.SSHD
	root   string
	marks  Marks
	bearer string // the provider's
	apiKey string
	answer string // a person's answer to a question

	mu   sync.Mutex
	said bytes.Buffer // everything that ctl printed, guarded by mu
}

func (d *day) keep(args []string, texts ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, text := range texts {
		fmt.Fprintf(&d.said, "\n$ ctl %s\n%s", strings.Join(args, " "), text)
	}
}

func (d *day) within() context.Context {
	ctx, cancel := context.WithTimeout(d.t.Context(), 15*time.Minute)
	d.t.Cleanup(cancel)
	return ctx
}

// ctl runs ctl, whatever its exit status.
func (d *day) ctl(args ...string) lab.Result {
	r := d.lab.Ctl(d.within(), nil, args...)
	d.keep(args, r.Stdout, r.Stderr)
	return r
}

func (d *day) ok(args ...string) string {
	d.t.Helper()
	r := d.ctl(args...)
	if r.Code != 0 {
		d.t.Fatalf("%v", r)
	}
	return r.Stdout
}

func (d *day) until(what string, cond func() (bool, error)) {
	d.t.Helper()
	if err := lab.Until(d.within(), what, cond); err != nil {
		d.t.Fatal(err)
	}
}

func (d *day) show(id string) (v protocol.SessionView) {
	d.t.Helper()
	if err := json.Unmarshal([]byte(d.ok("session", "show", id, "-o", "json")), &v); err != nil {
		d.t.Fatal(err)
	}
	return v
}

// turn sends a message and waits for the turn's end, whatever its status.
func (d *day) turn(id, text string) protocol.TurnView {
	d.t.Helper()
	r := d.ctl("session", "send", id, text, "-o", "json")
	var v protocol.TurnView
	if err := json.Unmarshal([]byte(r.Stdout), &v); err != nil || v.N == 0 {
		d.t.Fatalf("%s: %q: %v: %v", id, text, err, r)
	}
	return v
}

// follow records what a viewer sees and, at the end, the text that the deltas
// add up to.
func (d *day) follow(id string) (stop func()) {
	args := []string{"session", "follow", id, "-o", "json"}
	c := d.lab.Command(context.Background(), args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Start(); err != nil {
		d.t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		c.Process.Signal(syscall.SIGINT)
		var exit *exec.ExitError
		if err := c.Wait(); err != nil && !asExit(err, &exit) {
			d.t.Errorf("follow: %v", err)
		}
		var joined strings.Builder
		deltas := 0
		for line := range strings.Lines(out.String()) {
			var ev struct {
				Event string `json:"event"`
				Text  string `json:"text"`
			}
			if json.Unmarshal([]byte(line), &ev) == nil && ev.Event == "delta" {
				joined.WriteString(ev.Text)
				deltas++
			}
		}
		if deltas == 0 {
			d.t.Errorf("%s: a viewer saw no deltas: %.2000s", id, out.String())
		}
		d.keep(args, out.String(), errs.String(), joined.String())
	})
}

func asExit(err error, to **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*to = e
	return ok
}

func (d *day) seed(name string, files map[string]string) {
	d.t.Helper()
	dir := filepath.Join(d.t.TempDir(), name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		d.t.Fatal(err)
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			d.t.Fatal(err)
		}
	}
	d.ok("seed", "import", name, dir)
}

// script is the model's script. The agent prints its credential in every form
// that a shell knows, keeps a copy in its work folder, and says the secrets of
// each seed.
func script(t *testing.T, secrets map[string][]string) []byte {
	const show = `cd "$CODEX_HOME" && for f in auth.json config.toml; do [ -e $f ] || continue; ` +
		`cat $f; for p in "" x xy; do { printf %s "$p"; cat $f; } | base64 -w0; echo; done; od -An -v -tx1 $f | tr -d ' \n'; echo; cp $f "$OLDPWD/copy-of-$f"; done; ls "$OLDPWD"; echo shown`
	type m = map[string]any
	rules := []any{
		m{"when": m{"contains": "show yourself"}, "steps": []any{
			[]any{m{"think": "I shall print what I know."}, m{"shell": show}},
			[]any{m{"say": "it said {{ .LastToolOutput }}"}}}}}
	for seed, texts := range secrets {
		rules = append(rules,
			m{"when": m{"contains": "take your time as " + seed, "matches": `gate (\S+)`}, "steps": []any{
				[]any{m{"say": "one two three four " + strings.Join(texts, " and ") + " nine ten"},
					m{"wait": m{"gate": "{{ index .Match 1 }}", "after": 8}}}}},
			m{"when": m{"contains": "ask me as " + seed}, "steps": []any{
				[]any{m{"shell": m{"cmd": "false # " + texts[0], "escalate": true, "justification": "with " + texts[len(texts)-1]}}},
				[]any{m{"say": "well"}}}},
			m{"when": m{"contains": "fail as " + seed}, "steps": []any{
				[]any{m{"fail": m{"kind": "bad_request", "times": -1, "message": "bad key: " + strings.Join(texts, " or ")}}}}})
	}
	rules = append(rules, m{"when": m{"contains": "need a secret"}, "steps": []any{
		[]any{m{"call": m{"name": "request_user_input", "arguments": m{"questions": []any{m{"id": "word", "header": "Word", "question": "What is the password?",
			"options": []any{m{"label": "none", "description": "there is none"}, m{"label": "any", "description": "one of many"}}}}}}}},
		[]any{m{"say": "I was told {{ .LastToolOutput }}"}}}})
	rules = append(rules, m{"reply": "You said: {{ .LastUser }}"})
	text, err := json.Marshal(m{"pace": "2ms", "rules": rules})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func newDay(t *testing.T) *day {
	repo := realparts.Root(t)
	key, one, two, login, mcp, ours, tool, answer := mark(), mark(), mark(), mark(), mark(), mark(), mark(), mark()
	d := &day{t: t, marks: Marks{"api key": key, "provider's bearer, its beginning": one, "provider's bearer, its end": two, "login": login, "bearer of an MCP server": mcp,
		"settings: the provider's bearer": ours, "settings: bearer of an MCP server": tool, "a secret answer": answer}}
	d.answer = "open sesame " + answer
	d.apiKey = "sk-" + key
	// The space makes it stream in two pieces; the other characters are
	// escaped.
	d.bearer = one + ` "\+/=%& ` + two
	d.issuer = scriptedauth.Serve(t)
	tokens := d.issuer.Login(scriptedauth.Account{Mark: login})
	secrets := map[string][]string{"key": {d.apiKey}, "provider": {d.bearer, mcp}, "login": {tokens.Access, tokens.Refresh}, "settings": {ours, tool}}
	ctx := d.within()
	var err error
	d.lab, err = lab.New(ctx, lab.Options{Repo: repo, Script: script(t, secrets), Config: "limits: {watch: 1s}\nseeds: {token_endpoint: " + d.issuer.TokenEndpoint() + "}\n"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.lab.Close(); err != nil {
			t.Error(err)
		}
	})
	guarded := httptest.NewServer(d.issuer.Guard(d.lab.Model))
	t.Cleanup(guarded.Close)
	d.root = filepath.Join(d.lab.Dir, "host web-1")
	if err := os.Mkdir(d.root, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(d.root, 0o777); err != nil {
		t.Fatal(err)
	}
	if d.host, err = d.lab.AddHost(ctx, "web-1", hosttest.Options{Root: d.root, NewUser: os.Getuid() == 0}); err != nil {
		t.Fatal(err)
	}
	d.ok("host", "provision", "web-1")

	d.seed("key", map[string]string{"auth.json": fmt.Sprintf(`{"auth_mode":"apikey","OPENAI_API_KEY":%q}`, d.apiKey),
		"config.toml": scriptedmodel.LoginConfigTOML(d.lab.Model.BaseURL())})
	d.seed("provider", map[string]string{"config.toml": strings.Replace(scriptedmodel.ConfigTOML(d.lab.Model.BaseURL(), d.bearer), "[features]\n", "[features]\ndefault_mode_request_user_input = true\n", 1) +
		"\n[mcp_servers.docs]\nurl = \"http://127.0.0.1:9/mcp\"\nhttp_headers = { Authorization = \"Bearer " + mcp + "\" }\n"})
	d.seed("login", map[string]string{"auth.json": string(tokens.AuthJSON()),
		"config.toml": scriptedmodel.LoginConfigTOML(guarded.URL + "/v1")})
	settings := filepath.Join(t.TempDir(), "settings.yaml")
	text := fmt.Sprintf("provider: {base_url: %q, bearer_token: %q}\nmcp_servers:\n  search: {url: \"http://127.0.0.1:9/mcp\", bearer_token: %q}\n", d.lab.Model.BaseURL(), ours, tool)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d.ok("seed", "import", "settings", "--settings", settings)
	return d
}

func (d *day) worker() int {
	d.t.Helper()
	var st lab.Status
	d.until("a worker", func() (bool, error) {
		r := d.ctl("status", "-o", "json")
		err := json.Unmarshal([]byte(r.Stdout), &st)
		return err == nil && len(st.Workers) == 1 && st.Workers[0].PID != 0, nil
	})
	return st.Workers[0].PID
}

// live runs a session through everything that can happen to it.
func (d *day) live(seed string) {
	t, id := d.t, "with-"+seed
	d.ok("session", "start", "--host", "web-1", "--seed", seed, "--id", id, "--sandbox", "danger-full-access", "--approval-policy", "on-request")
	if v := d.turn(id, "hello"); v.Status != "completed" {
		t.Fatalf("%s: %+v", id, v)
	}
	stop := d.follow(id)
	defer stop()
	if v := d.turn(id, "show yourself"); v.Status != "completed" || !strings.Contains(v.FinalText, "shown") || !strings.Contains(v.FinalText, "copy-of-config.toml") || !strings.Contains(v.FinalText, "[redacted") {
		t.Errorf("%s did not show its credential: %+v", id, v)
	}
	// The worker is killed and the connection is cut while text streams.
	gate := "g-" + seed
	d.ok("session", "send", id, "take your time as "+seed+" at gate "+gate, "--no-wait")
	if _, err := d.lab.Model.AwaitWaiting(d.within(), gate); err != nil {
		t.Fatal(err)
	}
	pid := d.worker()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.until("another worker", func() (bool, error) { return d.worker() != pid, nil })
	d.host.KillSessions()
	d.lab.Model.Release(gate)
	d.until("the turn to end", func() (bool, error) {
		v := d.show(id)
		return v.Turn != nil && v.Turn.N == 3 && v.Turn.Status == "completed", nil
	})
	if seed == "login" {
		d.issuer.Expire("")
		if v := d.turn(id, "hello again"); v.Status != "completed" || len(d.issuer.Refreshes()) == 0 {
			t.Errorf("%s did not rotate: %+v", id, v)
		}
		if v := d.turn(id, "show yourself"); v.Status != "completed" || !strings.Contains(v.FinalText, "shown") {
			t.Errorf("%s did not show what it was given anew: %+v", id, v)
		}
	}
	if v := d.turn(id, "fail as "+seed); v.Status != "failed" {
		t.Errorf("%s did not fail: %+v", id, v)
	}
	// codex is killed in mid-stream.
	gate += "-2"
	d.ok("session", "send", id, "take your time as "+seed+" at gate "+gate, "--no-wait")
	if _, err := d.lab.Model.AwaitWaiting(d.within(), gate); err != nil {
		t.Fatal(err)
	}
	for _, pid := range d.lab.CodexOf(id) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	d.until("the turn to be interrupted", func() (bool, error) { return d.show(id).State == protocol.Interrupted, nil })
	d.lab.Model.Release(gate)
	if v := d.turn(id, "hello after that"); v.Status != "completed" {
		t.Errorf("%s does not go on: %+v", id, v)
	}
	stop()
	for _, format := range []string{"text", "json", "markdown"} {
		d.ok("transcript", id, "--format", format)
	}
	d.ok("session", "close", id)
	if v := d.show(id); v.Close == nil || !v.Close.Wiped || !v.Close.Removed || v.Close.Archive == "" {
		t.Errorf("%s closed as %+v", id, v.Close)
	}
}

// ask asks a person a question that contains the secrets.
func (d *day) ask() {
	id := "asks"
	d.ok("session", "start", "--host", "web-1", "--seed", "provider", "--id", id)
	d.ok("session", "send", id, "ask me as provider", "--no-wait")
	var list []protocol.Approval
	d.until("the question", func() (bool, error) {
		list = nil
		for line := range strings.Lines(d.ok("approval", "list", "--session", id, "-o", "json")) {
			var a protocol.Approval
			if err := json.Unmarshal([]byte(line), &a); err != nil {
				return false, err
			}
			list = append(list, a)
		}
		return len(list) == 1, nil
	})
	d.ok("approval", "show", list[0].ID)
	d.ok("approval", "decline", list[0].ID)
	d.until("the turn to end", func() (bool, error) { v := d.show(id); return v.Turn != nil && v.Turn.Status == "completed", nil })
	d.ok("session", "close", id)
}

// told lets a person give codex a secret, which codex repeats, also to a
// worker that never saw it.
func (d *day) told() {
	t, id := d.t, "told"
	d.ok("session", "start", "--host", "web-1", "--seed", "provider", "--id", id, "--sandbox", "danger-full-access")
	stop := d.follow(id)
	defer stop()
	d.ok("session", "send", id, "you need a secret", "--no-wait")
	var asked protocol.Approval
	d.until("the question", func() (bool, error) {
		out := d.ok("approval", "list", "--session", id, "-o", "json")
		return out != "", json.Unmarshal([]byte(cmp.Or(out, "{}")), &asked)
	})
	args := []string{"approval", "answer", asked.ID, "--secret", "word=-"}
	r := d.lab.Ctl(d.within(), strings.NewReader(d.answer+"\n"), args...)
	d.keep(args, r.Stdout, r.Stderr)
	if r.Code != 0 {
		t.Fatal(r)
	}
	d.until("the turn to end", func() (bool, error) { v := d.show(id); return v.Turn != nil && v.Turn.Status == "completed", nil })
	pid := d.worker()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.until("another worker", func() (bool, error) { return d.worker() != pid, nil })
	if v := d.turn(id, "what was it?"); v.Status != "completed" {
		t.Errorf("%s: %+v", id, v)
	}
	stop()
	heard := false
	for _, q := range d.lab.Model.Requests() {
		heard = heard || strings.Contains(string(q.Body), d.answer)
	}
	if !heard {
		t.Error("the model was never told the secret: this test would prove nothing")
	}
	d.ok("approval", "show", asked.ID, "-o", "json")
	d.ok("transcript", id)
	d.ok("session", "close", id)
}

// broker runs codex with access tokens that it gets from the worker.
func (d *day) broker() {
	id := "brokered"
	d.ok("session", "start", "--host", "web-1", "--seed", "login", "--id", id, "--credentials", "broker")
	if v := d.turn(id, "hello"); v.Status != "completed" {
		d.t.Errorf("%s: %+v", id, v)
	}
	before := len(d.issuer.Refreshes())
	d.issuer.Expire("")
	if v := d.turn(id, "hello again"); v.Status != "completed" || len(d.issuer.Refreshes()) == before {
		d.t.Errorf("%s got no newer token: %+v", id, v)
	}
	s := NewSearcher(d.marks)
	room, err := filepath.EvalSymlinks(filepath.Join(d.root, "sessions", id, "room"))
	if err != nil {
		d.t.Fatal(err)
	}
	found, files, _, err := s.Below(filepath.Join(d.root, "sessions", id), room, d.host.Home)
	if report(d.t, "the host of a session with a broker", found, err); files == 0 {
		d.t.Error("nothing was looked at")
	}
	d.ok("session", "close", id)
}

func TestNoSecretIsAnywhere(t *testing.T) {
	realparts.NotShort(t)
	d := newDay(t)
	s := NewSearcher(d.marks)
	sampler := s.Sample()
	for _, seed := range []string{"key", "provider", "login", "settings"} {
		d.live(seed)
	}
	d.ask()
	d.told()
	d.broker()
	for _, seed := range []string{"key", "provider", "login", "settings"} {
		d.ok("seed", "show", seed)
		d.ok("seed", "show", seed, "-o", "json")
	}
	for _, args := range [][]string{{"seed", "list"}, {"host", "show", "web-1", "-o", "json"}, {"status"}, {"doctor"}, {"session", "list", "-o", "json"}} {
		d.ctl(args...)
	}
	found, samples, procs := sampler.Stop()
	report(t, "processes", found, nil)
	if samples < 50 || procs < 1000 {
		t.Errorf("processes were looked at %d times, %d in all", samples, procs)
	}
	d.mu.Lock()
	report(t, "what ctl printed", s.In(d.said.Bytes()), nil)
	if size := d.said.Len(); size < 20_000 {
		t.Errorf("ctl printed only %d bytes", size)
	}
	d.mu.Unlock()

	// The control: other marks, planted where the test searches.
	control := Marks{"control": mark()}
	c := NewSearcher(control)
	d.plant(control["control"])

	both := func(where string, look func(*Searcher) ([]string, error)) {
		found, err := look(s)
		report(t, where, found, err)
		if planted, err := look(c); err != nil || len(planted) == 0 {
			t.Errorf("%s: what was planted there was not found (%v): this search looks in the wrong place", where, err)
		}
	}
	both("histories", d.histories)
	both("the store, decrypted", d.blobs)
	both("files of the stack", func(s *Searcher) ([]string, error) {
		found, files, size, err := s.Below(d.lab.State)
		if files < 10 || size < 1<<20 {
			t.Errorf("only %d files with %d bytes", files, size)
		}
		return found, err
	})
	both("the host", func(s *Searcher) ([]string, error) {
		found, _, _, err := s.Below(filepath.Join(d.root, "sessions"), filepath.Join(d.root, "rooms"), d.host.Home)
		return found, err
	})
	if len(d.issuer.Surprises()) > 0 {
		t.Errorf("the issuer was surprised: %v", d.issuer.Surprises())
	}
}

func report(t *testing.T, where string, found []string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", where, err)
	}
	for i, f := range found {
		if i == 12 {
			t.Errorf("%s: and %d more", where, len(found)-i)
			break
		}
		t.Errorf("%s: %s", where, f)
	}
}

// plant puts a mark into each place that is searched.
func (d *day) plant(text string) {
	t := d.t
	t.Helper()
	// In a history, and in base64 as the id of a message.
	id := "planted"
	d.ok("session", "start", "--host", "web-1", "--seed", "provider", "--id", id)
	d.turn(id, "x"+text)
	d.ok("session", "close", id)
	st := d.store()
	if err := st.Put(d.within(), "planted/one", []byte(base64.StdEncoding.EncodeToString([]byte("ab"+text)))); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(d.lab.State, "logs", "planted.log"), filepath.Join(d.root, "sessions", "planted")} {
		if err := os.WriteFile(file, []byte(hex.EncodeToString([]byte(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (d *day) store() *store.Store {
	d.t.Helper()
	ids, err := store.LoadIdentities(filepath.Join(d.lab.State, "identity.txt"))
	if err != nil {
		d.t.Fatal(err)
	}
	to, err := store.RecipientsOf(ids)
	if err != nil {
		d.t.Fatal(err)
	}
	st, err := store.Open(d.within(), store.Options{URL: "file://" + filepath.Join(d.lab.State, "store"), Recipients: to, Identities: ids})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { st.Close() })
	return st
}

// histories searches every event of every run, decrypted.
func (d *day) histories(s *Searcher) (found []string, err error) {
	ctx := d.within()
	c, err := d.lab.Temporal(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	codec, err := d.lab.Codec("default")
	if err != nil {
		return nil, err
	}
	list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: 1000})
	if err != nil {
		return nil, err
	}
	if len(list.GetExecutions()) < 8 {
		return nil, fmt.Errorf("%d workflows listed", len(list.GetExecutions()))
	}
	encrypted, events := 0, 0
	for _, e := range list.GetExecutions() {
		raw, err := proto.Marshal(e)
		if err != nil {
			return nil, err
		}
		id := e.GetExecution().GetWorkflowId()
		for _, f := range s.In(raw) {
			found = append(found, "what lists show of "+id+": "+f)
		}
		it := c.GetWorkflowHistory(ctx, id, e.GetExecution().GetRunId(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for it.HasNext() {
			ev, err := it.Next()
			if err != nil {
				return nil, err
			}
			n, err := lab.Decrypt(ctx, codec, ev)
			if err != nil {
				return nil, err
			}
			encrypted += n
			events++
			// As bytes, in which payloads are as they were before they were
			// sent.
			if raw, err = proto.Marshal(ev); err != nil {
				return nil, err
			}
			text, err := protojson.Marshal(ev)
			if err != nil {
				return nil, err
			}
			for _, f := range append(s.In(raw), s.In(text)...) {
				found = append(found, fmt.Sprintf("event %d (%s) of %s: %s", ev.GetEventId(), ev.GetEventType(), id, f))
			}
		}
	}
	if encrypted < 50 || events < 200 {
		err = fmt.Errorf("only %d events with %d encrypted payloads", events, encrypted)
	}
	return found, err
}

// blobs searches everything in the store, decrypted, except the seeds
// themselves, and the archives.
func (d *day) blobs(s *Searcher) (found []string, err error) {
	ctx, st := d.within(), d.store()
	all, err := st.List(ctx, "")
	if err != nil {
		return nil, err
	}
	n, seedBlobs := 0, 0
	for _, info := range all {
		if strings.HasPrefix(info.Key, "seeds/") {
			seedBlobs++
			continue
		}
		r, err := st.NewReader(ctx, info.Key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", info.Key, err)
		}
		data, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", info.Key, err)
		}
		n++
		for _, f := range append(s.In(data), s.In([]byte(info.Key))...) {
			found = append(found, info.Key+": "+f)
		}
	}
	archives, masked, err := d.archives(ctx, st, s, &found)
	switch {
	case err != nil:
	case seedBlobs < 3 || n < 8 || archives < 3:
		err = fmt.Errorf("only %d seeds, %d blobs, %d archives", seedBlobs, n, archives)
	case masked == 0:
		err = fmt.Errorf("no secret was masked in %d archives, though the agent printed and copied its own", archives)
	}
	return found, err
}

func (d *day) archives(ctx context.Context, st *store.Store, s *Searcher, found *[]string) (n, masked int, err error) {
	all, err := snapshots.List(ctx, st, "")
	if err != nil {
		return 0, 0, err
	}
	chunks := chunks.Open(st, chunks.Options{})
	for _, m := range all {
		var data bytes.Buffer
		if err := snapshots.Export(ctx, chunks, m.ID, &data); err != nil {
			return n, masked, err
		}
		n += len(m.Trees)
		masked += m.Masked
		for _, f := range s.In(data.Bytes()) {
			*found = append(*found, fmt.Sprintf("%s: %s", m.ID, f))
		}
	}
	return n, masked, nil
}
