package credentials

import (
	"os"
	"path/filepath"
	"strings"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedauth"
	"fairlead.dev/fairlead/internal/protocol"
)

// restored puts Temporal's database back to before three rotations of a login and before a turn
// of another session.
func (c *care) restored() {
	t := c.t
	login := c.issuer.Login(scriptedauth.Account{Mark: mark, ID: "acct-restored"})
	c.ctl(0, "seed", "import", "restored", c.home(login))
	if err := c.lab.ImportSeed(e2e.Within(t), "key"); err != nil {
		t.Fatal(err)
	}
	c.ctl(0, "session", "start", "--host", "web-1", "--seed", "key", "--id", "further")
	c.ctl(0, "session", "send", "further", "the first turn")
	e2e.Until(t, "a snapshot after the first turn", func() (bool, error) {
		all, err := lab.Lines[struct{ Complete bool }](e2e.Within(t), c.lab, "snapshot", "list", "further")
		return len(all) == 1 && all[0].Complete && c.further().Snapshot != nil, err
	})
	back := c.backUp()

	for range 2 {
		c.ctl(0, "seed", "verify", "restored", "--force")
	}
	c.issuer.Expire("acct-restored")
	c.ctl(0, "run", "--host", "web-1", "--seed", "restored", "hello")
	if v := c.seed("restored"); v.Generation != 4 {
		t.Fatalf("before the restore, the seed is %+v", v)
	}
	c.ctl(0, "session", "send", "further", "the second turn")
	back()

	if v := c.seed("restored"); v.Generation != 1 {
		t.Fatalf("after the restore, the seed is %+v", v)
	}
	c.ctl(0, "session", "start", "--host", "web-1", "--seed", "restored", "--id", "waits")
	e2e.Until(t, "the session to wait", func() (bool, error) {
		var v protocol.SessionView
		err := c.lab.JSON(e2e.Within(t), &v, "session", "show", "waits")
		return v.WaitingFor != nil && v.WaitingFor.Kind == protocol.ErrTypeSeedBehind && strings.Contains(v.WaitingFor.Error, "the store has generation 4"), err
	})
	if s := c.recovers("restored"); s.Done || s.Generation != 1 || s.Action != protocol.RecoverAdopt || s.Adopts != 4 || s.Becomes != 4 || s.Suspect {
		t.Errorf("a look says %+v", s)
	}
	if v := c.seed("restored"); v.Generation != 1 {
		t.Errorf("a look made the seed %+v", v)
	}
	if s := c.recovers("restored", "--yes"); !s.Done || s.Adopts != 4 {
		t.Errorf("it did %+v", s)
	}
	c.issuer.Expire("acct-restored")
	c.ctl(0, "session", "send", "waits", "hello")
	c.ctl(0, "session", "close", "waits")
	if v := c.seed("restored"); v.Generation != 5 || v.Health != protocol.Healthy {
		t.Errorf("the seed is %+v", v)
	}
	if why := c.issuer.Revoked(login); why != "" || c.issuer.Uses(login.Refresh) != 1 {
		t.Errorf("the login is revoked: %s; its first refresh token was used %d times", why, c.issuer.Uses(login.Refresh))
	}
	c.furtherOn()
}

func (c *care) further() (v protocol.SessionView) {
	c.t.Helper()
	if err := c.lab.JSON(e2e.Within(c.t), &v, "session", "show", "further"); err != nil {
		c.t.Fatal(err)
	}
	return v
}

// furtherOn has a session go on whose host has run another turn than Temporal knows. It finds
// that turn in the journal, or is refused by the host and parks until somebody says so. No turn is
// repeated.
func (c *care) furtherOn() {
	t := c.t
	c.ctl(0, "session", "send", "further", "the third turn", "--no-wait")
	asked := map[string]int{}
	e2e.Until(t, "the third turn", func() (bool, error) {
		clear(asked)
		for _, r := range c.lab.Model.Requests() {
			if n := len(r.UserMessages); n > 0 {
				asked[r.UserMessages[n-1]]++
			}
		}
		v := c.further()
		if v.State == protocol.Parked {
			c.lab.Ctl(e2e.Within(t), nil, "session", "resume", "further") // a message may have done so
		}
		return asked["the third turn"] > 0 && v.State == protocol.Idle && v.Turn != nil && v.Turn.Status == "completed", nil
	})
	for _, text := range []string{"the first turn", "the second turn", "the third turn"} {
		if asked[text] != 1 {
			t.Errorf("the model was asked %d times for %s", asked[text], text)
		}
	}
	c.ctl(0, "session", "close", "further")
}

// backUp copies Temporal's database while the stack is stopped, and returns what puts the copy
// back.
func (c *care) backUp() (restore func()) {
	t := c.t
	t.Helper()
	dir := t.TempDir()
	stopped := func(do func()) {
		t.Helper()
		if err := c.lab.Down(e2e.Within(t)); err != nil {
			t.Fatal(err)
		}
		do()
		if err := c.lab.Up(e2e.Within(t)); err != nil {
			t.Fatal(err)
		}
	}
	files := func(in string) []string {
		found, err := filepath.Glob(filepath.Join(in, "temporal.db*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	move := func(from, to string) {
		t.Helper()
		for _, file := range files(to) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		all := files(from)
		if len(all) == 0 {
			t.Fatalf("there is no database in %s", from)
		}
		for _, file := range all {
			data, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(filepath.Join(to, filepath.Base(file)), data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	stopped(func() { move(c.lab.State, dir) })
	return func() { stopped(func() { move(dir, c.lab.State) }) }
}

// recovers runs `ctl recover` and returns what it says of a seed.
func (c *care) recovers(name string, more ...string) protocol.RecoveredSeed {
	t := c.t
	t.Helper()
	var out protocol.RecoverResult
	if err := c.lab.JSON(e2e.Within(t), &out, append([]string{"recover"}, more...)...); err != nil {
		t.Fatal(err)
	}
	for _, s := range out.Seeds {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("seed %s is not in %+v", name, out)
	return protocol.RecoveredSeed{}
}
