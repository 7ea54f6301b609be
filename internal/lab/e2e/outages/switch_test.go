package outages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedauth"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// The quota of a login ends in the middle of a turn, after a command has run. The
// session goes on with the other login of the pool, and the command runs once.
func TestAQuotaThatEndsInMidTurnMovesTheSessionToTheNextLogin(t *testing.T) {
	t.Run("logins of ChatGPT", func(t *testing.T) { testSwitch(t, "switched", importLogin) })
	t.Run("keys", func(t *testing.T) {
		testSwitch(t, "switched-key", func(t *testing.T, name string) {
			if err := e2e.Lab.ImportSeed(e2e.Within(t), name); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// importLogin makes a seed of a ChatGPT account of its own.
func importLogin(t *testing.T, name string) {
	t.Helper()
	home := t.TempDir()
	login := e2e.Issuer.Login(scriptedauth.Account{ID: "acct-" + name})
	for file, data := range map[string][]byte{"auth.json": login.AuthJSON(), "config.toml": []byte(scriptedmodel.LoginConfigTOML(e2e.Lab.Model.BaseURL()))} {
		if err := os.WriteFile(filepath.Join(home, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e2e.OK(t, "seed", "import", name, home)
}

func testSwitch(t *testing.T, id string, seed func(t *testing.T, name string)) {
	ctx, pool := e2e.Within(t), id+"-quotas"
	for _, name := range []string{id + "-1", id + "-2"} {
		seed(t, name)
		e2e.OK(t, "seed", "set", name, "--pool", pool)
	}
	e2e.OK(t, "session", "start", "--host", "web-1", "--seed-pool", pool, "--id", id, "--on-limit", "switch")
	closed := false
	t.Cleanup(func() {
		if !closed {
			e2e.Lab.Ctl(ctx, nil, "session", "close", id)
		}
	})
	e2e.Send(t, id, "now work until the limit")
	v := e2e.Ended(t, id, 2)
	s := v.Switched
	if v.Turn.Status != "completed" || v.Limit != nil || v.Attempt != 2 || s == nil || s.From == s.To || v.Seed != s.To || s.N != 1 || s.Turn != 2 || s.Attempt != 2 {
		t.Fatalf("the session is %+v, turn %+v, switched %+v", v, v.Turn, s)
	}
	if said := e2e.LastText(t, id); !strings.Contains(said, "this session goes on with another account now") {
		t.Errorf("the model said %q", said)
	}
	var left protocol.SeedView
	if err := e2e.Lab.JSON(ctx, &left, "seed", "show", s.From); err != nil {
		t.Fatal(err)
	}
	if len(left.HeldBy) != 0 || left.Account == nil || left.Account.State != protocol.UsedUp || left.Account.Until == nil {
		t.Errorf("the seed that it left is held by %q, and its account is %+v", left.HeldBy, left.Account)
	}
	to := t.TempDir()
	e2e.OK(t, "session", "fetch", id, "effects", "--to", to)
	if got, err := os.ReadFile(filepath.Join(to, "effects")); err != nil || string(got) != "done\n" {
		t.Errorf("the command left %q, %v", got, err)
	}
	if text := e2e.OK(t, "transcript", id); !strings.Contains(text, "goes on with seed "+s.To+" in place of "+s.From+" (attempt 2)") {
		t.Errorf("the transcript is:\n%s", text)
	}
	if text := e2e.OK(t, "session", "show", id); !strings.Contains(text, "whose quota ended, to "+s.To) {
		t.Errorf("it is shown as:\n%s", text)
	}
	e2e.OK(t, "session", "close", id)
	closed = true
}
