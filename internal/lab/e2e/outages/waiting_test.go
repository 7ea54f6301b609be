package outages

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/standin"
	"fairlead.dev/fairlead/internal/protocol"
)

// void checks that nobody can decide an approval any more.
func void(t *testing.T, id string) {
	t.Helper()
	var a protocol.Approval
	if err := e2e.Lab.JSON(e2e.Within(t), &a, "approval", "show", id); err != nil {
		t.Fatal(err)
	}
	if a.State != protocol.ApprovalVoid {
		t.Errorf("approval %s is %s", id, a.State)
	}
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "approval", "accept", id); r.Code != 6 {
		t.Errorf("deciding what is void: %v", r)
	}
}

func TestACodexThatDiesWhileItAsksIsNoticedByItself(t *testing.T) {
	e2e.Session(t, "asked")
	e2e.Send(t, "asked", "you need a command")
	a := e2e.Open(t, "asked", 1)[0]
	thread := e2e.Show(t, "asked").ThreadID
	codex := e2e.Lab.CodexOf("asked")
	if len(codex) == 0 {
		t.Fatal("codex was not found on the host")
	}
	for _, pid := range codex {
		e2e.Kill(t, pid)
	}
	v := e2e.Ended(t, "asked", 1)
	if v.State != protocol.Interrupted || v.Turn.Status != "interrupted" || len(v.Requests) != 0 ||
		v.Process.Alive || !strings.Contains(v.Process.End, "137") || v.Process.Incarnation != 1 {
		t.Errorf("session is %+v, process %+v", v, v.Process)
	}
	void(t, a.ID)
	if v := e2e.Turn(t, "asked", "hello again"); v.Status != "completed" {
		t.Errorf("the next turn is %+v", v)
	}
	if v := e2e.Show(t, "asked"); v.ThreadID != thread || !v.Process.Alive || v.Process.End != "" || v.Process.Incarnation != 2 {
		t.Errorf("session is %+v, process %+v", v, v.Process)
	}
}

func TestARequestThatCodexTakesBackIsVoidByItself(t *testing.T) {
	e2e.Session(t, "taken")
	e2e.Send(t, "taken", "you need a command")
	a := e2e.Open(t, "taken", 1)[0]
	v := e2e.Show(t, "taken")
	// Somebody on the host interrupts the turn, so codex withdraws its request.
	in, err := os.OpenFile(filepath.Join(e2e.Root, "sessions", "taken", "proc", "app-server", "in"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(in, "\n{\"id\":\"theirs\",\"method\":\"turn/interrupt\",\"params\":{\"threadId\":%q,\"turnId\":%q}}\n", v.ThreadID, v.Turn.ID)
	if cerr := in.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	if v := e2e.Ended(t, "taken", 1); v.State != protocol.Idle || v.Turn.Status != "interrupted" || len(v.Requests) != 0 || !v.Process.Alive || v.Process.Incarnation != 1 {
		t.Errorf("session is %+v, process %+v", v, v.Process)
	}
	void(t, a.ID)
	if v := e2e.Turn(t, "taken", "hello again"); v.Status != "completed" {
		t.Errorf("the next turn is %+v", v)
	}
}

func TestACodexThatDiesWithTheWorkerThatWatchedItIsNoticedByAnother(t *testing.T) {
	e2e.Session(t, "both")
	e2e.Send(t, "both", "you need a command")
	a := e2e.Open(t, "both", 1)[0]
	pid := e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	for _, codex := range e2e.Lab.CodexOf("both") {
		e2e.Kill(t, codex)
	}
	e2e.Back(t, pid)
	if v := e2e.Ended(t, "both", 1); v.State != protocol.Interrupted || v.Turn.Status != "interrupted" || v.Process.Alive || v.Process.Incarnation != 1 {
		t.Errorf("session is %+v, process %+v", v, v.Process)
	}
	void(t, a.ID)
}

func TestAJournalThatIsDeletedWhileCodexAsksIsNoticedByItself(t *testing.T) {
	e2e.Session(t, "unwritten")
	e2e.Send(t, "unwritten", "you need a command")
	a := e2e.Open(t, "unwritten", 1)[0]
	if err := os.Remove(filepath.Join(e2e.Root, "sessions", "unwritten", "proc", "app-server", "out.log")); err != nil {
		t.Fatal(err)
	}
	if v := e2e.Ended(t, "unwritten", 1); v.State != protocol.Interrupted || v.Turn.Status != "interrupted" || v.Process.Alive || v.Process.End == "" {
		t.Errorf("session is %+v, process %+v", v, v.Process)
	}
	void(t, a.ID)
	if v := e2e.Turn(t, "unwritten", "hello again"); v.Status != "completed" {
		t.Errorf("the next turn is %+v", v)
	}
}

// A crowd is a stack of its own with the small stand-ins for codex. All of its
// sessions share a host and wait for a person.
type crowd struct {
	*lab.Lab
	t       *testing.T
	host    *hosttest.SSHD
	metrics string
	ids     []string
	c       client.Client
}

// newCrowd starts the stack. fleet says whether its worker counts what is in the namespace; more is
// more of its config file.
func newCrowd(t *testing.T, fleet bool, more string) *crowd {
	t.Helper()
	ctx := e2e.Within(t)
	pack := filepath.Join(t.TempDir(), "codex")
	if err := standin.Pack(ctx, e2e.Repo, pack); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{t: t, metrics: ln.Addr().String()}
	ln.Close()
	// No workflow is cached, so that the SDK's cache is not counted. The
	// stand-in has no sandbox that could protect a credential.
	config := fmt.Sprintf("limits: {watch: 1s, sticky_cache: 0}\nseeds: {unprotected: allow}\nmetrics: {listen: %q, pprof: true, fleet: %t}\n%s", c.metrics, fleet, more)
	if c.Lab, err = lab.New(ctx, lab.Options{Repo: e2e.Repo, Script: []byte("rules: [{reply: nobody asks}]"), Codex: pack, Config: config}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if c.host, err = c.AddHost(ctx, "crowded", hosttest.Options{}, "--slots", "1000"); err != nil {
		t.Fatal(err)
	}
	if err := c.ImportSeed(ctx, "team"); err != nil {
		t.Fatal(err)
	}
	if c.c, err = c.Temporal(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.c.Close)
	return c
}

func (c *crowd) wait(id string) {
	c.t.Helper()
	for _, args := range [][]string{
		{"session", "start", "--host", "crowded", "--seed", "team", "--sandbox", "danger-full-access", "--id", id},
		{"session", "send", id, "--no-wait", "ask true"},
	} {
		if _, err := c.Out(e2e.Within(c.t), args...); err != nil {
			c.t.Fatal(err)
		}
	}
	c.becomes(id, protocol.Waiting)
	c.ids = append(c.ids, id)
}

func (c *crowd) becomes(id string, state protocol.SessionStatus) protocol.SessionView {
	c.t.Helper()
	var v protocol.SessionView
	e2e.Until(c.t, fmt.Sprintf("%s to be %s", id, state), func() (bool, error) {
		err := c.JSON(e2e.Within(c.t), &v, "session", "show", id)
		return v.State == state, err
	})
	return v
}

// A load is what the sessions cost a worker and a host.
type load struct {
	goroutines  int // outside the SDK, whose pollers depend on the traffic
	slots       int // running activities
	connections int
	channels    int // programs that sshd runs for the worker
	attachments int
}

// more is the number of sessions that are added to the first ones.
const more = 6

// within reports whether m is at most l except for what does not grow with the
// sessions: one shell, and fewer goroutines than one for every two added
// sessions.
func (m load) within(l load) bool {
	return m.slots <= 1 && m.attachments == 0 && m.connections <= l.connections &&
		m.channels <= l.channels+1 && m.goroutines < l.goroutines+more/2
}

// load waits until only work that serves all sessions is left.
func (c *crowd) load() load {
	c.t.Helper()
	var l load
	e2e.Until(c.t, "the worker to be at rest", func() (bool, error) {
		var err error
		if l.slots, err = activitiesOf(e2e.Within(c.t), c.metrics); err != nil || l.slots > 1 {
			return false, err
		}
		l.goroutines, err = goroutinesOf(e2e.Within(c.t), c.metrics)
		return true, err
	})
	l.connections, l.channels = connections(c.t, c.host)
	ties, err := filepath.Glob(filepath.Join(c.Dir, "host crowded", "sessions", "*", "proc", "*", "tie.*"))
	if err != nil {
		c.t.Fatal(err)
	}
	l.attachments = len(ties)
	return l
}

func fetch(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, res.Status)
	}
	return string(data), err
}

func activitiesOf(ctx context.Context, address string) (int, error) {
	text, err := fetch(ctx, "http://"+address+"/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "temporal_worker_task_slots_used{") && strings.Contains(line, `worker_type="ActivityWorker"`) {
			n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(strings.TrimSpace(line), ' '):]), 64)
			return int(n), err
		}
	}
	return 0, fmt.Errorf("the worker does not say how many activities run")
}

// goroutinesOf counts a worker's goroutines outside the SDK.
func goroutinesOf(ctx context.Context, address string) (int, error) {
	text, err := fetch(ctx, "http://"+address+"/debug/pprof/goroutine?debug=2")
	n := 0
	for g := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(g, "goroutine ") && !strings.Contains(g, "go.temporal.io/sdk/") {
			n++
		}
	}
	return n, err
}

// connections counts an sshd's connections, and the programs in their channels.
func connections(t *testing.T, d *hosttest.SSHD) (conns, channels int) {
	t.Helper()
	_, port, err := net.SplitHostPort(d.Address())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", n)) && f[3] == "01" {
			conns++
		}
	}
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		// A program of a channel has its environment, and sshd as its parent.
		env, _ := os.ReadFile(p + "/environ")
		if strings.Contains(string(env), "SSH_CONNECTION=") && strings.Contains(string(env), " "+port+"\x00") && isSSHD(parentOf(p)) {
			channels++
		}
	}
	return conns, channels
}

func parentOf(proc string) string {
	stat, _ := os.ReadFile(proc + "/stat")
	if f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])); len(f) > 1 {
		return "/proc/" + f[1]
	}
	return ""
}

func isSSHD(proc string) bool {
	name, _ := os.ReadFile(proc + "/comm")
	return strings.HasPrefix(string(name), "sshd")
}

func (c *crowd) events(id string) int {
	c.t.Helper()
	n := 0
	it := c.c.GetWorkflowHistory(e2e.Within(c.t), protocol.SessionID(id), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		if _, err := it.Next(); err != nil {
			c.t.Fatal(err)
		}
		n++
	}
	return n
}

func TestWaitingSessionsTakeNothing(t *testing.T) {
	c := newCrowd(t, false, "")
	for i := range 4 {
		c.wait(fmt.Sprintf("few-%d", i))
	}
	few := c.load()
	for i := range more {
		c.wait(fmt.Sprintf("many-%d", i))
	}
	t.Logf("with 4 sessions that wait: %+v", few)
	// What belongs to the host varies: a spare shell, an idle connection. What
	// belongs to a session would stay as long as it waits.
	var many load
	e2e.Until(t, "the load to be what it was with 4 sessions", func() (bool, error) {
		many = c.load()
		t.Logf("with %d: %+v", len(c.ids), many)
		return many.within(few), nil
	})
	history := map[string]int{}
	for _, id := range c.ids {
		history[id] = c.events(id)
	}
	// Each death must be noticed separately.
	for _, id := range c.ids[:3] {
		pids := c.CodexOf(id)
		if len(pids) == 0 {
			t.Fatalf("no process of %s", id)
		}
		for _, pid := range pids {
			e2e.Kill(t, pid)
		}
		if v := c.becomes(id, protocol.Interrupted); v.Process.Alive || len(v.Requests) != 0 {
			t.Errorf("session is %+v, process %+v", v, v.Process)
		}
	}
	for _, id := range c.ids[3:] {
		if n := c.events(id); n != history[id] {
			t.Errorf("%s waited, and its history went from %d to %d events", id, history[id], n)
		}
	}
	for _, id := range c.ids {
		if r := c.Ctl(e2e.Within(t), nil, "session", "close", id); r.Code != 0 {
			t.Errorf("close: %v", r)
		}
	}
}
