package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/signkey"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/lab/issuer"
	"fairlead.dev/fairlead/internal/login"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
	"fairlead.dev/fairlead/internal/sshsig"
)

// A loginStage has an issuer, the API of a worker, and a ctl with a config and a state folder
// of its own.
type loginStage struct {
	*testing.T
	issuer *issuer.Issuer
	access string // file
	conf   string // file
	state  string // folder
	server *api.Server
}

func newLoginStage(t *testing.T, change func(*login.Options)) *loginStage {
	t.Helper()
	atHome(t)
	dir := t.TempDir()
	s := &loginStage{T: t, access: filepath.Join(dir, "access.yaml"), conf: filepath.Join(dir, "config.yaml"), state: filepath.Join(dir, "state"),
		issuer: issuer.Serve(t, issuer.Person{ID: "dora", Email: "dora@example.com", Verified: true, Groups: []string{"ops"}},
			issuer.Person{ID: "eve", Email: "eve@example.com"})}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(dir, "ca")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(ca, string(pem.EncodeToMemory(block)))
	write(s.access, fmt.Sprintf("authorities: [{key: %q, names: ['*@example.com']}]\ngroups: [{name: night, members: [dora@example.com]}]\n"+
		"bindings: [{name: ops, roles: [operator], to: ['group:ops']}, {name: night, roles: [approver], to: ['group:night']}]\n",
		strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))))
	o := login.Options{Settings: login.Settings{Issuer: s.issuer.URL, ClientID: issuer.ClientID, Scopes: []string{"openid", "email"}},
		KeyFile: ca, Lifetime: login.Lifetime, Access: s.file}
	if change != nil {
		change(&o)
	}
	desk, err := login.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(desk.Close)
	socket := filepath.Join(t.TempDir(), "a.sock")
	s.server, err = api.Serve(api.Options{Listen: "unix://" + socket, Login: desk, Access: s.file, Status: func() api.Status { return api.Status{} }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.server.Close() })
	s.configure("")
	return s
}

// file reads the access file as a worker does.
func (s *loginStage) file() *access.Access {
	data, err := os.ReadFile(s.access)
	if err != nil {
		panic(err)
	}
	a, err := access.Parse(data)
	if err != nil {
		panic(err)
	}
	return a
}

// configure writes ctl's config.
func (s *loginStage) configure(more string) {
	s.Helper()
	text := "authority: required\ntemporal: {address: '127.0.0.1:1'}\napi: {address: '" + s.server.Address() + "'}\n" + more
	if err := os.WriteFile(s.conf, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

// A browser is a person who sees what ctl says, and does what is asked for the code.
type browser struct {
	bytes.Buffer
	code func(string)
}

var asksCode = regexp.MustCompile(`enter the code ([A-Z-]+) before`)

func (b *browser) Write(p []byte) (int, error) {
	if m := asksCode.FindSubmatch(p); m != nil {
		b.code(string(m[1]))
	}
	return b.Buffer.Write(p)
}

// ctl runs a command line. A code that it shows is entered by dora.
func (s *loginStage) ctl(args ...string) (code int, out, errs string) {
	s.Helper()
	var stdout bytes.Buffer
	person := &browser{code: func(c string) { s.issuer.Approve(c, "dora") }}
	code = run(append([]string{"--config", s.conf, "--state", s.state}, args...), strings.NewReader(""), &stdout, person)
	return code, stdout.String(), person.String()
}

// must runs a command line that succeeds, and returns its JSON.
func (s *loginStage) must(args ...string) (v map[string]any) {
	s.Helper()
	code, out, errs := s.ctl(append(args, "-o", "json")...)
	if code != 0 || json.Unmarshal([]byte(out), &v) != nil {
		s.Fatalf("ctl %q: exit %d\n%s%s", args, code, out, errs)
	}
	return v
}

func (s *loginStage) saved() string { return filepath.Join(s.state, "login", "certificate.json") }

func texts(v any) (all []string) {
	list, _ := v.([]any)
	for _, e := range list {
		all = append(all, fmt.Sprint(e))
	}
	return all
}

func TestAPersonLogsInIsToldWhoTheyAreAndLogsOut(t *testing.T) {
	s := newLoginStage(t, nil)
	code, out, errs := s.ctl("login", "-q")
	if code != 0 || !strings.HasPrefix(out, "logged in as dora@example.com until ") || !strings.Contains(errs, s.issuer.URL+"/device") {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	for path, mode := range map[string]os.FileMode{filepath.Dir(s.saved()): 0o700, s.saved(): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(s.saved()), ".*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %q, %v", left, err)
	}
	a := &core.App{Flags: core.Flags{State: s.state}}
	defer a.Close()
	if key, err := signkey.Load(t.Context(), a, "login", sshsig.Choice{At: time.Now()}); err != nil || key.PublicKey().Type() != ssh.CertAlgoED25519v01 {
		t.Errorf("--sign-with login: %v", err)
	}
	v := s.must("whoami") // from the worker: the config names no access file
	end, err := time.Parse(time.RFC3339, fmt.Sprint(v["expires_at"]))
	if v["principal"] != "dora@example.com" || v["source"] != "certificate" || !strings.HasPrefix(fmt.Sprint(v["key"]), "SHA256:") || err != nil ||
		time.Until(end) > 8*time.Hour || time.Until(end) < 7*time.Hour || v["note"] != nil ||
		!slices.Equal(texts(v["groups"]), []string{"ops", "night"}) || !slices.Equal(texts(v["roles"]), []string{"operator", "approver"}) {
		t.Errorf("whoami says %v", v)
	}
	if err := s.server.Close(); err != nil {
		t.Fatal(err)
	}
	v = s.must("whoami")
	if _, known := v["roles"]; known || !strings.Contains(fmt.Sprint(v["note"]), "roles are not known") || !slices.Equal(texts(v["groups"]), []string{"ops"}) || v["principal"] != "dora@example.com" {
		t.Errorf("with no worker up, whoami says %v", v)
	}
	s.configure("access: " + s.access + "\n")
	if v = s.must("whoami"); !slices.Equal(texts(v["roles"]), []string{"operator", "approver"}) {
		t.Errorf("with the access file, whoami says %v", v)
	}
	if v = s.must("logout"); v["removed"] != true {
		t.Errorf("logout says %v", v)
	}
	if _, err := os.Stat(s.saved()); !os.IsNotExist(err) {
		t.Errorf("after logout: %v", err)
	}
	if v = s.must("logout"); v["removed"] != false {
		t.Errorf("a second logout says %v", v)
	}
	if code, _, errs := s.ctl("whoami"); code != 2 || !strings.Contains(errs, "nobody is logged in (`ctl login`") {
		t.Errorf("whoami of nobody: exit %d\n%s", code, errs)
	}
}

func TestALoginThatFailsSaysWhyAndLeavesTheOldOne(t *testing.T) {
	s := newLoginStage(t, nil)
	s.must("login")
	before, err := os.ReadFile(s.saved())
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, person func(string), want int, says string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		b := &browser{code: person}
		code := run(append([]string{"--config", s.conf, "--state", s.state, "login"}, args...), strings.NewReader(""), &out, b)
		if code != want || !strings.Contains(b.String(), says) {
			t.Errorf("%s: exit %d\n%s", what, code, b.String())
		}
		if now, err := os.ReadFile(s.saved()); err != nil || !bytes.Equal(now, before) {
			t.Errorf("%s: the login is not as it was: %v", what, err)
		}
	}
	none := func(string) { t.Error("a code is shown") }
	try("denied", func(c string) { s.issuer.Deny(c) }, 6, "it was denied")
	try("an unverified address", func(c string) { s.issuer.Approve(c, "eve") }, 6, "not verified the e-mail address")
	try("another issuer", none, 6, "and not https://id.example.com", "--issuer", "https://id.example.com")
	try("nobody to enter the code", none, 7, "a person must enter a code", "--no-input")
	s.configure("login: {issuer: 'https://id.example.com', client_id: x}\n")
	try("another issuer than that of the config", none, 6, "and not https://id.example.com")
	s.configure("")
	s.issuer.SetDown(true)
	try("an issuer that is gone", none, 4, s.issuer.URL)
	s.issuer.SetDown(false)
	if err := s.server.Close(); err != nil {
		t.Fatal(err)
	}
	try("no worker", none, 4, "log in: reach a worker: none answers")
}

func TestAnEndedOrDamagedLoginSaysToLogInAgain(t *testing.T) {
	past := time.Now().Add(-2 * login.MinLifetime)
	s := newLoginStage(t, nil)
	s.must("login")
	good, err := os.ReadFile(s.saved())
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(good, &file); err != nil {
		t.Fatal(err)
	}
	// The same key, with a certificate that has ended. ctl does not look at who signed it.
	key, err := ssh.ParsePrivateKey([]byte(file["key"].(string)))
	if err != nil {
		t.Fatal(err)
	}
	cert := &ssh.Certificate{Key: key.PublicKey(), CertType: ssh.UserCert, KeyId: "dora@example.com/1", ValidPrincipals: []string{"dora@example.com"},
		ValidAfter: uint64(past.Add(-time.Hour).Unix()), ValidBefore: uint64(past.Unix())}
	if err := cert.SignCert(rand.Reader, key); err != nil {
		t.Fatal(err)
	}
	file["certificate"] = string(ssh.MarshalAuthorizedKey(cert))
	ended, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		data []byte
		mode os.FileMode
		code int
		says string
	}{
		{"ended", ended, 0o600, 6, "ended at"},
		{"readable by others", good, 0o644, 2, "others may have read the key"},
		{"cut", good[:len(good)/2], 0o600, 2, "not JSON"},
		{"of a later version", bytes.Replace(good, []byte(`"version":1`), []byte(`"version":9`), 1), 0o600, 2, "version 9"},
		{"too long", bytes.Repeat([]byte(" "), 300<<10), 0o600, 2, "more than"},
	} {
		if err := os.WriteFile(s.saved(), c.data, c.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(s.saved(), c.mode); err != nil {
			t.Fatal(err)
		}
		code, _, errs := s.ctl("whoami")
		if code != c.code || !strings.Contains(errs, c.says) || c.what != "too long" && !strings.Contains(errs, "ctl login") || strings.Contains(errs, "PRIVATE KEY") {
			t.Errorf("%s: exit %d\n%s", c.what, code, errs)
		}
	}
	s.must("login") // which replaces it, whatever it was
	s.must("whoami")
}

func TestWithoutALoginAtTheWorkersCtlSaysSo(t *testing.T) {
	s := newLoginStage(t, nil)
	if err := s.server.Close(); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "b.sock")
	server, err := api.Serve(api.Options{Listen: "unix://" + socket, Status: func() api.Status { return api.Status{} }})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	s.server = server
	s.configure("")
	if code, _, errs := s.ctl("login"); code != 3 || !strings.Contains(errs, "people do not log in at this worker (set login in the worker's config)") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}

func TestAStackOfOnePersonNeedsNoLogin(t *testing.T) {
	atHome(t)
	var out, errs bytes.Buffer
	if code := run([]string{"--state", t.TempDir(), "whoami", "-o", "json"}, strings.NewReader(""), &out, &errs); code != 0 ||
		!strings.Contains(out.String(), `"source":"unix"`) || !strings.Contains(out.String(), `"expires_at":null`) || !strings.Contains(out.String(), `"roles":["admin"]`) {
		t.Errorf("exit %d\n%s%s", code, out.String(), errs.String())
	}
}

// ctl signs with what `ctl login` kept, and needs no worker for it. A worker takes what
// Temporal kept for it.
func TestCtlSignsWithItsLoginAlsoWhenNoWorkerIsUp(t *testing.T) {
	s := newLoginStage(t, nil)
	s.must("login")
	if err := s.server.Close(); err != nil {
		t.Fatal(err)
	}
	s.issuer.SetDown(true)
	srv, err := testsuite.StartDevServer(t.Context(), testsuite.DevServerOptions{
		ExistingPath: realparts.DevServer(t), LogLevel: "error", Stdout: io.Discard, Stderr: os.Stderr,
		ClientOptions: &client.Options{Logger: temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler))},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	id := protocol.SessionID("s1")
	if _, err := srv.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: protocol.TaskQueue}, protocol.TypeSession); err != nil {
		t.Fatal(err)
	}
	for _, with := range []string{"", "sign_with: login\n"} {
		s.configure(with)
		if code, out, errs := s.ctl("--address", srv.FrontendHostPort(), "session", "close", "s1", "--no-wait"); code != 0 {
			t.Fatalf("exit %d\n%s%s", code, out, errs)
		}
	}
	raws := signals(t, srv.Client(), id)
	if len(raws) != 2 {
		t.Fatalf("%d signals were kept", len(raws))
	}
	keeper := authority.Fixed(s.file(), time.Now)
	for _, raw := range raws {
		v := keeper.Judge(authority.Command{Verb: access.SessionClose, Received: command.Received{Workflow: id, Name: protocol.SignalClose, Raw: raw}})
		if v.Refused != "" || v.Principal != "dora@example.com" || v.Binding != "ops" {
			t.Errorf("the keeper says %+v to %s", v, raw)
		}
	}
	s.must("logout")
	if code, _, errs := s.ctl("--address", srv.FrontendHostPort(), "session", "close", "s1", "--no-wait"); code != 2 || !strings.Contains(errs, "ctl login") {
		t.Errorf("after logout: exit %d\n%s", code, errs)
	}
}

// signals returns the arguments of the signals that a workflow has got.
func signals(t *testing.T, c client.Client, id string) (all [][]byte) {
	t.Helper()
	events := c.GetWorkflowHistory(context.Background(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range e.GetWorkflowExecutionSignaledEventAttributes().GetInput().GetPayloads() {
			all = append(all, p.GetData())
		}
	}
	return all
}
