package scriptedauth

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/realparts"
)

// bed is a real codex that is logged in at an issuer and uses a model that
// accepts only that issuer's tokens.
type bed struct {
	t      *testing.T
	issuer *Server
	model  *scriptedmodel.Server
	home   string
	env    []string
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t, issuer: Serve(t), model: scriptedmodel.Serve(t, `rules: [{reply: hello}]`), home: t.TempDir()}
	guarded := httptest.NewServer(b.issuer.Guard(b.model))
	t.Cleanup(guarded.Close)
	b.write("config.toml", []byte(scriptedmodel.LoginConfigTOML(guarded.URL+"/v1")))
	b.env = append(os.Environ(), "CODEX_HOME="+b.home, "HOME="+b.home)
	return b
}

func (b *bed) write(name string, data []byte) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.home, name), data, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) read(name string) []byte {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.home, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}

func codexBinary(t *testing.T) string {
	t.Helper()
	return realparts.CodexBinary(t)
}

func (b *bed) codex(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(b.t.Context(), codexBinary(b.t), args...)
	cmd.Env, cmd.Dir = b.env, b.home
	return cmd
}

// ask runs one turn of `codex exec`.
func (b *bed) ask() (stdout, stderr string, err error) {
	var out, bad bytes.Buffer
	cmd := b.codex("exec", "--skip-git-repo-check", "hi")
	cmd.Stdout, cmd.Stderr = &out, &bad
	err = cmd.Run()
	return out.String(), bad.String(), err
}

func refreshOf(t *testing.T, auth []byte) string {
	t.Helper()
	var a struct {
		Tokens struct {
			Refresh string `json:"refresh_token"`
		} `json:"tokens"`
	}
	if err := json.Unmarshal(auth, &a); err != nil {
		t.Fatal(err)
	}
	return a.Tokens.Refresh
}

func TestARefusedAccessTokenMakesCodexRotateOnce(t *testing.T) {
	for name, provenance := range map[string]bool{"told by the login itself": true, "told by the environment": false} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			login := b.issuer.Login(Account{NoProvenance: !provenance})
			b.write("auth.json", login.AuthJSON())
			if !provenance {
				b.env = append(b.env, "CODEX_REFRESH_TOKEN_URL_OVERRIDE="+b.issuer.TokenEndpoint())
			}
			if out, bad, err := b.ask(); err != nil || !strings.Contains(out, "hello") {
				t.Fatalf("a live login: %v: %s%s", err, out, bad)
			}
			if n := len(b.issuer.Refreshes()); n != 0 {
				t.Fatalf("%d refreshes with a live access token", n)
			}
			b.issuer.Expire("")
			if out, bad, err := b.ask(); err != nil || !strings.Contains(out, "hello") {
				t.Fatalf("after a rotation: %v: %s%s", err, out, bad)
			}
			rs := b.issuer.Refreshes()
			if len(rs) != 1 || rs[0].Answer != "ok" || rs[0].N != 1 || rs[0].Reason != "unauthorized_recovery" {
				t.Errorf("refreshes %+v", rs)
			}
			if got, want := refreshOf(t, b.read("auth.json")), b.issuer.Newest(login).Refresh; got != want || got == login.Refresh {
				t.Errorf("auth.json does not hold the newest refresh token")
			}
			if b.issuer.Uses(login.Refresh) != 1 || b.issuer.MostUses() != 1 {
				t.Errorf("the token was used %d times", b.issuer.Uses(login.Refresh))
			}
		})
	}
}

// The environment takes precedence, as it must if a fleet's endpoint is not the
// one that issued the login.
func TestTheEnvironmentWinsOverTheLoginsOwnIssuer(t *testing.T) {
	b := newBed(t)
	other := Serve(t)
	login := b.issuer.Login(Account{})
	login.Issuer = other.Issuer()
	b.write("auth.json", login.AuthJSON())
	b.env = append(b.env, "CODEX_REFRESH_TOKEN_URL_OVERRIDE="+b.issuer.TokenEndpoint())
	b.issuer.Expire("")
	out, bad, err := b.ask()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, bad)
	}
	if here, there := len(b.issuer.Refreshes()), len(other.Requests()); here != 1 || there != 0 {
		t.Errorf("%d refreshes where the environment says, %d where the login says", here, there)
	}
}

func TestAnAccessTokenThatIsAboutToExpireIsRefreshedBeforeItIsUsed(t *testing.T) {
	b := newBed(t)
	login := b.issuer.Login(Account{AccessTTL: 2 * time.Minute})
	b.write("auth.json", login.AuthJSON())
	if out, bad, err := b.ask(); err != nil {
		t.Fatalf("%v: %s%s", err, out, bad)
	}
	if b.issuer.Uses(login.Refresh) != 1 {
		t.Errorf("the token was used %d times", b.issuer.Uses(login.Refresh))
	}
	if b.issuer.MostUses() > 1 {
		t.Error("a token was used twice")
	}
}

func TestASpentTokenRevokesItsFamilyAndCodexSaysSo(t *testing.T) {
	b := newBed(t)
	login := b.issuer.Login(Account{})
	b.write("auth.json", login.AuthJSON())
	b.issuer.Expire("")
	if out, bad, err := b.ask(); err != nil {
		t.Fatalf("%v: %s%s", err, out, bad)
	}
	newest := b.read("auth.json")
	b.write("auth.json", login.AuthJSON()) // a second holder
	b.issuer.Expire("")
	if _, bad, err := b.ask(); err == nil || !strings.Contains(bad, "was already used") {
		t.Errorf("a spent token: %v: %s", err, bad)
	}
	if b.issuer.Revoked(login) == "" {
		t.Error("the family is as good as ever")
	}
	b.write("auth.json", newest)
	if _, bad, err := b.ask(); err == nil || !strings.Contains(bad, "was revoked") {
		t.Errorf("the family's newest token: %v: %s", err, bad)
	}
}

func TestDeviceLoginIsThatOfCodex(t *testing.T) {
	b := newBed(t)
	cmd := b.codex("login", "--device-auth", "--experimental_issuer", b.issuer.Issuer())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	device, err := b.issuer.AwaitDevice(ctx)
	if err == nil {
		// The code is being polled and not yet approved.
		err = b.issuer.AwaitRequests(ctx, EndpointPoll, 1)
	}
	if err == nil {
		err = b.issuer.Approve(device.UserCode, Account{ID: "acct-device"})
	}
	if err != nil {
		_ = cmd.Process.Kill()
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	for _, want := range []string{b.issuer.Issuer() + "/codex/device", device.UserCode} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("codex did not say %s: %s", want, out.String())
		}
	}
	var a struct {
		Mode   string `json:"auth_mode"`
		Tokens struct {
			Refresh    string `json:"refresh_token"`
			Account    string `json:"account_id"`
			Provenance struct {
				Issuer string `json:"issuer"`
				Client string `json:"client_id"`
			} `json:"oauth_provenance"`
		} `json:"tokens"`
	}
	if err := json.Unmarshal(b.read("auth.json"), &a); err != nil {
		t.Fatal(err)
	}
	if a.Mode != "chatgpt" || a.Tokens.Account != "acct-device" || a.Tokens.Provenance.Issuer != b.issuer.Issuer() || a.Tokens.Provenance.Client != ClientID {
		t.Errorf("auth.json: mode %q, account %q, provenance %+v", a.Mode, a.Tokens.Account, a.Tokens.Provenance)
	}
	if b.issuer.Uses(a.Tokens.Refresh) != 0 {
		t.Error("the new login's token is spent")
	}
}

func TestADeniedDeviceLoginLeavesNoLogin(t *testing.T) {
	b := newBed(t)
	cmd := b.codex("login", "--device-auth", "--experimental_issuer", b.issuer.Issuer())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	device, err := b.issuer.AwaitDevice(ctx)
	if err == nil {
		err = b.issuer.Deny(device.UserCode)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("codex ended as if it were logged in")
	}
	if _, err := os.Stat(filepath.Join(b.home, "auth.json")); !os.IsNotExist(err) {
		t.Errorf("auth.json: %v", err)
	}
}
