package standin_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/lab/standin"
	"fairlead.dev/fairlead/internal/realparts"
)

// patience bounds a test that would otherwise hang.
const patience = 5 * time.Minute

func repo(t *testing.T) string {
	t.Helper()
	return realparts.Root(t)
}

func realCodex(t *testing.T) string {
	t.Helper()
	return realparts.CodexBinary(t)
}

func pack(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := standin.Pack(t.Context(), repo(t), dir); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "bin", "codex")
}

type line struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	raw string
}

type peer struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan line
	said  []line
	dir   string
	work  string
	next  int
}

// start starts an app-server with the home and work folder below dir.
func start(t *testing.T, binary, dir, config string) *peer {
	t.Helper()
	p := &peer{t: t, dir: dir, work: filepath.Join(dir, "work"), lines: make(chan line, 1000)}
	home, tmp := filepath.Join(dir, "codex-home"), filepath.Join(dir, "tmp")
	for _, d := range []string{home, p.work, tmp} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(binary, "app-server")
	p.cmd.Env = append(os.Environ(), "CODEX_HOME="+home, "TMPDIR="+tmp)
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		r := bufio.NewReader(out)
		for {
			text, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			l := line{raw: string(bytes.TrimSpace(text))}
			_ = json.Unmarshal(text, &l) // noise becomes an empty line
			p.lines <- l
		}
	}()
	t.Cleanup(p.stop)
	return p
}

// stop closes its input, as a closed connection would.
func (p *peer) stop() {
	p.in.Close()
	late := time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
	defer late.Stop()
	for range p.lines {
	}
	p.cmd.Wait()
}

func (p *peer) until(what string, match func(line) bool) line {
	p.t.Helper()
	late := time.After(patience)
	for {
		select {
		case l, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("ended while waiting for %s", what)
			}
			p.said = append(p.said, l)
			if match(l) {
				return l
			}
		case <-late:
			p.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (p *peer) method(name string) line {
	p.t.Helper()
	return p.until(name, func(l line) bool { return l.Method == name })
}

func (p *peer) send(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) call(method, params string) line {
	p.t.Helper()
	p.next++
	id := fmt.Sprintf(`"c%d"`, p.next)
	p.send(`{"id":%s,"method":%q,"params":%s}`, id, method, params)
	return p.until(method, func(l line) bool { return l.Method == "" && string(l.ID) == id })
}

func (p *peer) open() {
	p.t.Helper()
	p.call("initialize", `{"clientInfo":{"name":"contract","title":"C","version":"1"},"capabilities":{"experimentalApi":true}}`)
	p.send(`{"method":"initialized"}`)
	p.call("account/read", `{}`)
	p.call("model/list", `{}`)
}

func (p *peer) thread() string {
	p.t.Helper()
	l := p.call("thread/start", fmt.Sprintf(`{"cwd":%q,"approvalPolicy":"on-request","sandbox":"workspace-write","model":"gpt-5.5"}`, p.work))
	p.method("thread/started")
	return pick(p.t, l.Result, "thread", "id")
}

func (p *peer) turn(thread, text string) string {
	p.t.Helper()
	l := p.call("turn/start", fmt.Sprintf(`{"threadId":%q,"clientUserMessageId":"m","input":[{"type":"text","text":%q}]}`, thread, text))
	return pick(p.t, l.Result, "turn", "id")
}

func pick(t *testing.T, raw json.RawMessage, path ...string) string {
	t.Helper()
	for _, key := range path[:len(path)-1] {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatalf("%s in %s: %v", key, raw, err)
		}
		raw = m[key]
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	s, ok := m[path[len(path)-1]].(string)
	if !ok {
		t.Fatalf("no %s in %s", strings.Join(path, "."), raw)
	}
	return s
}

// incidental are notifications of the real codex that are unrelated to turns.
var incidental = []string{"configWarning", "thread/readState/changed", "thread/goal/cleared", "deprecationNotice", "warning", "account/rateLimits/updated",
	"remoteControl/status/changed", "turn/diff/updated", "thread/name/updated"}

// shape returns the sequence of what was sent without variable parts:
// consecutive deltas are merged, and a method is followed by the type of its
// item or status.
func (p *peer) shape() []string {
	var all []string
	for _, l := range p.said {
		name := l.Method
		switch {
		case l.Method == "" && l.Error != nil:
			name = "error"
		case l.Method == "":
			name = "answer " + string(l.ID)
		case slices.Contains(incidental, l.Method):
			continue
		}
		var n struct {
			Item   struct{ Type, Status string } `json:"item"`
			Turn   struct{ Status string }       `json:"turn"`
			Status struct {
				Type  string
				Flags []string `json:"activeFlags"`
			} `json:"status"`
		}
		if l.Method != "thread/started" && json.Unmarshal(l.Params, &n) == nil {
			for _, s := range append([]string{n.Item.Type, n.Item.Status, n.Turn.Status, n.Status.Type}, n.Status.Flags...) {
				if s != "" {
					name += " " + s
				}
			}
		}
		if k := len(all); strings.HasSuffix(name, "/delta") && k > 0 && all[k-1] == name {
			continue
		}
		all = append(all, name)
	}
	return all
}

// model makes the real codex do what the stand-in does by itself.
const model = `
rules:
  - name: ask
    when: {contains: ask touch}
    steps:
      - shell: {cmd: "touch asked", escalate: true, justification: "it was asked for"}
      - say: word
  - name: hang
    when: {contains: hang}
    steps:
      - - wait: never
  - reply: word word word
`

// both returns the stand-in and the real codex in the same state.
func both(t *testing.T) (ours, real *peer) {
	t.Helper()
	codex := realCodex(t)
	s := scriptedmodel.Serve(t, model)
	config := scriptedmodel.ConfigTOML(s.BaseURL(), "a-token")
	return start(t, pack(t), t.TempDir(), config), start(t, codex, t.TempDir(), config)
}

// compare requires the same lines in the same order. Thread status lines may
// come before or after their cause, so they are compared separately.
func compare(t *testing.T, ours, real *peer) {
	t.Helper()
	isStatus := func(s string) bool { return strings.HasPrefix(s, "thread/status/") }
	for _, drop := range []func(string) bool{isStatus, func(s string) bool { return !isStatus(s) }} {
		a, b := answersFirst(slices.DeleteFunc(ours.shape(), drop)), answersFirst(slices.DeleteFunc(real.shape(), drop))
		if len(b) == 0 || !slices.Equal(a, b) {
			t.Errorf("ours:\n  %s\ncodex:\n  %s", strings.Join(a, "\n  "), strings.Join(b, "\n  "))
		}
	}
}

// answersFirst puts an answer that follows turn/started before it. codex writes
// the two from different tasks, in either order.
func answersFirst(said []string) []string {
	for i := 1; i < len(said); i++ {
		if strings.HasPrefix(said[i], "answer ") && strings.HasPrefix(said[i-1], "turn/started") {
			said[i-1], said[i] = said[i], said[i-1]
		}
	}
	return said
}

func withoutTokenUsage(said []line) []line {
	return slices.DeleteFunc(said, func(l line) bool { return l.Method == "thread/tokenUsage/updated" })
}

func TestPlainTurnLooksLikeCodexs(t *testing.T) {
	ours, real := both(t)
	for _, p := range []*peer{ours, real} {
		p.open()
		id := p.thread()
		p.said = nil
		p.turn(id, "say 3")
		p.method("turn/completed")
	}
	compare(t, ours, real)
}

func TestApprovalLooksLikeCodexs(t *testing.T) {
	for _, decision := range []string{"accept", "decline", "cancel", "nonsense"} {
		t.Run(decision, func(t *testing.T) {
			ours, real := both(t)
			for _, p := range []*peer{ours, real} {
				p.open()
				id := p.thread()
				p.said = nil
				p.turn(id, "ask touch asked\nsay 1")
				ask := p.method("item/commandExecution/requestApproval")
				if !strings.Contains(string(ask.Params), "touch asked") {
					t.Errorf("asked for %s", ask.Params)
				}
				p.send(`{"id":%s,"result":{"decision":%q}}`, ask.ID, decision)
				p.method("turn/completed")
				_, err := os.Stat(filepath.Join(p.work, "asked"))
				if ran := err == nil; ran != (decision == "accept") {
					t.Errorf("%s: the command ran: %v", p.cmd.Path, ran)
				}
				// A cancelled turn may end before codex has read how many
				// tokens it took.
				if decision == "cancel" {
					p.said = withoutTokenUsage(p.said)
				}
			}
			compare(t, ours, real)
		})
	}
}

func TestInterruptLooksLikeCodexs(t *testing.T) {
	ours, real := both(t)
	for _, p := range []*peer{ours, real} {
		p.open()
		id := p.thread()
		p.said = nil
		turn := p.turn(id, "hang")
		p.until("the message", func(l line) bool { return l.Method == "item/completed" && strings.Contains(l.raw, "userMessage") })
		p.call("turn/interrupt", fmt.Sprintf(`{"threadId":%q,"turnId":%q}`, id, turn))
		p.method("turn/completed")
	}
	compare(t, ours, real)
}

func TestInterruptResolvesWhatWaitsAsCodexDoes(t *testing.T) {
	ours, real := both(t)
	for _, p := range []*peer{ours, real} {
		p.open()
		id := p.thread()
		p.said = nil
		turn := p.turn(id, "ask touch asked\nsay 1")
		p.method("item/commandExecution/requestApproval")
		p.call("turn/interrupt", fmt.Sprintf(`{"threadId":%q,"turnId":%q}`, id, turn))
		p.method("serverRequest/resolved")
		if _, err := os.Stat(filepath.Join(p.work, "asked")); err == nil {
			t.Errorf("%s: the command ran", p.cmd.Path)
		}
		// codex counts tokens once the model has answered, the stand-in once
		// the tools have.
		p.said = withoutTokenUsage(p.said)
	}
	compare(t, ours, real)
}

func TestWhatItSaysObeysCodexsSchema(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.Command(realCodex(t), "app-server", "generate-json-schema", "--experimental", "--out", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("generate the schema: %v\n%s", err, out)
	}
	check := func(file, doc string) {
		t.Helper()
		schema, err := jsonschema.NewCompiler().Compile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(doc))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %.2000s\n%s", file, doc, aboutIt(err))
		}
	}
	p := start(t, pack(t), t.TempDir(), "")
	answer := func(file, method, params string) line {
		t.Helper()
		l := p.call(method, params)
		check(file, string(l.Result))
		return l
	}
	answer("v1/InitializeResponse.json", "initialize", `{"clientInfo":{"name":"contract","title":"C","version":"1"}}`)
	answer("v2/GetAccountResponse.json", "account/read", `{}`)
	answer("v2/ModelListResponse.json", "model/list", `{}`)
	answer("v2/CommandExecResponse.json", "command/exec", `{"command":["/bin/true"]}`)
	id := pick(t, answer("v2/ThreadStartResponse.json", "thread/start", fmt.Sprintf(`{"cwd":%q,"approvalPolicy":"never","sandbox":"read-only"}`, p.work)).Result, "thread", "id")
	of := fmt.Sprintf(`{"threadId":%q,"limit":3}`, id)
	turn := answer("v2/TurnStartResponse.json", "turn/start", fmt.Sprintf(`{"threadId":%q,"input":[{"type":"text","text":"run true\nsay 2\nasks 2\nstream 50/s for 100ms\nburst 2MB\nask\nhang"}]}`, id))
	for range 2 {
		p.send(`{"id":%s,"result":{"decision":"accept"}}`, p.method("item/commandExecution/requestApproval").ID)
	}
	p.method("item/commandExecution/requestApproval")
	answer("v2/ThreadReadResponse.json", "thread/read", of)
	turnID := pick(t, turn.Result, "turn", "id")
	answer("v2/TurnSteerResponse.json", "turn/steer", fmt.Sprintf(`{"threadId":%q,"expectedTurnId":%q,"input":[{"type":"text","text":"more"}]}`, id, turnID))
	answer("v2/TurnInterruptResponse.json", "turn/interrupt", fmt.Sprintf(`{"threadId":%q,"turnId":%q}`, id, turnID))
	p.method("serverRequest/resolved")
	answer("v2/ThreadTurnsListResponse.json", "thread/turns/list", of)
	answer("v2/ThreadLoadedListResponse.json", "thread/loaded/list", `{}`)
	answer("v2/ThreadBackgroundTerminalsCleanResponse.json", "thread/backgroundTerminals/clean", of)
	answer("v2/ThreadInjectItemsResponse.json", "thread/inject_items", fmt.Sprintf(`{"threadId":%q,"items":[]}`, id))
	answer("v2/ThreadForkResponse.json", "thread/fork", fmt.Sprintf(`{"threadId":%q,"cwd":%q,"approvalPolicy":"never","sandbox":"read-only"}`, id, p.work))
	seen := map[string]bool{}
	for _, l := range p.said {
		switch {
		case l.Method == "" || seen[l.Method] && strings.HasSuffix(l.Method, "/delta"):
		case l.ID != nil:
			check("ServerRequest.json", l.raw)
		default:
			check("ServerNotification.json", l.raw)
		}
		seen[l.Method] = true
	}
	for _, m := range []string{"thread/started", "turn/started", "item/agentMessage/delta", "item/completed", "turn/completed", "thread/tokenUsage/updated"} {
		if !seen[m] {
			t.Errorf("%s was never said", m)
		}
	}
}

// aboutIt returns the part of a schema error that is about the method at hand.
func aboutIt(err error) string {
	var about []string
	for _, branch := range strings.Split(err.Error(), "- at '': validation failed") {
		if !strings.Contains(branch, "'/method'") {
			about = append(about, branch)
		}
	}
	return strings.Join(about, "")
}

func TestMessagesSayWhatATurnDoes(t *testing.T) {
	p := start(t, pack(t), t.TempDir(), "")
	p.open()
	id := p.thread()
	for _, c := range []struct {
		text string
		ok   func([]line) bool
	}{
		{"hello there", func(all []line) bool {
			return slices.ContainsFunc(all, func(l line) bool { return strings.Contains(l.raw, "You said: hello there") })
		}},
		{"line 3MB", func(all []line) bool { return len(longest(all)) > 3<<20 }},
		{"noise", func(all []line) bool {
			return slices.ContainsFunc(all, func(l line) bool { return l.raw == "this is no message" })
		}},
		{"stream 100/s for 300ms", func(all []line) bool {
			n := 0
			for _, l := range all {
				if l.Method == "item/agentMessage/delta" {
					n++
				}
			}
			return n == 30
		}},
		{"burst 4MB", func(all []line) bool {
			n := 0
			for _, l := range all {
				n += len(l.raw)
			}
			return n > 4<<20
		}},
		{"run echo $((6*7))", func(all []line) bool {
			return slices.ContainsFunc(all, func(l line) bool { return strings.Contains(l.raw, `"aggregatedOutput":"42\n"`) })
		}},
	} {
		p.said = nil
		p.turn(id, c.text)
		p.method("turn/completed")
		if !c.ok(p.said) {
			t.Errorf("%q did not do what it says", c.text)
		}
	}
}

func longest(all []line) string {
	var s string
	for _, l := range all {
		if len(l.raw) > len(s) {
			s = l.raw
		}
	}
	return s
}

var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)

func TestErrorsAreInCodexsWords(t *testing.T) {
	ours, real := both(t)
	const nobody = `"01a1fe13-33cc-7970-8380-7064a3872d3b"`
	answers := map[*peer][]string{}
	for _, p := range []*peer{ours, real} {
		note := func(l line) {
			if l.Error == nil {
				answers[p] = append(answers[p], "no error: "+l.raw)
				return
			}
			text, _, _ := strings.Cut(ids.ReplaceAllString(l.Error.Message, "<id>"), ", expected one of")
			answers[p] = append(answers[p], fmt.Sprint(l.Error.Code, " ", text))
		}
		note(p.call("thread/loaded/list", `{}`))
		p.open()
		note(p.call("initialize", `{"clientInfo":{"name":"contract","title":"C","version":"1"}}`))
		note(p.call("nobody/knows", `{}`))
		note(p.call("turn/start", `{"threadId":`+nobody+`,"input":[]}`))
		note(p.call("thread/read", `{"threadId":`+nobody+`}`))
		note(p.call("thread/resume", `{"threadId":`+nobody+`}`))
		id := p.thread()
		note(p.call("turn/interrupt", fmt.Sprintf(`{"threadId":%q,"turnId":%s}`, id, nobody)))
		note(p.call("turn/steer", fmt.Sprintf(`{"threadId":%q,"expectedTurnId":%s,"input":[{"type":"text","text":"x"}]}`, id, nobody)))
		p.send(`{"id":"x","method":"thread/loaded/list"}`)
		note(p.until("the refusal", func(l line) bool { return string(l.ID) == `"x"` }))
		p.turn(id, "hang")
		note(p.call("turn/steer", fmt.Sprintf(`{"threadId":%q,"expectedTurnId":%s,"input":[{"type":"text","text":"x"}]}`, id, nobody)))
		beside := start(t, p.cmd.Path, p.dir, scriptedConfig(t, p))
		beside.open()
		note(beside.call("thread/resume", fmt.Sprintf(`{"threadId":%q,"cwd":%q}`, id, p.work)))
	}
	if !slices.Equal(answers[ours], answers[real]) {
		t.Errorf("ours:\n  %s\ncodex:\n  %s", strings.Join(answers[ours], "\n  "), strings.Join(answers[real], "\n  "))
	}
}

func scriptedConfig(t *testing.T, p *peer) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "codex-home", "config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestThreadIsResumedFromItsRollout(t *testing.T) {
	ours, real := both(t)
	for _, p := range []*peer{ours, real} {
		p.open()
		id := p.thread()
		p.turn(id, "say 3")
		p.method("turn/completed")
		p.turn(id, "hang")
		p.until("the message", func(l line) bool { return l.Method == "item/completed" && strings.Contains(l.raw, "userMessage") })
		p.cmd.Process.Kill()
		for range p.lines {
		}
		again := start(t, p.cmd.Path, p.dir, scriptedConfig(t, p))
		again.open()
		l := again.call("thread/resume", fmt.Sprintf(`{"threadId":%q,"cwd":%q,"approvalPolicy":"on-request","sandbox":"workspace-write","excludeTurns":true}`, id, p.work))
		if l.Error != nil || pick(t, l.Result, "thread", "id") != id {
			t.Fatalf("%s: %s", p.cmd.Path, l.raw)
		}
		l = again.call("thread/turns/list", fmt.Sprintf(`{"threadId":%q,"limit":3,"itemsView":"full"}`, id))
		var list struct {
			Data []struct {
				Status string
				Items  []struct{ Type, ClientID string }
			}
		}
		if err := json.Unmarshal(l.Result, &list); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range list.Data {
			var items []string
			for _, it := range d.Items {
				items = append(items, it.Type+" "+it.ClientID)
			}
			got = append(got, d.Status+": "+strings.Join(items, ", "))
		}
		want := []string{"interrupted: userMessage m", "completed: userMessage m, agentMessage "}
		if !slices.Equal(got, want) {
			t.Errorf("%s: turns %q, want %q", p.cmd.Path, got, want)
		}
	}
}
