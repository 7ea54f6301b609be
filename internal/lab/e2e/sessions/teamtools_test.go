package sessions

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// A desk is before the example program docs/examples/ticketdesk, which checks signatures and
// carries out each call once. The desk passes calls on only when it is opened. The first answers
// then are lost: a status of 503, a connection that is closed, and a reply that is cut.
type desk struct {
	program string // its URL
	mu      sync.Mutex
	calls   map[string]bool // by webhook-id
	answers int             // also those that were lost
	asked   chan struct{}
	open    chan struct{}
}

// newDesk starts the program. Its tickets are in dir/tickets.jsonl.
func newDesk(t *testing.T, dir, secretFile string) *desk {
	t.Helper()
	program := filepath.Join(dir, "ticketdesk")
	build := exec.CommandContext(e2e.Within(t), "go", "build", "-o", program, "./docs/examples/ticketdesk")
	build.Dir = e2e.Repo
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, "-listen", "127.0.0.1:0", "-secret-file", secretFile, "-file", filepath.Join(dir, "tickets.jsonl"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone already
		_ = cmd.Wait()         // it was killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	at, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("it said %q: %v", line, err)
	}
	return &desk{program: "http://" + at, calls: map[string]bool{}, asked: make(chan struct{}, 100), open: make(chan struct{})}
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // a worker died while it wrote
	}
	d.mu.Lock()
	d.calls[r.Header.Get("webhook-id")] = true
	d.mu.Unlock()
	d.asked <- struct{}{}
	select {
	case <-d.open:
	case <-r.Context().Done():
		return
	}
	status, answer, err := d.pass(r, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	d.mu.Lock()
	d.answers++
	nth := d.answers
	d.mu.Unlock()
	switch nth {
	case 1:
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	case 2:
		panic(http.ErrAbortHandler) // the connection is closed
	case 3:
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, "opened ")
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(status)
	_, _ = w.Write(answer) // a worker may have died
}

// pass gives a call to the program, and returns the answer.
func (d *desk) pass(r *http.Request, body []byte) (status int, answer []byte, err error) {
	to, err := http.NewRequestWithContext(r.Context(), http.MethodPost, d.program+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	to.Header = r.Header.Clone()
	res, err := http.DefaultClient.Do(to)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(res.Body, 64<<10))
	return res.StatusCode, answer, err
}

// A tool of a team is called once for each call, with one reply, although workers are
// killed while the handler works, more often than Temporal tries any activity of ours again whose
// attempts are limited, and although the handler's first answers are lost. A tool that the worker's
// config does not allow stops the session before anything happens.
func TestAWebhookToolIsAnsweredOnceUnderAStormOfKills(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret := file("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
	d := newDesk(t, dir, secret)
	s := httptest.NewServer(d)
	t.Cleanup(s.Close)
	l, run := e2e.Own(t, "limits: {watch: 1s}\ntools: {webhooks: [{url: '"+s.URL+"/fairlead/', secret_file: "+secret+"}]}\n")
	script, err := scriptedmodel.Parse([]byte(`
rules:
  - steps:
      - call: {name: open_ticket, arguments: {title: 7}}
      - call: {name: open_ticket, arguments: {title: "a printer on fire"}}
      - say: "{{ range .Results }}{{ .Output }}; {{ end }}"
`))
	if err == nil {
		err = l.Model.SetScript(script)
	}
	if err != nil {
		t.Fatal(err)
	}
	tools := func(url string) string {
		return file("tools.yaml", `
tools:
  - name: open_ticket
    description: Open a ticket.
    schema: {type: object, properties: {title: {type: string}}, required: [title], additionalProperties: false}
    webhook: `+url+`
    timeout: 10m
`)
	}
	if r := l.Ctl(e2e.Within(t), nil, "run", "--host", "web-1", "--seed", "team", "--tools", tools(s.URL+"/other"), "look"); r.Code != 6 || !strings.Contains(r.Stderr, "does not allow") {
		t.Errorf("a webhook that the config does not allow: %v", r)
	}
	run("session", "start", "--host", "web-1", "--seed", "team", "--tools", "report_progress,"+tools(s.URL+"/fairlead/tickets"), "--id", "desk")
	run("session", "send", "desk", "--no-wait", "look")
	for range kills {
		select {
		case <-d.asked:
		case <-e2e.Within(t).Done():
			t.Fatal("the webhook is not called")
		}
		var st lab.Status
		if err := l.JSON(e2e.Within(t), &st, "status"); err != nil || len(st.Workers) == 0 {
			t.Fatalf("workers %+v, %v", st.Workers, err)
		}
		for _, w := range st.Workers {
			if err := syscall.Kill(w.PID, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				t.Fatal(err)
			}
		}
	}
	close(d.open)
	var v protocol.SessionView
	e2e.Until(t, "the turn's end", func() (bool, error) {
		err := l.JSON(e2e.Within(t), &v, "session", "show", "desk")
		return err == nil && v.Turn != nil && v.Turn.Status != "inProgress" && v.State == protocol.Idle, nil
	})
	list, err := lab.Lines[protocol.Entry](e2e.Within(t), l, "transcript", "desk")
	if err != nil {
		t.Fatal(err)
	}
	said := e2e.Texts(list, protocol.EntryAssistant)
	if len(said) != 1 || strings.Count(said[0], "opened ticket 1: a printer on fire") != 1 || !strings.Contains(said[0], "do not match its schema: at /title") {
		t.Errorf("the model had %q", said)
	}
	if got := e2e.Texts(list, protocol.EntryTool); len(got) != 2 {
		t.Errorf("calls in the transcript: %q", got)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.calls) != 1 || d.answers < 4 {
		t.Errorf("the webhook got %d calls: %v; it answered %d times", len(d.calls), d.calls, d.answers)
	}
	if v.Options["team_tools"] != "open_ticket" || v.Options["tools"] != "report_progress" {
		t.Errorf("shown are %q and %q", v.Options["team_tools"], v.Options["tools"])
	}
	tickets, err := os.ReadFile(filepath.Join(dir, "tickets.jsonl"))
	if err != nil || strings.Count(string(tickets), "\n") != 1 || !strings.Contains(string(tickets), "a printer on fire") {
		t.Errorf("the tickets are %q, %v", tickets, err)
	}
	run("session", "close", "desk")
}
