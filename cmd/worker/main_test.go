package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
	"fairlead.dev/fairlead/internal/store"
)

// The test binary is the worker if FAIRLEAD_TEST_WORKER is set.
func TestMain(m *testing.M) {
	if os.Getenv("FAIRLEAD_TEST_WORKER") == "1" {
		main()
	}
	if address := os.Getenv("FAIRLEAD_TEST_HOLDER"); address != "" {
		fmt.Fprintln(os.Stderr, holder(address, os.Getenv("FAIRLEAD_TEST_ROOT")))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// A process is a program that a test started. Its output is kept.
type process struct {
	*exec.Cmd
	log  bytes.Buffer
	done chan struct{}
}

func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{Cmd: cmd, done: make(chan struct{})}
	cmd.Stderr = &p.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(p.done); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the process may have ended long ago
		<-p.done
		if t.Failed() {
			t.Logf("%s: %s", filepath.Base(cmd.Path), p.log.String())
		}
	})
	return p
}

func runWorker(t *testing.T, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "FAIRLEAD_TEST_WORKER=1", "TEMPORAL_CONFIG_FILE="+os.DevNull)
	return start(t, cmd)
}

// temporalIn starts a Temporal server whose database is in dir, and returns its address. No
// test of another package takes the port before the server does.
func temporalIn(t *testing.T, dir string) (address string) {
	t.Helper()
	port, err := hosttest.TakePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = port.Release() })
	start(t, exec.Command(realparts.DevServer(t), "server", "start-dev", "--headless", "--port", strconv.Itoa(port.Number), "--db-filename", filepath.Join(dir, "t.db")))
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port.Number))
}

func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// A cloned repository must not be able to redirect a worker.
func TestAConfigFileOfTheCurrentFolderIsNotRead(t *testing.T) {
	home := t.TempDir()
	t.Chdir(t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("FAIRLEAD_CONFIG", "")
	for _, name := range []string{"fairlead.yaml", "config.yaml", "worker.yaml"} {
		if err := os.WriteFile(name, []byte("authority: local\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	own := filepath.Join(home, "fairlead", "config.yaml")
	if conf, err := loadConfig(""); conf != nil || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), own) {
		t.Errorf("instead of the user's own %s, the worker reads %+v, %v", own, conf, err)
	}
}

// A place is a folder with everything that a worker's config names.
type place struct{ dir, config, socket string }

func newPlace(t *testing.T, more string) place {
	t.Helper()
	dir := t.TempDir()
	if _, err := store.GenerateIdentity(filepath.Join(dir, "id.txt")); err != nil {
		t.Fatal(err)
	}
	codex := realparts.Codex(t)
	if !strings.Contains(more, "authority:") {
		more += "authority: local\n"
	}
	p := place{dir, filepath.Join(dir, "worker.yaml"), filepath.Join(dir, "api.sock")}
	p.write(t, fmt.Sprintf("store: {url: \"file://%s/store\", identity: id.txt}\ncodex: {source: %q}\napi: {listen: \"unix://%s\"}\n%s", dir, codex, p.socket, more))
	return p
}

func (p place) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(p.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p place) status(t *testing.T) (api.Status, error) {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(p.dir, "token"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	c, err := api.NewClient("unix://"+p.socket, api.ClientOptions{Token: strings.TrimSpace(string(token))})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return c.Status(ctx)
}

func TestEveryMistakeOfTheConfigIsToldAtOnce(t *testing.T) {
	p := newPlace(t, "")
	p.write(t, "zone: default\nstore:\n  url: nonsense\nlog: {level: loud}\nlimits:\n  pumps: 0\n")
	for _, args := range [][]string{{"--config", p.config}, {"--config", p.config, "--check-config"}} {
		w := runWorker(t, args...)
		<-w.done
		if code := w.ProcessState.ExitCode(); code != 2 {
			t.Errorf("%v: exit status %d, want 2", args, code)
		}
		for _, want := range []string{"3 mistakes", "line 3: store.url: ", "line 4: log.level: ", "line 6: limits.pumps: "} {
			if !strings.Contains(w.log.String(), want) {
				t.Errorf("%v: not told: %s in\n%s", args, want, w.log.String())
			}
		}
	}
	p.write(t, "zone: default\n")
	w := runWorker(t, "--config", p.config, "--check-config")
	<-w.done
	for _, want := range []string{"store.url: missing", "store.identity: missing", "codex.source: missing", "authority: missing: say local", "or required", p.config} {
		if code := w.ProcessState.ExitCode(); code != 2 || !strings.Contains(w.log.String(), want) {
			t.Errorf("exit status %d, want 2 and %q in\n%s", code, want, w.log.String())
		}
	}
	good := newPlace(t, "")
	w = runWorker(t, "--config", good.config, "--check-config")
	<-w.done
	if code := w.ProcessState.ExitCode(); code != 0 {
		t.Errorf("a good config: exit status %d\n%s", code, w.log.String())
	}
}

// A worker waits for Temporal, reports this, begins by itself when Temporal answers, and
// stops with status 0 at SIGTERM.
func TestWorkerWaitsForTemporalAndDrains(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	p := newPlace(t, fmt.Sprintf("temporal: {address: %q}\nmetrics: {listen: \"127.0.0.1:0\"}\nidentity: w-1\n", address))
	w := runWorker(t, "--config", p.config)
	wait(t, "the worker says what it waits for", func() bool {
		st, err := p.status(t)
		return err == nil && !st.Ready && st.Waits == "Temporal" && st.PID == w.Process.Pid
	})

	probes := metricsAddress(t, w)
	probed(t, probes+"/livez", http.StatusOK, "ok")
	probed(t, probes+"/readyz", http.StatusServiceUnavailable, "the worker waits for Temporal")
	server := exec.Command(realparts.DevServer(t), "server", "start-dev", "--headless", "--port", strconv.Itoa(port), "--db-filename", filepath.Join(p.dir, "t.db"))
	if _, err := os.Stat(server.Path); err != nil {
		t.Fatalf("%v (run `make build`)", err)
	}
	start(t, server)
	var st api.Status
	wait(t, "the worker is ready", func() bool {
		st, err = p.status(t)
		return err == nil && st.Ready
	})
	probed(t, probes+"/readyz", http.StatusOK, "ok")
	if id, ok := api.ParseIdentity(st.Identity); !ok || id.Name != "w-1" || id.API != "unix://"+p.socket || st.Store.ID == "" || len(st.TaskQueues) != 1 {
		t.Errorf("status %+v", st)
	}
	c, err := client.Dial(client.Options{HostPort: address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	d, err := c.DescribeWorkflowExecution(t.Context(), protocol.PoolID(""), "")
	if err != nil || d.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		t.Errorf("the pool: %v, %v", d.GetWorkflowExecutionInfo(), err)
	}
	var hosts []protocol.HostView
	v, err := c.QueryWorkflow(t.Context(), protocol.PoolID(""), "", protocol.QueryHosts)
	if err == nil {
		err = v.Get(&hosts)
	}
	if err != nil || len(hosts) != 1 {
		t.Errorf("the pool answers %v, %v", hosts, err)
	}

	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-w.done
	if code := w.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit status %d after SIGTERM, want 0", code)
	}
	for line := range strings.Lines(w.log.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line of the log is no JSON: %s", line)
		}
	}
	identity, err := os.ReadFile(filepath.Join(p.dir, "id.txt"))
	if err != nil {
		t.Fatal(err)
	}
	key := regexp.MustCompile(`AGE-SECRET-KEY-\S+`).Find(identity)
	if len(key) == 0 || strings.Contains(w.log.String(), string(key)) {
		t.Error("the identity is in the log, or this test cannot find it")
	}
	if _, err := p.status(t); err == nil {
		t.Error("the API answers after the end")
	}
}

func TestWorkerRefusesAnotherStore(t *testing.T) {
	p := newPlace(t, "")
	text, err := os.ReadFile(p.config)
	if err != nil {
		t.Fatal(err)
	}
	// Use another identity than the one with which the store was made.
	ids, err := store.LoadIdentities(filepath.Join(p.dir, "id.txt"))
	if err != nil {
		t.Fatal(err)
	}
	to, err := store.RecipientsOf(ids)
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{URL: "file://" + p.dir + "/store", Recipients: to, Identities: ids})
	if err != nil {
		t.Fatal(err)
	}
	st.Close()
	p.write(t, strings.Replace(string(text), "identity: id.txt", "identity: id.txt, id: 00000000000000000000000000000000", 1))
	w := runWorker(t, "--config", p.config)
	<-w.done
	if code := w.ProcessState.ExitCode(); code != 4 {
		t.Errorf("another id: exit status %d, want 4\n%s", code, w.log.String())
	}
	if err := os.Remove(filepath.Join(p.dir, "id.txt")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.GenerateIdentity(filepath.Join(p.dir, "id.txt")); err != nil {
		t.Fatal(err)
	}
	p.write(t, string(text))
	w = runWorker(t, "--config", p.config)
	<-w.done
	if code := w.ProcessState.ExitCode(); code != 4 {
		t.Errorf("another identity: exit status %d, want 4\n%s", code, w.log.String())
	}
}

// The SDK uses different tags for one metric in different places.
func TestMetricsOfDifferentTagsAreServed(t *testing.T) {
	var log bytes.Buffer
	m, err := serveMetrics(config.Metrics{Listen: "127.0.0.1:0", Pprof: true}, newLogger(config.Default(), &log))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.Counter("temporal_request").Inc(2)
	m.WithTags(map[string]string{"operation": "Poll"}).Counter("temporal_request").Inc(3)
	m.WithTags(map[string]string{"operation": "Poll"}).WithTags(map[string]string{"task-queue": "q"}).Gauge("temporal_slots").Update(1.5)
	timer := m.WithTags(map[string]string{"operation": "Poll"}).Timer("temporal_latency")
	for _, d := range []time.Duration{2 * time.Millisecond, 2 * time.Second, 100 * time.Hour} {
		timer.Record(d)
	}
	m.watch("fairlead_live_topics", func() float64 { return 7 })
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(log.String())
	page, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/debug/pprof/", nil)
	if err != nil {
		t.Fatal(err)
	}
	page.Host = "evil.example"
	if resp, err := http.DefaultClient.Do(page); err != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("a page that led its name here got %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v: %s", resp.Status, err, body)
	}
	for _, want := range []string{
		"temporal_request 2\n",
		`temporal_request{operation="Poll"} 3` + "\n",
		`temporal_slots{operation="Poll",task_queue="q"} 1.5` + "\n",
		`temporal_latency_seconds_bucket{operation="Poll",le="0.001"} 0` + "\n",
		`temporal_latency_seconds_bucket{operation="Poll",le="0.003"} 1` + "\n",
		`temporal_latency_seconds_bucket{operation="Poll",le="3"} 2` + "\n",
		`temporal_latency_seconds_bucket{operation="Poll",le="+Inf"} 3` + "\n",
		"fairlead_live_topics 7\n",
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("not served: %s", want)
		}
	}
	prof, err := http.Get("http://" + address + "/debug/pprof/goroutine")
	if err != nil {
		t.Fatal(err)
	}
	defer prof.Body.Close()
	if prof.StatusCode != http.StatusOK {
		t.Errorf("the profiler answers %s", prof.Status)
	}
	http.DefaultClient.CloseIdleConnections()
}
