package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"fairlead.dev/fairlead/deploy/devserver/internal/parked"
)

func countRequest(query string) *workflowservice.CountWorkflowExecutionsRequest {
	return &workflowservice.CountWorkflowExecutionsRequest{Namespace: "default", Query: query}
}

func TestDropsInAsDevServerOfTheSDK(t *testing.T) {
	uiPort, err := freePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	log := new(logBuffer)
	customer := temporal.NewSearchAttributeKeyKeyword("Customer")
	options := testsuite.DevServerOptions{
		ExistingPath:     binary,
		ClientOptions:    &client.Options{Namespace: "shop", Logger: silent{}},
		DBFilename:       filepath.Join(t.TempDir(), "t.db"),
		EnableUI:         true,
		UIPort:           strconv.Itoa(uiPort),
		SearchAttributes: temporal.NewSearchAttributes(customer.ValueSet("")),
		Stdout:           log,
		Stderr:           log,
	}
	for round := range 2 {
		s, err := testsuite.StartDevServer(testContext(t), options)
		if err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
		stop := sync.OnceValue(s.Stop)
		t.Cleanup(func() { stop() })
		c := s.Client()
		if round == 0 {
			_, err := c.ExecuteWorkflow(testContext(t), client.StartWorkflowOptions{
				ID: "kept", TaskQueue: parked.Queue, TypedSearchAttributes: temporal.NewSearchAttributes(customer.ValueSet("ann")),
			}, parked.Notes)
			if err != nil {
				t.Fatal(err)
			}
		}
		until(t, func(ctx context.Context) string {
			r, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: "shop", Query: "Customer = 'ann'"})
			if err != nil || r.Count != 1 {
				return fmt.Sprintf("round %d: %v workflows of ann (%v), want 1", round, r.GetCount(), err)
			}
			return ""
		})
		res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", uiPort))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("round %d: the UI answers %s", round, res.Status)
		}
		c.Close()
		if err := stop(); err != nil {
			t.Fatalf("round %d: stop: %v\n%s", round, err, log)
		}
	}
}

func TestReadyLineAndCleanStop(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		db := filepath.Join(t.TempDir(), "t.db")
		p := startServer(t, "--db-filename", db)
		if p.PID != p.cmd.Process.Pid || p.DB != db || p.Version != serverVersion || p.Namespace != "default" {
			t.Errorf("the ready line is %+v", p.ready)
		}
		dial(t, p.Address)
		for _, page := range []string{"/", "/namespaces/default/workflows", "/api/v1/namespaces/default"} {
			res, err := http.Get(p.UI + page)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Errorf("the UI answers %s for %s", res.Status, page)
			}
		}
		if code := p.stop(t, sig); code != exitDone {
			t.Errorf("exit status %d after %v, want %d", code, sig, exitDone)
		}
		if p.rest != "" {
			t.Errorf("standard output goes on behind the ready line: %q", p.rest)
		}
		if info, err := os.Stat(db + "-wal"); err == nil && info.Size() > 0 {
			t.Errorf("at rest the WAL still holds %d bytes", info.Size())
		}
		for _, name := range []string{db, db + ".version", db + ".lock"} {
			if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v; want mode 0600", name, info.Mode(), err)
			}
		}
	}
}

func TestHeadlessHasNoUI(t *testing.T) {
	p := startServer(t, "--headless")
	if p.UI != "" || p.DB != "" {
		t.Errorf("the ready line is %+v, want neither ui nor db", p.ready)
	}
	if n := len(listeners(t, p.PID)); n != len(services) {
		t.Errorf("%d listeners, want one for each of the %d services", n, len(services))
	}
}

func TestListensOnLoopbackOnly(t *testing.T) {
	p := startServer(t)
	ls := listeners(t, p.PID)
	if len(ls) != len(services)+1 {
		t.Errorf("%d listeners, want one for each service and the UI", len(ls))
	}
	for _, at := range ls {
		if !at.IP.IsLoopback() {
			t.Errorf("listens on %v", at)
		}
	}
}

// listeners returns the addresses on which the process takes TCP connections.
func listeners(t *testing.T, pid int) []*net.TCPAddr {
	t.Helper()
	sockets := make(map[string]bool)
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(fds) == 0 {
		t.Fatalf("look at the files of process %d: %v", pid, err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:[") {
			sockets[strings.Trim(to, "socket:[]")] = true
		}
	}
	var all []*net.TCPAddr
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			fields := strings.Fields(s.Text())
			if len(fields) < 10 || fields[3] != "0A" || !sockets[fields[9]] {
				continue
			}
			hex, portHex, _ := strings.Cut(fields[1], ":")
			var ip net.IP
			for word := range len(hex) / 8 { // words of four bytes, each the wrong way round
				for i := 3; i >= 0; i-- {
					b, err := strconv.ParseUint(hex[word*8+2*i:word*8+2*i+2], 16, 8)
					if err != nil {
						t.Fatal(err)
					}
					ip = append(ip, byte(b))
				}
			}
			port, err := strconv.ParseUint(portHex, 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, &net.TCPAddr{IP: ip, Port: int(port)})
		}
	}
	return all
}

func TestPortInUseIsSaid(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	for flag, args := range map[string][]string{
		"--port":    {"server", "start-dev", "--headless", "--port", port},
		"--ui-port": {"server", "start-dev", "--port", "0", "--ui-port", port},
	} {
		code, out, errs := runToEnd(t, args...)
		if code != exitFailed || out != "" || !strings.Contains(errs, "127.0.0.1:"+port) || !strings.Contains(errs, "give another "+flag) {
			t.Errorf("%s: exit status %d, output %q, error %q", flag, code, out, errs)
		}
	}
}

func TestBadCommandLine(t *testing.T) {
	for _, args := range [][]string{nil, {"serve"}, {"server"}, startArgs("--shards", "4")} {
		code, out, errs := runToEnd(t, args...)
		if code != exitUsage || out != "" || errs == "" {
			t.Errorf("%v: exit status %d, output %q, error %q", args, code, out, errs)
		}
	}
}

func TestVersionIsJSON(t *testing.T) {
	code, out, _ := runToEnd(t, "version")
	var v struct{ Server, UI string }
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 || v.Server != serverVersion || v.UI != uiVersion {
		t.Errorf("exit status %d, output %q (%v)", code, out, err)
	}
}

func TestRetentionIsThatOfTheFlag(t *testing.T) {
	db := filepath.Join(t.TempDir(), "t.db")
	for _, c := range []struct {
		args []string
		want time.Duration
	}{
		{nil, 30 * 24 * time.Hour},
		{[]string{"--retention", "1000h"}, 1000 * time.Hour},
	} {
		p := startServer(t, append(c.args, "--headless", "--db-filename", db)...)
		r, err := dial(t, p.Address).WorkflowService().DescribeNamespace(testContext(t), &workflowservice.DescribeNamespaceRequest{Namespace: "default"})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Config.WorkflowExecutionRetentionTtl.AsDuration(); got != c.want {
			t.Errorf("%v: retention is %s, want %s", c.args, got, c.want)
		}
		p.kill()
	}
}

// storm makes 60 list calls at once, without a retry, and returns how many were
// refused for their rate.
func storm(t *testing.T, address string) int {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	api := workflowservice.NewWorkflowServiceClient(conn)
	ctx := testContext(t)
	errs := make([]error, 60)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = api.ListWorkflowExecutions(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: "default", Query: "FairleadState = 'idle'"})
		})
	}
	wg.Wait()
	refused := 0
	for _, err := range errs {
		switch status.Code(err) {
		case codes.OK:
		case codes.ResourceExhausted:
			refused++
		default:
			t.Error(err)
		}
	}
	return refused
}

func TestListsAreNotHeldToTheStockRate(t *testing.T) {
	p := startServer(t, "--headless")
	if n := storm(t, p.Address); n > 0 {
		t.Errorf("%d of 60 lists at once were refused", n)
	}
	stock := startServer(t, "--headless", "--dynamic-config-value", "frontend.namespaceRPS.visibility=10")
	if n := storm(t, stock.Address); n == 0 {
		t.Error("none of 60 lists was refused at a rate of 10 a second: this test shows nothing")
	}
}

func TestCancelReachesActivityThatNeverHeartbeats(t *testing.T) {
	p := startServer(t, "--headless")
	c := dial(t, p.Address)
	began, ended := make(chan struct{}), make(chan error, 1)
	w := worker.New(c, "cancel", worker.Options{})
	w.RegisterActivityWithOptions(func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}, activity.RegisterOptions{Name: "wait"})
	waits := func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: patience / 2, // ends with another error than a cancellation does
			WaitForCancellation: true,
			RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
		})
		return workflow.ExecuteActivity(ctx, "wait").Get(ctx, nil)
	}
	w.RegisterWorkflowWithOptions(waits, workflow.RegisterOptions{Name: "waits"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	ctx := testContext(t)
	if _, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "waits", TaskQueue: "cancel"}, "waits"); err != nil {
		t.Fatal(err)
	}
	<-began
	if err := c.CancelWorkflow(ctx, "waits", ""); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the activity ended with %v, want %v", err, context.Canceled)
	}
	if err := c.GetWorkflow(ctx, "waits", "").Get(ctx, nil); !temporal.IsCanceledError(err) {
		t.Errorf("the workflow ended with %v, want a cancellation", err)
	}
}
