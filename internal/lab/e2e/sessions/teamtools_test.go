package sessions

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
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

// A desk is a webhook that carries out each call once, and answers only when it is opened. Its
// first answers then are lost: a status of 503, a connection that is closed, and a reply that is cut.
type desk struct {
	mu      sync.Mutex
	calls   map[string]string // body by webhook-id
	answers int               // also those that were lost
	asked   chan struct{}
	open    chan struct{}
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	id := r.Header.Get("webhook-id")
	d.mu.Lock()
	if was, again := d.calls[id]; err != nil || again && was != string(body) {
		d.mu.Unlock()
		http.Error(w, "another body for the same id", http.StatusConflict)
		return
	}
	d.calls[id] = string(body)
	n := len(d.calls)
	d.mu.Unlock()
	d.asked <- struct{}{}
	select {
	case <-d.open:
	case <-r.Context().Done():
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
		fmt.Fprint(w, "ticket ")
		panic(http.ErrAbortHandler)
	}
	var call struct {
		Data struct{ Arguments struct{ ID string } }
	}
	_ = json.Unmarshal(body, &call)
	fmt.Fprintf(w, "ticket %s is number %d", call.Data.Arguments.ID, n)
}

// A tool of a team is called once for each call, with one reply, although workers are
// killed while the handler works, more often than Temporal tries any activity of ours again whose
// attempts are limited, and although the handler's first answers are lost. A tool that the worker's
// config does not allow stops the session before anything happens.
func TestAWebhookToolIsAnsweredOnceUnderAStormOfKills(t *testing.T) {
	d := &desk{calls: map[string]string{}, asked: make(chan struct{}, 100), open: make(chan struct{})}
	s := httptest.NewServer(d)
	t.Cleanup(s.Close)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	l, run := e2e.Own(t, "limits: {watch: 1s}\ntools: {webhooks: [{url: '"+s.URL+"/fairlead/', secret_file: "+file("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")+"}]}\n")
	script, err := scriptedmodel.Parse([]byte(`
rules:
  - steps:
      - call: {name: lookup_ticket, arguments: {id: 7}}
      - call: {name: lookup_ticket, arguments: {id: "ABC-1"}}
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
  - name: lookup_ticket
    description: Look up a ticket by its id.
    schema: {type: object, properties: {id: {type: string}}, required: [id], additionalProperties: false}
    webhook: `+url+`
    timeout: 10m
`)
	}
	if r := l.Ctl(e2e.Within(t), nil, "run", "--host", "web-1", "--seed", "team", "--tools", tools(s.URL+"/other"), "look"); r.Code != 6 || !strings.Contains(r.Stderr, "does not allow") {
		t.Errorf("a webhook that the config does not allow: %v", r)
	}
	run("session", "start", "--host", "web-1", "--seed", "team", "--tools", "report_progress,"+tools(s.URL+"/fairlead/lookup"), "--id", "desk")
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
	if len(said) != 1 || strings.Count(said[0], "ticket ABC-1 is number 1") != 1 || !strings.Contains(said[0], "do not match its schema: at /id") {
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
	if v.Options["team_tools"] != "lookup_ticket" || v.Options["tools"] != "report_progress" {
		t.Errorf("shown are %q and %q", v.Options["team_tools"], v.Options["tools"])
	}
	run("session", "close", "desk")
}
