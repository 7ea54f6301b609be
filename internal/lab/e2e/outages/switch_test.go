package outages

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedauth"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// The quota of a login ends in the middle of a turn, after a command has run. The
// session goes on with the other login of the pool, and the command runs once. When the
// quota of that one ends, too, the session waits.
func TestAQuotaThatEndsInMidTurnMovesTheSessionToTheNextLogin(t *testing.T) {
	t.Run("logins of ChatGPT", func(t *testing.T) {
		id := "switched"
		s := testSwitch(t, id, func(t *testing.T, name string) {
			importLogin(t, name)
			if name == id+"-1" {
				nearlyUseUp(t, name)
			}
		})
		// The pool lends a login that is nearly used up only when the others are used up.
		if s.From != id+"-2" || s.To != id+"-1" {
			t.Errorf("it went from %s to %s", s.From, s.To)
		}
	})
	t.Run("keys", func(t *testing.T) {
		testSwitch(t, "switched-key", func(t *testing.T, name string) {
			if err := e2e.Lab.ImportSeed(e2e.Within(t), name); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// nearlyUseUp makes ChatGPT's service say that most of a window of a login is used. A
// verification reads that.
func nearlyUseUp(t *testing.T, name string) {
	t.Helper()
	e2e.Issuer.SetUsage("acct-"+name, scriptedauth.Usage{Primary: scriptedauth.Window{Percent: 96, Length: 5 * time.Hour, Resets: time.Now().Add(3 * time.Hour)}})
	e2e.OK(t, "seed", "verify", name)
	var v protocol.SeedView
	if err := e2e.Lab.JSON(e2e.Within(t), &v, "seed", "show", name); err != nil {
		t.Fatal(err)
	}
	if v.Account == nil || v.Account.State != protocol.NearlyUsedUp {
		t.Fatalf("the account of %s is %+v", name, v.Account)
	}
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

func testSwitch(t *testing.T, id string, seed func(t *testing.T, name string)) *protocol.SwitchedView {
	ctx, pool := e2e.Within(t), id+"-quotas"
	for _, name := range []string{id + "-1", id + "-2"} {
		seed(t, name)
		e2e.OK(t, "seed", "set", name, "--pool", pool)
		isIn(t, pool, name)
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
	waitsWithoutAnother(t, id, s.To)
	e2e.OK(t, "session", "close", id)
	closed = true
	return s
}

// waitsWithoutAnother checks that a session waits when its quota ends and no other seed of
// its pool has any left.
func waitsWithoutAnother(t *testing.T, id, seed string) {
	t.Helper()
	before := e2e.Show(t, id)
	e2e.Send(t, id, "no quota left")
	var v protocol.SessionView
	e2e.Until(t, id+" to wait because no other seed is free", func() (bool, error) {
		v = e2e.Show(t, id)
		return v.State == protocol.Waiting && v.Limit != nil && strings.Contains(v.Waits, "of which no seed is free"), nil
	})
	if v.Seed != seed || v.Attempt != before.Attempt || v.Switched == nil || v.Switched.N != 1 {
		t.Errorf("it has seed %s in attempt %d, switched %+v", v.Seed, v.Attempt, v.Switched)
	}
	if v.Limit.Kind != protocol.EndQuota || v.Limit.AsksAt.IsZero() || v.Limit.Until.IsZero() || !strings.Contains(v.Waits, "1 used up") {
		t.Errorf("it waits for %q: %+v", v.Waits, v.Limit)
	}
}

// isIn waits until a pool has a seed.
func isIn(t *testing.T, pool, name string) {
	t.Helper()
	c, err := e2e.Lab.Temporal(e2e.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	e2e.Until(t, "pool "+pool+" to have seed "+name, func() (bool, error) {
		var v protocol.SeedPoolView
		got, err := c.QueryWorkflow(e2e.Within(t), protocol.SeedPoolID(pool), "", protocol.QuerySeedPool)
		if err == nil {
			err = got.Get(&v)
		}
		return err == nil && slices.ContainsFunc(v.Seeds, func(m protocol.SeedPoolMember) bool { return m.Name == name && m.Free }), nil
	})
}
