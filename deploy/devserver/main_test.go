package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"fairlead.dev/fairlead/deploy/devserver/internal/parked"
)

// patience is how long a test waits for what must come; nothing is measured by it.
const patience = 60 * time.Second

// binary is this test's own program, which is the devserver in processes that have asServer
// in their environment: linking the server once more would take longer than the tests.
var binary string

const asServer = "FAIRLEAD_TEST_IS_DEVSERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		main()
	}
	var err error
	if binary, err = os.Executable(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv(asServer, "1")
	os.Exit(m.Run())
}

// process is a devserver that has said that it is ready.
type process struct {
	ready
	cmd    *exec.Cmd
	stderr *logBuffer
	exited chan struct{}
	rest   string // of standard output, after the ready line; set once exited
}

// logBuffer keeps what a process writes, for when a test fails.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startServer runs the binary on ports that the operating system chooses (later
// arguments win) and returns when the ready line has come.
func startServer(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{stderr: new(logBuffer), exited: make(chan struct{})}
	p.cmd = exec.Command(binary, append([]string{"server", "start-dev", "--port", "0", "--ui-port", "0"}, args...)...)
	p.cmd.Stderr = p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("log of devserver %v:\n%s", p.cmd.Args[1:], p.stderr)
		}
	})
	lines := make(chan string, 1)
	go func() {
		defer close(p.exited)
		r := bufio.NewReader(out)
		first, _ := r.ReadString('\n')
		lines <- first
		rest, _ := io.ReadAll(r)
		p.rest = string(rest)
		p.cmd.Wait()
	}()
	select {
	case line := <-lines:
		if err := json.Unmarshal([]byte(line), &p.ready); err != nil {
			t.Fatalf("the first line of output is %q, want the ready line (%v)", line, err)
		}
	case <-time.After(patience):
		t.Fatal("the devserver does not get ready")
	}
	return p
}

// kill is kill -9. It returns when the process is gone.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.exited
}

// stop asks the process to end and returns its exit status.
func (p *process) stop(t *testing.T, sig syscall.Signal) int {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Fatalf("the devserver does not stop on %v", sig)
	}
	return p.cmd.ProcessState.ExitCode()
}

// runToEnd runs the binary, which is expected to end by itself.
func runToEnd(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func startArgs(args ...string) []string {
	return append([]string{"server", "start-dev", "--port", "0", "--headless"}, args...)
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func dial(t *testing.T, address string) client.Client {
	t.Helper()
	c, err := client.DialContext(testContext(t), client.Options{HostPort: address, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// silent is a logger of the SDK that drops everything: reconnecting is loud.
type silent struct{}

var _ sdklog.Logger = silent{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

// work runs a worker for the parked workflows until the test ends.
func work(t *testing.T, c client.Client) {
	t.Helper()
	w := worker.New(c, parked.Queue, worker.Options{})
	parked.Register(w)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
}

func startWorkflow(t *testing.T, c client.Client, id string, workflow any) client.WorkflowRun {
	t.Helper()
	run, err := c.ExecuteWorkflow(testContext(t), client.StartWorkflowOptions{ID: id, TaskQueue: parked.Queue}, workflow)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// until polls check until it returns "" and fails with its last answer.
func until(t *testing.T, check func(ctx context.Context) string) {
	t.Helper()
	ctx := testContext(t)
	for {
		why := check(ctx)
		if why == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(why)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// notes returns what the workflow has been told, as of now.
func notes(ctx context.Context, c client.Client, id string) ([]string, error) {
	v, err := c.QueryWorkflow(ctx, id, "", "notes")
	if err != nil {
		return nil, err
	}
	var got []string
	return got, v.Get(&got)
}

// listed returns how many workflows of the default namespace match query.
func listed(ctx context.Context, c client.Client, query string) (int64, error) {
	r, err := c.CountWorkflow(ctx, countRequest(query))
	if err != nil {
		return 0, err
	}
	return r.Count, nil
}

// awaitListed waits until exactly n workflows match query.
func awaitListed(t *testing.T, c client.Client, query string, n int64) {
	t.Helper()
	until(t, func(ctx context.Context) string {
		got, err := listed(ctx, c, query)
		if err != nil {
			return err.Error()
		}
		if got != n {
			return fmt.Sprintf("%d workflows match %s, want %d", got, query, n)
		}
		return ""
	})
}
