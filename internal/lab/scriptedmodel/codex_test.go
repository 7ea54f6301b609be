package scriptedmodel

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/realparts"
)

// patience bounds a conversation that would otherwise hang. No assertion
// depends on it.
const patience = 5 * time.Minute

// codex is a real app-server on plain pipes whose provider is a Server.
type codex struct {
	t     *testing.T
	cwd   string
	stdin io.WriteCloser
	lines chan message
	limit <-chan time.Time
	next  int
	kill  func()
}

type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

func (m message) isAsk() bool { return m.ID != nil && m.Method != "" }

// field returns the text at a path of the params.
func (m message) field(path ...string) string {
	var v any
	_ = json.Unmarshal(m.Params, &v)
	for _, name := range path {
		in, _ := v.(map[string]any)
		v = in[name]
	}
	s, _ := v.(string)
	return s
}

// binary returns the codex that `make tools` installed.
func binary(t *testing.T) string {
	t.Helper()
	return realparts.CodexBinary(t)
}

// startCodex starts an app-server with an otherwise empty home and initializes
// it.
func startCodex(t *testing.T, s *Server) *codex {
	t.Helper()
	dir := t.TempDir()
	c := &codex{t: t, cwd: filepath.Join(dir, "work"), lines: make(chan message), limit: time.After(patience)}
	home := filepath.Join(dir, "codex-home")
	// codex puts helper programs into its home only if that is not below the
	// folder for temporary files.
	for _, d := range []string{home, c.cwd, filepath.Join(dir, "tmp"), filepath.Join(dir, "home")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	config := ConfigTOML(s.BaseURL(), "a-token")
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command(binary(t), "app-server", "--strict-config")
	cmd.Env = []string{"CODEX_HOME=" + home, "HOME=" + filepath.Join(dir, "home"),
		"TMPDIR=" + filepath.Join(dir, "tmp"), "PATH=" + os.Getenv("PATH")}
	cmd.Dir = c.cwd
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.stdin = stdin
	c.kill = func() { _ = cmd.Process.Kill() }
	read, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		defer close(c.lines)
		in := bufio.NewReader(stdout)
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			var m message
			if err := json.Unmarshal(line, &m); err != nil {
				m.Method = "not JSON: " + string(line)
			}
			select {
			case c.lines <- m:
			case <-over:
			}
		}
	}()
	t.Cleanup(func() {
		close(over)
		c.kill()
		<-read
		_ = cmd.Wait() // killed
		if t.Failed() {
			t.Logf("codex said on stderr:\n%s", stderr.String())
		}
	})

	c.call("initialize", map[string]any{
		"clientInfo":   map[string]any{"name": "test", "title": "Test", "version": "1"},
		"capabilities": map[string]any{"experimentalApi": true},
	})
	return c
}

func (c *codex) send(m any) {
	c.t.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.stdin.Write(append(b, '\n')); err != nil {
		c.t.Fatalf("write to codex: %v", err)
	}
}

func (c *codex) read() message {
	c.t.Helper()
	select {
	case m, ok := <-c.lines:
		if !ok {
			c.t.Fatal("codex has ended")
		}
		return m
	case <-c.limit:
		c.t.Fatal("codex does not say what the test waits for")
	}
	panic("not reached")
}

// until collects lines up to the first for which fits returns true.
func (c *codex) until(fits func(message) bool) []message {
	c.t.Helper()
	var got []message
	for {
		m := c.read()
		got = append(got, m)
		if fits(m) {
			return got
		}
	}
}

func (c *codex) untilMethod(method string) []message {
	c.t.Helper()
	return c.until(func(m message) bool { return m.Method == method })
}

func (c *codex) call(method string, params map[string]any) json.RawMessage {
	c.t.Helper()
	c.next++
	id, _ := json.Marshal(c.next)
	c.send(map[string]any{"id": c.next, "method": method, "params": params})
	got := c.until(func(m message) bool { return m.Method == "" && string(m.ID) == string(id) })
	last := got[len(got)-1]
	if last.Error != nil {
		c.t.Fatalf("%s: %s", method, last.Error)
	}
	return last.Result
}

// thread starts a thread; an empty model is codex's default.
func (c *codex) thread(model, sandbox string) string {
	c.t.Helper()
	params := map[string]any{"cwd": c.cwd, "approvalPolicy": "on-request", "sandbox": sandbox}
	if model != "" {
		params["model"] = model
	}
	var r struct {
		Thread struct{ ID string }
	}
	if err := json.Unmarshal(c.call("thread/start", params), &r); err != nil || r.Thread.ID == "" {
		c.t.Fatalf("thread/start gave no id: %v", err)
	}
	return r.Thread.ID
}

func (c *codex) startTurn(thread, text string) {
	c.t.Helper()
	c.call("turn/start", map[string]any{"threadId": thread,
		"input": []any{map[string]any{"type": "text", "text": text}}})
}

func (c *codex) decide(ask message, decision string) {
	c.t.Helper()
	c.send(map[string]any{"id": ask.ID, "result": map[string]any{"decision": decision}})
}

type turn struct {
	lines []message
	asks  []message
	end   struct {
		Turn struct {
			Status string
			Error  *struct {
				Message        string
				CodexErrorInfo json.RawMessage
			}
		}
	}
}

func (c *codex) finish(decision string) turn {
	c.t.Helper()
	var r turn
	r.lines = c.until(func(m message) bool {
		if m.isAsk() {
			r.asks = append(r.asks, m)
			c.decide(m, decision)
		}
		return m.Method == "turn/completed"
	})
	if err := json.Unmarshal(r.lines[len(r.lines)-1].Params, &r.end); err != nil {
		c.t.Fatal(err)
	}
	return r
}

func (c *codex) runTurn(thread, text, decision string) turn {
	c.t.Helper()
	c.startTurn(thread, text)
	return c.finish(decision)
}

// texts returns one text of each notification of that method.
func texts(lines []message, method string, path ...string) []string {
	var out []string
	for _, m := range lines {
		if m.Method == method {
			out = append(out, m.field(path...))
		}
	}
	return out
}

func (r turn) messages() []string {
	var out []string
	for _, m := range r.items("agentMessage") {
		out = append(out, m.field("item", "text"))
	}
	return out
}

func (r turn) items(kind string) []message {
	var out []message
	for _, m := range r.lines {
		if m.Method == "item/completed" && m.field("item", "type") == kind {
			out = append(out, m)
		}
	}
	return out
}
