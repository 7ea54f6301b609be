package fleet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/e2e"
)

// A tunnelling is a running `ctl host tunnel`.
type tunnelling struct {
	Listen string `json:"listen"`
	cmd    *exec.Cmd
	told   bytes.Buffer // standard error; complete after end
}

func openTunnel(t *testing.T, host string, port int) *tunnelling {
	t.Helper()
	c := &tunnelling{cmd: e2e.Lab.Command(e2e.Within(t), "host", "tunnel", host, fmt.Sprint(port), "-o", "json")}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd.Stderr = &c.told
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, c)
	}
	if err != nil {
		c.cmd.Process.Kill()
		c.cmd.Wait()
		t.Fatalf("%q, %v: %s", line, err, c.told.String())
	}
	return c
}

// end presses ^C.
func (c *tunnelling) end(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, c.told.String())
	}
}

// fetch makes a request by a connection of its own.
func (c *tunnelling) fetch(path string) (string, error) {
	one := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := one.Get("http://" + c.Listen + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// serveOnHost is a program that listens on the loopback address of web-1, which is this
// machine's.
func serveOnHost(t *testing.T) (port int) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", r.URL.Path, body)
	}))
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(u.Port(), &port); err != nil {
		t.Fatal(err)
	}
	return port
}

func TestATunnelCarriesFiftyConnectionsToAPortOfAHost(t *testing.T) {
	c := openTunnel(t, "web-1", serveOnHost(t))
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if got, err := c.fetch(fmt.Sprint("/", i)); err != nil || got != fmt.Sprintf("/%d ", i) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	all.Wait()
	c.end(t)
	e2e.Until(t, "the record of the end", func() (bool, error) {
		return strings.Contains(e2e.OK(t, "audit", "list", "--workflow", "host/web-1/tunnel", "-o", "json"), "50 connections"), nil
	})
}

// What was open is lost with a worker. The next connection goes by the worker that takes its place.
func TestATunnelGoesOnAfterTheDeathOfAWorker(t *testing.T) {
	c := openTunnel(t, "web-1", serveOnHost(t))
	if _, err := c.fetch("/before"); err != nil {
		t.Error(err)
	}
	pid := e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	e2e.Back(t, pid)
	if got, err := c.fetch("/after"); err != nil || got != "/after " {
		t.Errorf("%q, %v", got, err)
	}
	c.end(t)
}

// The SSH connections of the worker to the host are lost.
func TestATunnelGoesOnAfterTheLossOfItsSSHConnection(t *testing.T) {
	c := openTunnel(t, "web-1", serveOnHost(t))
	open, err := net.Dial("tcp", c.Listen)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if _, err := io.WriteString(open, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer := bufio.NewReader(open)
	if line, err := answer.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q, %v", line, err)
	}
	if e2e.Web1.KillSessions() == 0 {
		t.Error("the worker has no SSH connection")
	}
	if got, _ := io.ReadAll(answer); strings.Contains(string(got), "200") { // a reset is as good as an end
		t.Errorf("a request that was never whole is answered: %q", got)
	}
	if got, err := c.fetch("/after"); err != nil || got != "/after " {
		t.Errorf("%q, %v", got, err)
	}
	c.end(t)
	if !strings.Contains(c.told.String(), "a connection failed") {
		t.Errorf("told: %s", c.told.String())
	}
}

func TestATunnelThatSSHDForbidsEndsWithWhatToDo(t *testing.T) {
	if _, err := e2e.Lab.AddHost(e2e.Within(t), "no-tunnel", hosttest.Options{Config: []string{"AllowTcpForwarding no"}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := e2e.Lab.Out(context.Background(), "host", "remove", "no-tunnel"); err != nil {
			t.Error(err)
		}
	})
	c := openTunnel(t, "no-tunnel", serveOnHost(t))
	if got, err := c.fetch("/"); err == nil {
		t.Errorf("it answers %q", got)
	}
	err := c.cmd.Wait()
	if code := c.cmd.ProcessState.ExitCode(); err == nil || code != 6 {
		t.Errorf("exit %d, %v", code, err)
	}
	if told := c.told.String(); !strings.Contains(told, "sshd forbids the forward") || !strings.Contains(told, "AllowTcpForwarding") {
		t.Errorf("told: %s", told)
	}
	if out := e2e.Exits(t, 0, "host", "check", "no-tunnel").Stdout; !strings.Contains(out, "PermitOpen") {
		t.Errorf("host check says %s", out)
	}
}
