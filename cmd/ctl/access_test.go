package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"

	"fairlead.dev/fairlead/internal/certs"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
	"fairlead.dev/fairlead/internal/stack"
)

// upHere runs a stack in this process until the test ends. The folder is one that other
// users can reach, so that only the modes of files keep them out.
func upHere(t *testing.T, workers int, validity certs.Validity) *stack.Info {
	t.Helper()
	codex := realparts.Codex(t)
	server, worker := realparts.DevServer(t), realparts.Path(t, "bin", "worker")
	if _, err := os.Stat(worker); err != nil {
		t.Fatalf("%v (run `make build`)", err)
	}
	parent, err := os.MkdirTemp("/var/tmp", "fairlead-access-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(parent) })
	if err := os.Chmod(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	conf, err := config.Parse(filepath.Join(parent, "none.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	conf.Codex.Source = codex
	up := make(chan stack.Info, 1)
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		ended <- stack.Up(ctx, stack.Options{
			Dir: filepath.Join(parent, "state"), Devserver: server, Worker: worker,
			Workers: workers, Config: conf, Validity: validity, Ready: func(i stack.Info) { up <- i }, Logger: slog.New(slog.DiscardHandler),
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case info := <-up:
		return &info
	case err := <-ended:
		ended <- nil
		t.Fatalf("the stack ended: %v", err)
	case <-time.After(10 * time.Minute):
		logs := filepath.Join(parent, "state", "logs")
		t.Fatalf("the stack does not get ready\n%s\n%s", stack.Tail(filepath.Join(logs, "temporal.log"), 5), stack.Tail(filepath.Join(logs, "worker.log"), 5))
	}
	return nil
}

// starts tries what a stranger would: to start a command on the worker's own machine.
func starts(ctx context.Context, address string, conf *tls.Config) error {
	c, err := client.DialContext(ctx, client.Options{HostPort: address, ConnectionOptions: client.ConnectionOptions{TLS: conf, TLSDisabled: conf == nil},
		Logger: temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "stranger-" + time.Now().String(), TaskQueue: protocol.TaskQueueOf("default")}, "of-a-stranger")
	return err
}

// listening returns the ports of all processes of the stack.
func listening(t *testing.T, info *stack.Info) []string {
	t.Helper()
	sockets := map[string]bool{}
	for _, p := range info.Children {
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.PID))
		if err != nil || len(fds) == 0 {
			t.Fatalf("look at the files of %s: %v", p.Name, err)
		}
		for _, fd := range fds {
			if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:[") {
				sockets[strings.Trim(to, "socket:[]")] = true
			}
		}
	}
	var all []string
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open("/proc/self/net/" + table)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			fields := strings.Fields(s.Text())
			if len(fields) < 10 || fields[3] != "0A" || !sockets[fields[9]] {
				continue
			}
			_, hex, _ := strings.Cut(fields[1], ":")
			port, err := strconv.ParseUint(hex, 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, net.JoinHostPort("127.0.0.1", strconv.FormatUint(port, 10)))
		}
	}
	return all
}

// Before, any user of the machine could start workflows of a stack, and so run commands as
// its user, read its UI, and have payloads decoded.
func TestAStrangerOnThisMachineGetsNothingFromAStack(t *testing.T) {
	info := upHere(t, 1, certs.Validity{})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	files := info.Certificates
	ours := certs.Client(files.CA, files.Cert, files.Key, "127.0.0.1")
	if err := starts(ctx, info.Temporal.Address, ours); err != nil {
		t.Fatalf("with the stack's certificate: %v", err)
	}
	elsewhere := t.TempDir()
	if _, err := certs.Ensure(elsewhere, certs.Validity{}); err != nil {
		t.Fatal(err)
	}
	own := certs.In(elsewhere)
	forged := certs.Client("", own.Client, own.Client, "")
	forged.InsecureSkipVerify = true
	ports := listening(t, info)
	if len(ports) < 5 {
		t.Fatalf("the stack listens on %v: too little to be all", ports)
	}
	for _, address := range ports {
		for name, conf := range map[string]*tls.Config{
			"in the clear": nil, "without a certificate": {InsecureSkipVerify: true}, "with one of another stack": forged,
		} {
			short, stop := context.WithTimeout(ctx, 5*time.Second)
			if err := starts(short, address, conf); err == nil {
				t.Errorf("%s, %s: a workflow was started", address, name)
			}
			stop()
		}
		for _, path := range []string{"/", "/healthz", "/api/v1/namespaces/default/workflows", "/codec/decode", "/metrics", "/debug/pprof/", "/v1/status"} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				res, err := asStranger(ctx, method, "http://"+address+path)
				if err == nil && res != http.StatusUnauthorized && res != http.StatusForbidden {
					t.Errorf("%s http://%s%s is answered %d", method, address, path, res)
				}
			}
		}
	}
	if os.Getuid() != 0 {
		t.Fatal("this test needs root, to become another user")
	}
	for _, path := range []string{files.CA, files.Cert, info.Login, info.CLI, filepath.Join(filepath.Dir(info.Login), "codec.token")} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
		cmd := exec.Command("cat", path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cmd.Output(); err == nil || len(out) > 0 {
			t.Errorf("another user reads %s: %v, %d bytes", path, err, len(out))
		}
	}
	for _, socket := range []string{"api.sock", "codec.sock"} {
		path := filepath.Join(filepath.Dir(info.Login), socket)
		if at, err := os.Stat(path); err != nil || at.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, at, err)
		}
	}
}

func asStranger(ctx context.Context, method, url string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(`{"payloads":[]}`))
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, err
}

// Everything of it is seen by a running stack: new connections get the new certificate, a
// connection that is open goes on, and the server is not restarted.
func TestCertificatesAreRenewedWhileAStackRuns(t *testing.T) {
	const leaf = 45 * time.Second // renewed 15 s before its end
	info := upHere(t, 0, certs.Validity{Leaf: leaf})
	files := info.Certificates
	conf := certs.Client(files.CA, files.Cert, files.Key, "127.0.0.1")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	open, err := client.DialContext(ctx, client.Options{HostPort: info.Temporal.Address, ConnectionOptions: client.ConnectionOptions{TLS: conf},
		Logger: temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	first, end, err := shown(info.Temporal.Address, conf)
	if err != nil {
		t.Fatal(err)
	}
	if time.Until(end) > leaf {
		t.Fatalf("the first certificate ends at %s", end)
	}
	for time.Now().Before(end.Add(leaf)) {
		if _, _, err := shown(info.Temporal.Address, conf); err != nil {
			t.Fatalf("a new connection fails: %v", err)
		}
		if _, err := open.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
			t.Fatalf("the open connection fails: %v", err)
		}
		time.Sleep(500 * time.Millisecond)
	}
	serial, end, err := shown(info.Temporal.Address, conf)
	if err != nil || serial == first || time.Until(end) <= 0 {
		t.Errorf("after two lives of a certificate the server shows %s until %s (%v), first %s", serial, end, err, first)
	}
	now, err := stack.Read(filepath.Dir(info.Login))
	if err != nil || now.Temporal.PID != info.Temporal.PID {
		t.Errorf("the server was restarted: %v, %v", now, err)
	}
	if err := starts(ctx, info.Temporal.Address, conf); err != nil {
		t.Error(err)
	}
}

// shown returns the serial number and the end of the certificate that a server shows. It
// waits for the server's first bytes, with which it has taken ours.
func shown(address string, conf *tls.Config) (serial string, end time.Time, err error) {
	own := conf.Clone()
	own.NextProtos = []string{"h2"}
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", address, own)
	if err != nil {
		return "", end, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", end, err
	}
	// HTTP/2's preface and an empty frame of settings.
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		return "", end, err
	}
	if _, err := io.ReadFull(c, make([]byte, 9)); err != nil {
		return "", end, err
	}
	cert := c.ConnectionState().PeerCertificates[0]
	return cert.SerialNumber.String(), cert.NotAfter, nil
}

func TestTheLinkOfCtlUIWorksOnceAndOpensUIAndCodec(t *testing.T) {
	info := upHere(t, 1, certs.Validity{})
	dir := filepath.Dir(info.Login)
	var out, errs strings.Builder
	if code := run([]string{"--state", dir, "ui", "--temporal"}, strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	link := strings.TrimSpace(out.String())
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Timeout: time.Minute}
	status := func(c *http.Client, method, url string, headers ...string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(`{"payloads":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	if got := status(browser, "GET", link); got != 200 {
		t.Fatalf("the link is answered %d", got)
	}
	if got := status(&http.Client{}, "GET", link); got != 401 {
		t.Errorf("the link is answered %d the second time", got)
	}
	token, err := os.ReadFile(filepath.Join(dir, "codec.token"))
	if err != nil {
		t.Fatal(err)
	}
	bearer := "Bearer " + strings.TrimSpace(string(token))
	for _, c := range []struct {
		what string
		by   *http.Client
		do   []string
		want int
	}{
		{"the UI", browser, []string{"GET", info.Temporal.UI + "/"}, 200},
		{"Temporal through the UI", browser, []string{"GET", info.Temporal.UI + "/api/v1/namespaces/default"}, 200},
		{"the codec", browser, []string{"POST", info.CodecEndpoint + "/decode"}, 200},
		{"the codec, for Temporal's CLI", &http.Client{}, []string{"POST", info.CodecEndpoint + "/decode", "Authorization", bearer}, 200},
		{"the codec, for a stranger", &http.Client{}, []string{"POST", info.CodecEndpoint + "/decode"}, 401},
		{"the UI, for Temporal's CLI", &http.Client{}, []string{"GET", info.Temporal.UI + "/", "Authorization", bearer}, 401},
	} {
		if got := status(c.by, c.do[0], c.do[1], c.do[2:]...); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
	profile, err := os.ReadFile(info.CLI)
	if err != nil || !strings.Contains(string(profile), bearer) || !strings.Contains(string(profile), info.CodecEndpoint) {
		t.Errorf("the profile for Temporal's CLI: %v\n%s", err, profile)
	}
}

func TestCtlUIWithoutAStackSaysHowToStartOne(t *testing.T) {
	var out, errs strings.Builder
	if code := run([]string{"--state", t.TempDir(), "ui"}, strings.NewReader(""), &out, &errs); code != 4 || !strings.Contains(errs.String(), "ctl up") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	// An earlier version's stack.json has no login.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "stack.json"), []byte(`{"temporal":{"ui":"http://127.0.0.1:1"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	errs.Reset()
	if code := run([]string{"--state", dir, "ui"}, strings.NewReader(""), &out, &errs); code != 6 || !strings.Contains(errs.String(), "ctl down") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	if _, _, err := (&stack.Info{}).Link(time.Now()); !errors.Is(err, stack.ErrNoLogin) {
		t.Error(err)
	}
}
