package credentials

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedauth"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// loginSeed imports a login of an issuer that rotates, for codex that uses the
// shared model behind that issuer's Guard.
func loginSeed(t *testing.T, name string) scriptedauth.Login {
	t.Helper()
	guarded := httptest.NewServer(e2e.Issuer.Guard(e2e.Lab.Model))
	t.Cleanup(guarded.Close)
	login := e2e.Issuer.Login(scriptedauth.Account{ID: "acct-" + name})
	dir := t.TempDir()
	for file, data := range map[string][]byte{"auth.json": login.AuthJSON(), "config.toml": []byte(scriptedmodel.LoginConfigTOML(guarded.URL + "/v1"))} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e2e.OK(t, "seed", "import", name, dir)
	return login
}

func seed(t *testing.T, name string) protocol.SeedView {
	t.Helper()
	var v protocol.SeedView
	if err := e2e.Lab.JSON(e2e.Within(t), &v, "seed", "show", name); err != nil {
		t.Fatal(err)
	}
	return v
}

// generation waits until a seed has reached generation n.
func generation(t *testing.T, name string, n int64) {
	t.Helper()
	e2e.Until(t, fmt.Sprintf("generation %d of seed %s", n, name), func() (bool, error) {
		var v protocol.SeedView
		err := e2e.Lab.JSON(e2e.Within(t), &v, "seed", "show", name)
		return v.Generation >= n, err
	})
	if v := seed(t, name); v.Generation != n {
		t.Errorf("seed %s is at generation %d, want %d", name, v.Generation, n)
	}
}

// refresh spends the refresh token in an auth.json, as a helper of codex's
// would, and writes the new tokens to the file, in place.
func refresh(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var auth map[string]any
	if err := json.Unmarshal(data, &auth); err != nil {
		t.Fatal(err)
	}
	tokens := auth["tokens"].(map[string]any)
	body, err := json.Marshal(map[string]any{"client_id": "app_EMoamEEZ73f0CkXaXp7hrann", "grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]})
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(e2e.Issuer.TokenEndpoint(), "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&tokens); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("refresh: %s, %v", res.Status, err)
	}
	auth["last_refresh"] = time.Now().UTC().Format(time.RFC3339Nano)
	if data, err = json.Marshal(auth); err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A login that changes while its session waits for a person is saved although
// nothing is attached. Codex refreshes another one in the middle of a turn, and
// the only worker is killed before it has noticed: the next worker saves the
// login while the turn still runs. No token is ever used twice, not even by the
// next session that gets the seed.
func TestARotatedLoginIsNeverLost(t *testing.T) {
	login, before := loginSeed(t, "rotating"), len(e2e.Issuer.Refreshes())
	e2e.Session(t, "rotates", "--seed", "rotating")
	if v := e2e.Turn(t, "rotates", "hello"); v.Status != "completed" {
		t.Fatalf("turn %+v", v)
	}
	if v := seed(t, "rotating"); v.Generation != 1 {
		t.Errorf("seed %+v", v)
	}

	e2e.Send(t, "rotates", "I need a command")
	list := e2e.Open(t, "rotates", 1)
	refresh(t, filepath.Join(e2e.Root, "sessions", "rotates", "codex-home", "auth.json"))
	began := time.Now()
	generation(t, "rotating", 2)
	t.Logf("saved %.1f s after it changed, with nothing attached", time.Since(began).Seconds())
	e2e.OK(t, "approval", "accept", list[0].ID)
	if v := e2e.Ended(t, "rotates", 2); v.Turn.Status != "completed" {
		t.Errorf("turn %+v", v.Turn)
	}
	e2e.Issuer.Expire("acct-rotating")
	e2e.Send(t, "rotates", "take your time at gate rotated")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "rotated"); err != nil {
		t.Fatal(err)
	}
	pid := e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	if n := len(e2e.Issuer.Refreshes()) - before; n != 2 {
		t.Fatalf("%d refreshes", n)
	}
	e2e.Back(t, pid)
	generation(t, "rotating", 3)
	if v := e2e.Show(t, "rotates"); v.Turn == nil || v.Turn.Status != "inProgress" {
		t.Errorf("the turn did not run on: %+v", v.Turn)
	}
	e2e.Lab.Model.Release("rotated")
	if v := e2e.Ended(t, "rotates", 3); v.Turn.Status != "completed" {
		t.Errorf("turn %+v", v.Turn)
	}

	if text := e2e.OK(t, "audit", "list", "--workflow", "seed/rotating"); strings.Count(text, "credential.save") != 2 {
		t.Errorf("on record is\n%s", text)
	}
	e2e.OK(t, "audit", "verify", "--workflow", "seed/rotating")
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "close", "rotates"); r.Code != 0 {
		t.Fatalf("close: %v", r)
	}

	e2e.Session(t, "rotates-next", "--seed", "rotating")
	e2e.Issuer.Expire("acct-rotating")
	if v := e2e.Turn(t, "rotates-next", "hello"); v.Status != "completed" {
		t.Errorf("the next holder's turn %+v", v)
	}
	generation(t, "rotating", 4)
	if e2e.Issuer.MostUses() != 1 || e2e.Issuer.Revoked(login) != "" {
		t.Errorf("a token was used %d times, revoked: %s", e2e.Issuer.MostUses(), e2e.Issuer.Revoked(login))
	}
}
