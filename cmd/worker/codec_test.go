package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

func stop(t *testing.T, w *process) {
	t.Helper()
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-w.done
}

func decode(t *testing.T, endpoint, authorization, body string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint+"/decode", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", authorization)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, text
}

// A worker that cannot read the histories would fail every task. Instead it says
// which key it lacks.
func TestWorkerRefusesHistoriesWhoseKeyItLacks(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, port := ln.Addr().String(), ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	p := newPlace(t, "")
	server := exec.Command(realparts.DevServer(t), "server", "start-dev", "--headless", "--port", strconv.Itoa(port), "--db-filename", filepath.Join(p.dir, "t.db"))
	if _, err := os.Stat(server.Path); err != nil {
		t.Fatalf("%v (run `make build`)", err)
	}
	start(t, server)
	base, err := os.ReadFile(p.config)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]payload.Key{}
	for _, name := range []string{"ours", "another"} {
		if keys[name], err = payload.GenerateKey(filepath.Join(p.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	with := func(temporal, api string) {
		t.Helper()
		text := strings.Replace(string(base), "api: {", "api: {"+api, 1)
		p.write(t, text+fmt.Sprintf("temporal: {address: %q%s}\n", address, temporal))
	}
	// The pool begins unencrypted. The key comes later.
	with("", "")
	w := runWorker(t, "--config", p.config)
	wait(t, "the worker is ready", func() bool {
		st, err := p.status(t)
		return err == nil && st.Ready && st.PayloadKey == ""
	})
	stop(t, w)
	// The pool's input is older than the key, and the worker waits for nobody to guess that.
	with(", payload_key: ours", "")
	w = runWorker(t, "--config", p.config)
	<-w.done
	if code := w.ProcessState.ExitCode(); code != 4 || !strings.Contains(w.log.String(), "it is not encrypted") || !strings.Contains(w.log.String(), "temporal.payloads_since") {
		t.Errorf("a pool from before the key: exit status %d, want 4\n%s", code, w.log.String())
	}
	upgraded := ", payload_key: ours, payloads_since: " + time.Now().UTC().Add(time.Second).Format(time.RFC3339)
	const token = "a-token-of-more-than-16-characters"
	if err := os.WriteFile(filepath.Join(p.dir, "token"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	with(upgraded, `codec_listen: "127.0.0.1:0", `)
	w = runWorker(t, "--config", p.config)
	<-w.done
	if code := w.ProcessState.ExitCode(); code != 2 || !strings.Contains(w.log.String(), "api.token_file") {
		t.Errorf("a codec endpoint that every user reaches: exit status %d, want 2\n%s", code, w.log.String())
	}
	with(upgraded, `codec_listen: "unix://`+filepath.Join(p.dir, "codec.sock")+`", `)
	w = runWorker(t, "--config", p.config)
	wait(t, "the worker is ready", func() bool {
		st, err := p.status(t)
		return err == nil && st.Ready && st.PayloadKey == keys["ours"].ID()
	})
	socket := filepath.Join(p.dir, "codec.sock")
	if at, err := os.Stat(socket); err != nil || at.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", at, err)
	}
	local := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	if res, err := local.Post("http://codec/codec/decode", "application/json", strings.NewReader(`{"payloads":[]}`)); err != nil || res.StatusCode != 200 {
		t.Errorf("the socket is answered %v, %v", res, err)
	}
	stop(t, w)
	if _, err := os.Stat(socket); err == nil {
		t.Error("a worker that has ended leaves its socket")
	}
	with(upgraded, `codec_listen: "127.0.0.1:0", token_file: token, codec_origins: ["http://127.0.0.1:8233"], `)
	w = runWorker(t, "--config", p.config)
	var endpoint string
	wait(t, "the worker is ready", func() bool {
		st, err := p.status(t)
		endpoint = st.CodecEndpoint
		return err == nil && st.Ready && st.PayloadKey == keys["ours"].ID()
	})
	for _, shown := range []string{"", "Bearer ", "Bearer another-token-of-somebody"} {
		if code, text := decode(t, endpoint, shown, `{"payloads":[]}`); code != http.StatusUnauthorized {
			t.Errorf("with %q it answers %d: %.200s", shown, code, text)
		}
	}
	// Bodies that are malformed, or larger than a few megabytes, are refused.
	for body, want := range map[string]int{`{"payloads":[]}`: 200, `nonsense`: 400, strings.Repeat(" ", 17<<20) + "{}": 400} {
		if code, text := decode(t, endpoint, "Bearer "+token, body); code != want {
			t.Errorf("%.20q is answered %d: %.200s", body, code, text)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	stop(t, w)
	opts := client.Options{HostPort: address}
	payload.NewCodec("default", keys["ours"]).Use(&opts)
	c, err := client.DialContext(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SignalWorkflow(t.Context(), protocol.PoolID(""), "", "of-nobody", "encrypted"); err != nil {
		t.Fatal(err)
	}
	// A signal is not in the history while a task of the workflow runs.
	wait(t, "the signal is in the history", func() bool {
		h := c.GetWorkflowHistory(t.Context(), protocol.PoolID(""), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for h.HasNext() {
			if e, err := h.Next(); err != nil || e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == "of-nobody" {
				return err == nil
			}
		}
		return false
	})
	for _, temporal := range []string{"", ", payload_key: another"} {
		with(temporal, "")
		w := runWorker(t, "--config", p.config)
		<-w.done
		if code := w.ProcessState.ExitCode(); code != 4 || !strings.Contains(w.log.String(), keys["ours"].ID()) || !strings.Contains(w.log.String(), "temporal.payload_key") {
			t.Errorf("with %q: exit status %d, want 4\n%s", temporal, code, w.log.String())
		}
	}
	if err := os.Chmod(filepath.Join(p.dir, "ours"), 0o644); err != nil {
		t.Fatal(err)
	}
	with(upgraded, "")
	w = runWorker(t, "--config", p.config)
	<-w.done
	if code := w.ProcessState.ExitCode(); code != 2 || !strings.Contains(w.log.String(), "temporal.payload_key: others may read") {
		t.Errorf("a key that others may read: exit status %d, want 2\n%s", code, w.log.String())
	}
}
