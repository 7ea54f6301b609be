package credentials

import (
	"bufio"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedauth"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// mark is part of every secret of these tests' issuer.
const mark = "marked-secret"

// A care is a stack of its own whose logins come from a scripted issuer.
type care struct {
	t      *testing.T
	lab    *lab.Lab
	issuer *scriptedauth.Server
	model  string // accepts only the issuer's tokens
	root   string
}

func newCare(t *testing.T) *care {
	t.Helper()
	c := &care{t: t, issuer: scriptedauth.Serve(t)}
	ctx := e2e.Within(t)
	organisation := filepath.Join(t.TempDir(), "AGENTS.md")
	if err := os.WriteFile(organisation, []byte("SAID BY THE ORGANISATION\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	c.lab, err = lab.New(ctx, lab.Options{Repo: e2e.Repo, Script: []byte("rules: [{reply: hello}]\n"),
		Config: fmt.Sprintf("instructions: %q\nseeds: {token_endpoint: %q, issuer: %q, usage_endpoint: %q}\n",
			organisation, c.issuer.TokenEndpoint(), c.issuer.Issuer(), c.issuer.UsageEndpoint())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.lab.Close(); err != nil {
			t.Error(err)
		}
	})
	c.root = filepath.Join(c.lab.Dir, "host")
	if _, err := c.lab.AddHost(ctx, "web-1", hosttest.Options{Root: c.root}); err != nil {
		t.Fatal(err)
	}
	guarded := httptest.NewServer(c.issuer.Guard(c.lab.Model))
	t.Cleanup(guarded.Close)
	c.model = guarded.URL + "/v1"
	return c
}

// home makes a CODEX_HOME with a login.
func (c *care) home(l scriptedauth.Login) string {
	c.t.Helper()
	dir, err := os.MkdirTemp(c.lab.Dir, "home-")
	if err != nil {
		c.t.Fatal(err)
	}
	for name, data := range map[string][]byte{"auth.json": l.AuthJSON(), "config.toml": []byte(scriptedmodel.LoginConfigTOML(c.model))} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	return dir
}

func (c *care) ctl(want int, args ...string) lab.Result {
	c.t.Helper()
	r := c.lab.Ctl(e2e.Within(c.t), nil, args...)
	if r.Code != want {
		c.t.Errorf("want exit %d: %v", want, r)
	}
	if strings.Contains(r.Stdout+r.Stderr, mark) {
		c.t.Errorf("ctl %s shows a secret", strings.Join(args, " "))
	}
	return r
}

func (c *care) seed(name string) protocol.SeedView {
	c.t.Helper()
	var v protocol.SeedView
	if err := c.lab.JSON(e2e.Within(c.t), &v, "seed", "show", name); err != nil {
		c.t.Fatal(err)
	}
	return v
}

// All tests share one stack, because a stack takes long to start.
func TestSeedsAreLookedAfter(t *testing.T) {
	c := newCare(t)
	for _, test := range []struct {
		promise string
		keeps   func(*care)
	}{
		{"a verified login is refreshed and a session goes on with it", (*care).verified},
		{"a lost answer makes a seed suspect until a person says so", (*care).lost},
		{"the model is told what organisation, seed and session say, in this order", (*care).told},
		{"a login is captured from a host and moved", (*care).captured},
		{"somebody logs in on a host with a code", (*care).loggedIn},
		{"a login that is given up leaves nothing", (*care).givenUp},
		{"a restored database burns no login and repeats no turn", (*care).restored},
	} {
		t.Run(test.promise, func(t *testing.T) {
			one := *c
			one.t = t
			test.keeps(&one)
		})
	}
}

func (c *care) verified() {
	t := c.t
	login := c.issuer.Login(scriptedauth.Account{Mark: mark, ID: "acct-verified", NoProvenance: true})
	c.ctl(0, "seed", "import", "team", c.home(login))
	// An outage says nothing about a login, and the token is not spent.
	for _, kind := range []string{"rate_limited", "server_error"} {
		c.issuer.Fail(scriptedauth.Fault{Kind: kind})
		if r := c.ctl(1, "seed", "verify", "team"); !strings.Contains(r.Stdout, "is unknown") {
			t.Errorf("%s: %v", kind, r)
		}
	}
	if r := c.ctl(0, "seed", "verify", "team"); !strings.Contains(r.Stdout, "generation 2) is healthy") {
		t.Error(r)
	}
	c.measured()
	// A session gets the new login; the old access token is useless.
	c.ctl(0, "run", "--host", "web-1", "--seed", "team", "say hello")
	if n := len(c.issuer.Refreshes()); n != 3 || c.issuer.MostUses() != 1 {
		t.Errorf("%d refreshes, a token was used %d times", n, c.issuer.MostUses())
	}
	// codex on the host refreshes at the endpoint of the config, and the seed
	// has the new login before the session is over.
	c.issuer.Expire("acct-verified")
	c.ctl(0, "run", "--host", "web-1", "--seed", "team", "say hello again")
	if v := c.seed("team"); v.Generation != 3 || v.Health != protocol.Healthy || len(v.HeldBy) != 0 {
		t.Errorf("seed is %+v", v)
	}
	if n := len(c.issuer.Refreshes()); n != 4 || c.issuer.MostUses() != 1 {
		t.Errorf("%d refreshes, a token was used %d times", n, c.issuer.MostUses())
	}
	// Somebody else used the login: only now is it dead.
	c.issuer.Revoke("acct-verified")
	if r := c.ctl(1, "seed", "verify", "team", "--force"); !strings.Contains(r.Stdout, "is dead: its refresh token was revoked") {
		t.Error(r)
	}
	if v := c.seed("team"); v.Health != protocol.Dead || v.Hint == "" {
		t.Errorf("seed is %+v", v)
	}
}

// measured: a verification reads how much of the login is used, without a model call.
func (c *care) measured() {
	t := c.t
	asked := len(c.lab.Model.Requests())
	weekly := time.Now().Add(72 * time.Hour).Truncate(time.Second)
	c.issuer.SetUsage("acct-verified", scriptedauth.Usage{
		Primary:   scriptedauth.Window{Percent: 12, Length: 5 * time.Hour, Resets: time.Now().Add(time.Hour)},
		Secondary: scriptedauth.Window{Percent: 64, Length: 7 * 24 * time.Hour, Resets: weekly},
	})
	c.ctl(0, "seed", "verify", "team")
	v := c.seed("team").Account
	if v == nil || v.Plan != "pro" || v.UsedPercent == nil || *v.UsedPercent != 64 || v.ResetsAt == nil || !v.ResetsAt.Equal(weekly) {
		t.Errorf("the account is shown as %+v, want the window that is used most", v)
	}
	if shown := c.ctl(0, "seed", "show", "team").Stdout; !strings.Contains(shown, "plan pro") || !strings.Contains(shown, "64") {
		t.Errorf("shown is %s", shown)
	}
	if n := len(c.lab.Model.Requests()); n != asked {
		t.Errorf("the model was asked %d times by a verification", n-asked)
	}
}

func (c *care) lost() {
	t := c.t
	login := c.issuer.Login(scriptedauth.Account{Mark: mark})
	c.ctl(0, "seed", "import", "burnt", c.home(login))
	c.issuer.Fail(scriptedauth.Fault{Kind: "lost"})
	for range 2 {
		if r := c.ctl(1, "seed", "verify", "burnt"); !strings.Contains(r.Stdout, "is suspect") || !strings.Contains(r.Stdout, "seed verify burnt --force") {
			t.Error(r)
		}
	}
	if c.issuer.Uses(login.Refresh) != 1 {
		t.Errorf("the token was used %d times", c.issuer.Uses(login.Refresh))
	}
	if r := c.ctl(1, "seed", "verify", "burnt", "--force"); !strings.Contains(r.Stdout, "is dead: its refresh token was used before") {
		t.Error(r)
	}
}

func (c *care) told() {
	t := c.t
	home := c.home(c.issuer.Login(scriptedauth.Account{Mark: mark, ID: "acct-told"}))
	if err := os.WriteFile(filepath.Join(home, "AGENTS.md"), []byte("SAID BY THE SEED\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.ctl(0, "seed", "import", "tells", home)
	c.ctl(0, "run", "--host", "web-1", "--seed", "tells", "--instructions", "SAID BY THE SESSION", "say hello")
	all := c.lab.Model.Requests()
	body, last := string(all[len(all)-1].Body), -1
	for _, of := range []string{"ORGANISATION", "SEED", "SESSION"} {
		at := strings.Index(body, "SAID BY THE "+of)
		if n := strings.Count(body, "SAID BY THE "+of); n != 1 || at < last {
			t.Errorf("what the %s says is told %d times, at %d, after %d", of, n, at, last)
		}
		last = at
	}
}

func (c *care) captured() {
	t := c.t
	login := c.issuer.Login(scriptedauth.Account{Mark: mark})
	home := c.home(login)
	r := c.ctl(0, "seed", "capture", "taken", "--host", "web-1", "--codex-home", home)
	if !strings.Contains(r.Stderr, "two holders") {
		t.Errorf("no warning: %v", r)
	}
	if _, err := os.Stat(filepath.Join(home, "auth.json")); err != nil {
		t.Errorf("capture changed the host: %v", err)
	}
	if v := c.seed("taken"); v.Health != protocol.Suspect || !strings.Contains(v.Reason, home) {
		t.Errorf("a login with two holders would be given: %+v", v)
	}
	r = c.ctl(0, "seed", "capture", "taken", "--host", "web-1", "--codex-home", home, "--move")
	if _, err := os.Stat(filepath.Join(home, "auth.json")); !os.IsNotExist(err) || strings.Contains(r.Stderr, "two holders") {
		t.Errorf("it was not moved: %v, %v", err, r)
	}
	if v := c.seed("taken"); v.Generation != 2 || v.Kind != "chatgpt" || v.Health == protocol.Suspect {
		t.Errorf("seed is %+v", v)
	}
	c.ctl(0, "seed", "verify", "taken")
	// Files that are no logins are refused with the reason.
	for name, text := range map[string]string{"torn": `{"auth_mode":"chatgpt","tokens":{"id_`, "logged out": `{"auth_mode":"chatgpt"}`, "empty": ""} {
		if err := os.WriteFile(filepath.Join(home, "auth.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := c.ctl(2, "seed", "capture", "other", "--host", "web-1", "--codex-home", home); !strings.Contains(r.Stderr, "auth.json") {
			t.Errorf("%s: %v", name, r)
		}
	}
	c.ctl(2, "seed", "capture", "other", "--host", "web-1", "--codex-home", filepath.Join(c.lab.Dir, "nowhere"))
}

// deviceLogin starts `ctl seed login` and returns when the code has been shown.
func (c *care) deviceLogin(ctx context.Context, name string) (code string, wait func() error, interrupt func(), output func() string) {
	c.t.Helper()
	cmd := c.lab.Command(ctx, "seed", "login", name, "--host", "web-1")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	device, err := c.issuer.AwaitDevice(ctx)
	if err != nil {
		_ = cmd.Process.Kill()
		c.t.Fatalf("%v: %s", err, errs.String())
	}
	var shown strings.Builder
	lines := bufio.NewScanner(pipe)
	for !strings.Contains(shown.String(), device.UserCode) && lines.Scan() {
		shown.WriteString(lines.Text() + "\n")
	}
	if !strings.Contains(shown.String(), c.issuer.Issuer()+"/codex/device") || !strings.Contains(shown.String(), device.UserCode) {
		c.t.Errorf("it showed %q", shown.String())
	}
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		for lines.Scan() {
			shown.WriteString(lines.Text() + "\n")
		}
	}()
	return device.UserCode, func() error { <-rest; return cmd.Wait() },
		func() { _ = cmd.Process.Signal(syscall.SIGINT) }, func() string { return shown.String() + errs.String() }
}

func (c *care) loggedIn() {
	t := c.t
	ctx := e2e.Within(t)
	code, wait, _, output := c.deviceLogin(ctx, "fresh")
	if err := c.issuer.Approve(code, scriptedauth.Account{Mark: mark}); err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil || strings.Contains(output(), mark) {
		t.Fatalf("%v: %s", err, output())
	}
	if v := c.seed("fresh"); v.Kind != "chatgpt" || v.Generation != 1 {
		t.Errorf("seed is %+v", v)
	}
	c.nothingLeft()
	if r := c.ctl(0, "seed", "verify", "fresh"); !strings.Contains(r.Stdout, "is healthy") {
		t.Error(r)
	}
}

func (c *care) givenUp() {
	t := c.t
	ctx := e2e.Within(t)
	_, wait, interrupt, output := c.deviceLogin(ctx, "never")
	interrupt()
	if err := wait(); err == nil {
		t.Errorf("it ended as if somebody had logged in: %s", output())
	}
	c.nothingLeft()
	c.ctl(3, "seed", "show", "never")
}

// nothingLeft checks that no login's folder and no codex that waits for a code
// is left.
func (c *care) nothingLeft() {
	c.t.Helper()
	if left, _ := filepath.Glob(filepath.Join(c.root, "logins", "*")); len(left) > 0 {
		c.t.Errorf("left on the host: %v", left)
	}
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(environs) == 0 {
		c.t.Fatalf("no processes can be looked at: %v", err)
	}
	for _, file := range environs {
		data, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(data), filepath.Join(c.root, "logins")) {
			c.t.Errorf("codex of a login still runs (%s)", file)
		}
	}
}
