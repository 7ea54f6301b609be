package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// A worker is a worker besides the stack's own. Nothing restarts it.
type worker struct {
	*lab.Worker
	t *testing.T
}

// addWorker starts a worker of a zone and drains it when the test is over.
func addWorker(t *testing.T, name, zone string) *worker {
	t.Helper()
	return addWorkerWith(t, lab.WorkerOptions{Name: name, Zone: zone})
}

// addWorkerWith is as addWorker, with other options.
func addWorkerWith(t *testing.T, o lab.WorkerOptions) *worker {
	t.Helper()
	w, err := e2e.Lab.StartWorker(o)
	if err != nil {
		t.Fatal(err)
	}
	added := &worker{Worker: w, t: t}
	t.Cleanup(func() { added.end(syscall.SIGTERM) })
	return added
}

// end sends a signal and waits for the exit; a drained worker must exit with
// success.
func (w *worker) end(sig syscall.Signal) {
	w.t.Helper()
	if err := w.End(sig); err != nil {
		w.t.Error(err)
	}
}

// dials returns the remote ports of a process's connections; each stands for
// another machine.
func dials(pid int) map[string]bool {
	out, inodes := map[string]bool{}, map[string]string{}
	table, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", pid))
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) > 9 && strings.Contains(f[2], ":") {
			var port int
			if _, err := fmt.Sscanf(f[2][strings.Index(f[2], ":"):], ":%X", &port); err == nil {
				inodes["socket:["+f[9]+"]"] = fmt.Sprint(port)
			}
		}
	}
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && inodes[to] != "" {
			out[inodes[to]] = true
		}
	}
	return out
}

// A fleetWatch continuously checks which worker dials which host, and the load
// of the hosts.
type fleetWatch struct {
	mu     sync.Mutex
	zones  map[int]string            // of workers, by pid
	hosts  map[string]string         // of the host that listens on a port
	runs   map[string]map[string]int // by host: sessions, and the slots under ""
	dialed map[string]bool           // zones in which a worker dialled one of its own hosts
	wrong  []string
}

func (f *fleetWatch) worker(zone string, pids ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, pid := range pids {
		f.zones[pid] = zone
	}
}

func (f *fleetWatch) sample() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for pid, zone := range f.zones {
		for port := range dials(pid) {
			switch of, is := f.hosts[port]; {
			case is && of != zone:
				f.wrong = append(f.wrong, fmt.Sprintf("a worker of zone %s dialled a host of zone %s", zone, of))
			case is:
				f.dialed[zone] = true
			}
		}
	}
	for host, sessions := range f.runs {
		var run []string
		for id := range sessions {
			if pids := e2e.Lab.CodexOf(id); id != "" && len(pids) > 0 {
				run = append(run, fmt.Sprintf("%s (processes %v)", id, pids))
			}
		}
		if len(run) > sessions[""] {
			f.wrong = append(f.wrong, fmt.Sprintf("%s: on %s, which has %d slots, there run %s", time.Now().Format("15:04:05.0"), host, sessions[""], strings.Join(run, ", ")))
		}
	}
}

// watch samples until stop is called, which judges.
func (f *fleetWatch) watch(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			f.sample()
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	return func() {
		cancel()
		<-done
		if len(f.wrong) > 0 {
			t.Errorf("seen %d times, such as: %s", len(f.wrong), f.wrong[0])
		}
		for _, zone := range f.hosts {
			if !f.dialed[zone] {
				t.Errorf("no worker of zone %s was seen at its host: the watch sees nothing", zone)
			}
		}
	}
}

// served returns the pids of the workers that took part in a session.
func served(t *testing.T, id string) map[int]bool {
	t.Helper()
	c, err := e2e.Lab.Temporal(e2e.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	out := map[int]bool{}
	it := c.GetWorkflowHistory(e2e.Within(t), protocol.SessionID(id), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			t.Fatal(err)
		}
		for _, who := range []string{e.GetActivityTaskStartedEventAttributes().GetIdentity(), e.GetWorkflowTaskStartedEventAttributes().GetIdentity()} {
			if id, ok := api.ParseIdentity(who); ok {
				out[id.PID] = true
			}
		}
	}
	return out
}

// Three workers in two zones: one is killed, one is drained as for a
// deployment, others start. Sessions continue, each host is dialled from its
// own zone, and no slot is used twice.
func TestWorkersComeAndGoWhileSessionsGoOn(t *testing.T) {
	near2, off1 := addWorker(t, "near2", "default"), addWorker(t, "off1", "off")
	e2e.Until(t, "the other zone to take hosts", func() (bool, error) {
		r := e2e.Lab.Ctl(e2e.Within(t), nil, "host", "list", "--zone", "off")
		return r.Code == 0 && r.Stderr == "", nil
	})
	w := &fleetWatch{zones: map[int]string{}, hosts: map[string]string{}, runs: map[string]map[string]int{}, dialed: map[string]bool{}}
	w.worker("default", e2e.WorkerPID(t), near2.PID())
	w.worker("off", off1.PID())
	for host, zone := range map[string]string{"near-7": "default", "off-7": "off"} {
		sshd, err := e2e.Lab.AddHost(e2e.Within(t), host, hosttest.Options{}, "--slots", "2", "--zone", zone)
		if err != nil {
			t.Fatal(err)
		}
		w.hosts[sshd.Address()[strings.LastIndex(sshd.Address(), ":")+1:]] = zone
		w.runs[host] = map[string]int{"": 2}
		e2e.OK(t, "host", "provision", host, "--zone", zone)
		t.Cleanup(func() { e2e.Lab.Ctl(context.Background(), nil, "host", "remove", host, "--zone", zone, "--force") })
	}
	begin := func(host, id, text string) {
		t.Helper()
		zone := map[string]string{"near-7": "default", "off-7": "off"}[host]
		w.mu.Lock()
		w.runs[host][id] = 1
		w.mu.Unlock()
		e2e.OK(t, "run", "--detach", "--zone", zone, "--host", host, "--seed", "team", "--id", id, text)
	}
	defer w.watch(t)()

	// takes starts sessions until a worker has taken part in one.
	n := 0
	takes := func(host string, who *worker) {
		t.Helper()
		e2e.Until(t, "a worker takes part", func() (bool, error) {
			n++
			id := fmt.Sprintf("spread-%d", n)
			begin(host, id, "hello")
			if v := e2e.HasClosed(t, id); v.Turn == nil || v.Turn.Status != "completed" {
				return false, fmt.Errorf("session %s is %+v", id, v)
			}
			return served(t, id)[who.PID()], nil
		})
	}
	takes("near-7", near2)

	// Each host has one session more than slots.
	ids := map[string]string{}
	for i := range 3 {
		for _, host := range []string{"near-7", "off-7"} {
			id := fmt.Sprintf("%s-s%d", host, i)
			ids[id] = host
			begin(host, id, "take your time behind gate fleet")
		}
	}
	running := func() (n int) {
		for id := range ids {
			if e2e.Show(t, id).State == protocol.Running {
				n++
			}
		}
		return n
	}
	e2e.Until(t, "all slots to be used", func() (bool, error) { return running() == 4, nil })

	near2.end(syscall.SIGKILL)
	off2, near3 := addWorker(t, "off2", "off"), addWorker(t, "near3", "default")
	w.worker("off", off2.PID())
	w.worker("default", near3.PID())
	off1.end(syscall.SIGTERM)

	e2e.Lab.Model.Release("fleet")
	for id := range ids {
		if v := e2e.HasClosed(t, id); v.State != protocol.Closed || v.Turn == nil || v.Turn.N != 1 || v.Turn.Status != "completed" || v.Attempt != 1 {
			t.Errorf("session %s is %+v", id, v)
		}
		if said := e2e.Texts(e2e.Transcript(t, id), protocol.EntryUser); len(said) != 1 {
			t.Errorf("in session %s codex was told %q", id, said)
		}
	}
	takes("near-7", near3)
	takes("off-7", off2)
}
