package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/realparts"
)

var update = flag.Bool("update", false, "generate the clients anew")

// toWorker reaches the API at its socket.
func toWorker() *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(e2e.Lab.State, "api.sock"))
	}}
}

// document keeps what the worker serves in a file.
func document(t *testing.T) string {
	t.Helper()
	var text []byte
	e2e.Until(t, "the document", func() (bool, error) {
		r, err := http.NewRequestWithContext(e2e.Within(t), http.MethodGet, "http://worker/openapi.json", nil)
		if err != nil {
			return false, err
		}
		resp, err := (&http.Client{Transport: toWorker()}).Do(r)
		if err != nil {
			return false, nil // it is not up yet
		}
		defer resp.Body.Close()
		text, err = io.ReadAll(resp.Body)
		return err == nil && resp.StatusCode == http.StatusOK, nil
	})
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", " "); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(file, indented.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(e2e.Within(t), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(append([]string{filepath.Base(name)}, args...), " "), err, out)
	}
	return string(out)
}

// The clients that are checked in are those that the generators make of the document that a
// worker serves now.
func TestTheGeneratedClientsAreCurrent(t *testing.T) {
	doc := document(t)
	dir := t.TempDir()
	for _, c := range []struct {
		kept     string
		generate func(to string)
	}{
		{"client_gen_test.go", func(to string) {
			run(t, realparts.Path(t, ".tools", "clients", "oapi-codegen"), "-generate", "types,client", "-package", "clients", "-o", to, doc)
		}},
		{filepath.Join("testdata", "ts", "schema.d.ts"), func(to string) {
			run(t, "node", realparts.Path(t, ".tools", "clients", "node_modules", "openapi-typescript", "bin", "cli.js"), doc, "-o", to)
		}},
	} {
		made := filepath.Join(dir, filepath.Base(c.kept))
		c.generate(made)
		text, err := os.ReadFile(made)
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(c.kept, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if kept, err := os.ReadFile(c.kept); err != nil || !bytes.Equal(kept, text) {
			t.Errorf("%s is not what is generated from the API of now (%v): go test ./internal/lab/e2e/clients -run Current -update", c.kept, err)
		}
	}
}

// A program in Go starts a session, follows it, decides what codex asks for, and reads the
// transcript, with the generated client alone.
func TestAGeneratedGoClientDrivesASession(t *testing.T) {
	ctx := e2e.Within(t)
	c, err := NewClientWithResponses("http://worker", WithHTTPClient(&http.Client{Transport: toWorker()}))
	if err != nil {
		t.Fatal(err)
	}
	key, host, seed := "generated-go", "web-1", "team"
	start := StartSession{Host: &host, Seed: &seed, Message: &NewMessage{Text: "need a command"}}
	started, err := c.StartSessionWithResponse(ctx, &StartSessionParams{IdempotencyKey: &key}, start)
	if err != nil || started.JSON201 == nil {
		t.Fatalf("start: %v, %s", err, started.Body)
	}
	id := started.JSON201.Id
	t.Cleanup(func() { closed(t, id) })
	again, err := c.StartSessionWithResponse(ctx, &StartSessionParams{IdempotencyKey: &key}, start)
	if err != nil || again.JSON201 == nil || again.JSON201.Id != id || !again.JSON201.Existing {
		t.Fatalf("start again: %v, %s", err, again.Body)
	}
	events, err := c.FollowSession(ctx, id, &FollowSessionParams{})
	if err != nil || events.StatusCode != http.StatusOK {
		t.Fatalf("follow: %v", err)
	}
	defer events.Body.Close()
	lines := bufio.NewScanner(events.Body)
	lines.Buffer(nil, 8<<20)
	next := func(what string, is func(Entry) bool) {
		t.Helper()
		name := ""
		for lines.Scan() {
			if word, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = word
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok || name != "entry" {
				continue
			}
			var e Entry
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatal(err)
			}
			if is(e) {
				return
			}
		}
		t.Fatalf("the stream ended before %s: %v", what, lines.Err())
	}
	next("the request", func(e Entry) bool { return e.Type == "request" })
	var open []Approval
	e2e.Until(t, "the approval", func() (bool, error) {
		list, err := c.ListApprovalsWithResponse(ctx, &ListApprovalsParams{Session: &id})
		if err != nil || list.JSON200 == nil {
			return false, err
		}
		open = *list.JSON200.Items
		return len(open) == 1, nil
	})
	decided, err := c.DecideApprovalWithResponse(ctx, open[0].Id, &DecideApprovalParams{}, DecideApproval{Digest: open[0].Digest, Outcome: Accept})
	if err != nil || decided.JSON200 == nil || decided.JSON200.Decision == nil {
		t.Fatalf("decide: %v, %s", err, decided.Body)
	}
	next("the answer", func(e Entry) bool { return strings.Contains(e.Text, "The command said: it ran") })
	entries, err := c.ListEntriesWithResponse(ctx, id, &ListEntriesParams{})
	if err != nil || entries.JSON200 == nil {
		t.Fatalf("transcript: %v", err)
	}
	said := ""
	for _, e := range *entries.JSON200.Items {
		said += e.Text + "\n"
	}
	if !strings.Contains(said, "need a command") {
		t.Errorf("the transcript is %q", said)
	}
	wrong, err := c.DecideApprovalWithResponse(ctx, open[0].Id, &DecideApprovalParams{}, DecideApproval{Digest: open[0].Digest, Outcome: Decline})
	if err != nil || wrong.ApplicationproblemJSONDefault == nil || wrong.ApplicationproblemJSONDefault.Kind != "refused" {
		t.Errorf("a decision that comes too late: %v, %s", err, wrong.Body)
	}
	ended, err := c.CloseSessionWithResponse(ctx, id, &CloseSessionParams{}, CloseSessionJSONRequestBody{})
	if err != nil || ended.JSON202 == nil {
		t.Errorf("close: %v, %s", err, ended.Body)
	}
}

// A program in TypeScript does the same: it is compiled strictly against the generated types.
func TestAGeneratedTypeScriptClientDrivesASession(t *testing.T) {
	modules := realparts.Path(t, ".tools", "clients", "node_modules")
	dir := t.TempDir()
	for _, name := range []string{"schema.d.ts", "session.ts"} {
		text, err := os.ReadFile(filepath.Join("testdata", "ts", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "node", filepath.Join(modules, "typescript", "bin", "tsc"), "--strict", "--noUncheckedIndexedAccess", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext",
		"--typeRoots", filepath.Join(modules, "@types"), "--types", "node", "--skipLibCheck", "--outDir", dir, filepath.Join(dir, "session.ts"))
	// node reaches the worker's socket over a loopback address of this test.
	proxy := httptest.NewServer(&httputil.ReverseProxy{Transport: toWorker(), FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "worker", "worker"
	}})
	t.Cleanup(func() { proxy.CloseClientConnections(); proxy.Close() })
	out := run(t, "node", filepath.Join(dir, "session.js"), proxy.URL)
	var told struct {
		ID    string `json:"id"`
		Again bool   `json:"again"`
		Text  string `json:"text"`
		Late  string `json:"late"`
	}
	if err := json.Unmarshal([]byte(out), &told); err != nil {
		t.Fatalf("it said %q: %v", out, err)
	}
	t.Cleanup(func() { closed(t, told.ID) })
	if !told.Again || told.Late != "refused" || !strings.Contains(told.Text, "need a command") || !strings.Contains(told.Text, "The command said: it ran") {
		t.Errorf("it said %+v", told)
	}
}

func closed(t *testing.T, id string) {
	if r := e2e.Lab.Ctl(context.Background(), nil, "session", "close", id); r.Code != 0 && r.Code != 6 {
		t.Error(fmt.Errorf("close %s: %v", id, r))
	}
}
