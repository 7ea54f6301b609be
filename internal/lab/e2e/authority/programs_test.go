package authority

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// A program knows an API token, and asks the worker at a socket.
type program struct {
	*testing.T
	socket, token string
}

// newProgram makes a token of root's that does not sign, and its program.
func newProgram(t *testing.T, name, role string) *program {
	t.Helper()
	var made struct{ Token string }
	if err := json.Unmarshal([]byte(mustDo(t, "root", "-o", "json", "token", "create", name, "--role", role, "--api-only")), &made); err != nil {
		t.Fatal(err)
	}
	return &program{t, filepath.Join(e2e.Lab.State, "api.sock"), made.Token}
}

// at returns the program asking another worker.
func (p *program) at(w *lab.Worker) *program { return &program{p.T, w.Socket, p.token} }

func (p *program) request(ctx context.Context, method, target, body string, header ...string) (*http.Response, error) {
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", p.socket)
	}}
	r, err := http.NewRequestWithContext(ctx, method, "http://worker"+target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return (&http.Client{Transport: tr}).Do(r)
}

// do makes a request, reads its answer into out, and returns the status. Without a worker at the
// socket the status is 0.
func (p *program) do(out any, method, target, body string, header ...string) int {
	p.Helper()
	resp, err := p.request(e2e.Within(p.T), method, target, body, header...)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0
	}
	if err := json.Unmarshal(data, out); err != nil {
		p.Fatalf("%s %s: %d %s: %v", method, target, resp.StatusCode, data, err)
	}
	p.Logf("%s %s: %d %.300s", method, target, resp.StatusCode, data)
	return resp.StatusCode
}

// must is do, until a worker is up that answers.
func (p *program) must(status int, out any, method, target, body string, header ...string) {
	p.Helper()
	e2e.Until(p.T, method+" "+target, func() (bool, error) {
		got := p.do(out, method, target, body, header...)
		if got != 0 && got != status && got != http.StatusServiceUnavailable {
			return false, fmt.Errorf("status %d, want %d", got, status)
		}
		return got == status, nil
	})
}

// follow reads the events of a session after last until until holds, and returns the seq of the
// newest entry. resumed is the first event if last is not 0.
func (p *program) follow(session string, last int64, until func(protocol.Entry) bool) (seq int64, resumed bool) {
	p.Helper()
	ctx, cancel := context.WithCancel(e2e.Within(p.T))
	defer cancel()
	var header []string
	if last > 0 {
		header = []string{"Last-Event-ID", fmt.Sprint(last)}
	}
	resp, err := p.request(ctx, "GET", "/v1/sessions/"+session+"/events", "", header...)
	if err != nil {
		p.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		p.Fatalf("follow: status %d", resp.StatusCode)
	}
	name := ""
	seq = last
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			name = text
			resumed = resumed || name == httpapi.EventResumed
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || name != httpapi.EventEntry {
			continue
		}
		var e protocol.Entry
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			p.Fatal(err)
		}
		if e.Seq != seq+1 {
			p.Errorf("entry %d comes after %d", e.Seq, seq)
		}
		if seq = e.Seq; until(e) {
			return seq, resumed
		}
	}
	p.Fatalf("the stream ended after entry %d", seq)
	return seq, resumed
}

func apiOnly(t *testing.T, name string) *lab.Worker {
	t.Helper()
	w, err := e2e.Lab.StartWorker(lab.WorkerOptions{Name: name, Zone: "default", APIOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.End(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	return w
}

// A program without ctl starts a session, follows it, decides what codex asks for and reads the
// result. The worker that it follows is killed, and another one goes on with the stream.
func TestAProgramWorksOverHTTPWhileItsWorkerIsKilled(t *testing.T) {
	operator, approver, viewer := newProgram(t, "http-operator", "operator"), newProgram(t, "http-approver", "approver"), newProgram(t, "http-viewer", "viewer")
	other := apiOnly(t, "api-1")
	const body = `{"host":"web-1","seed":"team","message":{"text":"need a command"}}`
	var started, again httpapi.Started
	operator.at(other).must(http.StatusCreated, &started, "POST", "/v1/sessions", body, "Idempotency-Key", "one")
	path := "/v1/sessions/" + started.ID
	t.Cleanup(func() {
		if r := e2e.Lab.Ctl(context.Background(), nil, "session", "close", started.ID); r.Code != 0 && r.Code != 6 {
			t.Errorf("close: %v", r)
		}
	})
	last, _ := viewer.follow(started.ID, 0, func(e protocol.Entry) bool { return e.Type == protocol.EntryUser })
	pid := e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	last, resumed := viewer.at(other).follow(started.ID, last, func(e protocol.Entry) bool { return e.Type == protocol.EntryRequest })
	if !resumed {
		t.Error("the stream did not say where it goes on")
	}
	// The same request again is the same session, and another one with its key is refused.
	operator.at(other).must(http.StatusCreated, &again, "POST", "/v1/sessions", body, "Idempotency-Key", "one")
	if again.ID != started.ID || !again.Existing || again.MessageID != started.MessageID {
		t.Errorf("again: %+v, at first %+v", again, started)
	}
	var told httpapi.Problem
	if operator.must(http.StatusUnprocessableEntity, &told, "POST", "/v1/sessions", `{"host":"web-1"}`, "Idempotency-Key", "one"); told.Kind != "key_reused" || told.Hint == "" {
		t.Errorf("another request with the key: %+v", told)
	}
	var open httpapi.Page[protocol.Approval]
	e2e.Until(t, "the approval", func() (bool, error) {
		viewer.must(http.StatusOK, &open, "GET", "/v1/approvals?session="+started.ID, "")
		return len(open.Items) == 1, nil
	})
	ap := open.Items[0]
	decision := fmt.Sprintf(`{"digest":%q,"outcome":"accept","reason":"looked at it"}`, ap.Digest)
	at := "/v1/approvals/" + ap.ID + "/decision"
	for _, who := range []*program{operator, viewer} {
		if who.must(http.StatusForbidden, &told, "POST", at, decision); told.Kind != "forbidden" {
			t.Errorf("who may not decide: %+v", told)
		}
	}
	var decided protocol.Approval
	for range 2 { // with a key, a repetition has the same result
		approver.must(http.StatusOK, &decided, "POST", at, decision, "Idempotency-Key", "yes")
		if decided.Decision == nil || decided.Decision.By != "token:http-approver" || decided.Decision.Outcome != "accept" {
			t.Errorf("decided: %+v", decided)
		}
	}
	if approver.must(http.StatusConflict, &told, "POST", at, decision); told.Kind != "refused" {
		t.Errorf("decided already: %+v", told)
	}
	last, _ = viewer.follow(started.ID, last, func(e protocol.Entry) bool { return strings.Contains(e.Text, "The command said: it ran") })
	var turn protocol.TurnView
	e2e.Until(t, "the end of the turn", func() (bool, error) {
		viewer.must(http.StatusOK, &turn, "GET", path+"/turns/1", "")
		return turn.Done(), nil
	})
	if turn.Status != "completed" || !strings.Contains(turn.FinalText, "The command said: it ran") {
		t.Errorf("turn %+v", turn)
	}
	var entries httpapi.Page[protocol.Entry]
	viewer.must(http.StatusOK, &entries, "GET", path+"/entries?limit=500", "")
	if n := len(entries.Items); n == 0 || entries.Items[n-1].Seq < last {
		t.Errorf("%d entries, want those up to %d", n, last)
	}
	var acc protocol.MessageAccepted
	operator.must(http.StatusAccepted, &acc, "POST", path+"/messages", `{"text":"hello"}`, "Idempotency-Key", "two")
	operator.must(http.StatusAccepted, &acc, "POST", path+"/messages", `{"text":"hello"}`, "Idempotency-Key", "two")
	if acc.N != 2 {
		t.Errorf("the message is turn %d, want 2", acc.N)
	}
	var v protocol.SessionView
	operator.must(http.StatusAccepted, &v, "POST", path+"/close", "{}")
	all, err := lab.Lines[audit.Record](e2e.Within(t), e2e.Lab, "audit", "list", "--session", started.ID)
	if err != nil {
		t.Fatal(err)
	}
	for verb, who := range map[access.Verb]string{access.SessionStart: "token:http-operator", access.ApprovalDecide: "token:http-approver", access.SessionMessage: "token:http-operator"} {
		if !slices.ContainsFunc(all, func(r audit.Record) bool {
			return r.Verb == string(verb) && r.Principal == who && r.Outcome == audit.Accepted && r.Evidence.Signature != ""
		}) {
			t.Errorf("%s by %s is not on record with its signature", verb, who)
		}
	}
	e2e.OK(t, "audit", "verify", "--session", started.ID)
}

// Without any worker that runs sessions, an API accepts a start. Its death changes nothing: the
// same request to another one is the same session.
func TestAStartIsOneSessionThoughTheAPIThatTookItDies(t *testing.T) {
	operator := newProgram(t, "http-starter", "operator")
	first := apiOnly(t, "api-2")
	var started, again httpapi.Started
	var list httpapi.Page[protocol.SessionView]
	operator.at(first).must(http.StatusOK, &list, "GET", "/v1/sessions", "") // it is up
	restore := e2e.NoWorker(t)
	const body = `{"host":"web-1","seed":"team","message":{"text":"hello"}}`
	operator.at(first).must(http.StatusCreated, &started, "POST", "/v1/sessions", body, "Idempotency-Key", "once")
	if started.Existing {
		t.Errorf("started: %+v", started)
	}
	e2e.Kill(t, first.PID())
	second := apiOnly(t, "api-3")
	operator.at(second).must(http.StatusCreated, &again, "POST", "/v1/sessions", body, "Idempotency-Key", "once")
	if again.ID != started.ID || !again.Existing {
		t.Errorf("again: %+v, at first %+v", again, started)
	}
	restore()
	t.Cleanup(func() {
		if r := e2e.Lab.Ctl(context.Background(), nil, "session", "close", started.ID); r.Code != 0 && r.Code != 6 {
			t.Errorf("close: %v", r)
		}
	})
	said := 0
	operator.at(second).follow(started.ID, 0, func(e protocol.Entry) bool {
		if e.Type == protocol.EntryUser {
			said++
		}
		return e.Type == protocol.EntryAssistant
	})
	if said != 1 {
		t.Errorf("codex was told %d messages", said)
	}
}
