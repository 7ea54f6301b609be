package credentials

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedauth"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// login imports a new ChatGPT login and returns a text that is in all of its
// tokens.
func login(t *testing.T, seed string) (mark string) {
	t.Helper()
	mark = "leak-" + seed
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"auth.json":   e2e.Issuer.Login(scriptedauth.Account{ID: "acct-" + seed, Mark: mark}).AuthJSON(),
		"config.toml": []byte(scriptedmodel.LoginConfigTOML(e2e.Lab.Model.BaseURL())),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e2e.OK(t, "seed", "import", seed, dir)
	return mark
}

func seedShown(t *testing.T, name string) (v protocol.SeedView) {
	t.Helper()
	if err := e2e.Lab.JSON(e2e.Within(t), &v, "seed", "show", name); err != nil {
		t.Fatal(err)
	}
	return v
}

func turnsOf(t *testing.T, id string) []protocol.TurnView {
	t.Helper()
	ctx := e2e.Within(t)
	c, err := e2e.Lab.Temporal(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	v, err := c.QueryWorkflow(ctx, protocol.SessionID(id), "", protocol.QueryDetail)
	if err != nil {
		t.Fatal(err)
	}
	var d protocol.SessionDetail
	if err := v.Get(&d); err != nil {
		t.Fatal(err)
	}
	return d.Turns
}

func TestABrokeredSessionLeavesItsHostWithoutACredential(t *testing.T) {
	mark := login(t, "brokered")
	watch := lab.WatchProcesses(mark)
	e2e.Session(t, "brokered", "--seed", "brokered", "--credentials", "broker")
	if v := e2e.Turn(t, "brokered", "you are refused once"); v.Status != "completed" || v.FinalText != "now I may" {
		t.Fatalf("turn %+v, error %+v", v, v.Error)
	}
	if v := seedShown(t, "brokered"); v.Generation != 2 || v.Kind != "chatgpt" || v.Health == "dead" || v.Health == "suspect" {
		t.Errorf("the seed is %+v", v)
	}
	dir := filepath.Join(e2e.Root, "sessions", "brokered")
	if _, err := os.Stat(filepath.Join(dir, "codex-home", "auth.json")); !os.IsNotExist(err) {
		t.Errorf("auth.json is on the host (%v)", err)
	}
	if found, files, _, err := lab.FindSecret(mark, dir); err != nil || len(found) > 0 || files < 10 {
		t.Errorf("on the host in %v (%d files, %v)", found, files, err)
	}
	e2e.OK(t, "session", "close", "brokered")
	if seen, samples := watch.Stop(); len(seen) > 0 || samples == 0 {
		t.Errorf("seen in %v (%d samples)", seen, samples)
	}
	if found, files, _, err := lab.FindSecret(mark, e2e.Root, e2e.Lab.State); err != nil || len(found) > 0 || files < 10 {
		t.Errorf("after the close in %v (%d files, %v)", found, files, err)
	}
	if v := seedShown(t, "brokered"); len(v.HeldBy) != 0 {
		t.Errorf("the seed is held by %v", v.HeldBy)
	}
	if n := e2e.Issuer.MostUses(); n > 1 {
		t.Errorf("a refresh token was used %d times", n)
	}
}

func TestOnlyAChatGPTLoginCanBeBrokered(t *testing.T) {
	r := e2e.Exits(t, 2, "session", "start", "--host", "web-1", "--seed", "team", "--id", "no-broker", "--credentials", "broker")
	if !strings.Contains(r.Stderr, "of kind provider") || !strings.Contains(r.Stderr, "--credentials broker") {
		t.Errorf("it said %q", r.Stderr)
	}
	e2e.Exits(t, 3, "session", "show", "no-broker")
}

func TestARefreshThatIsRefusedEndsTheTurnAndTheSeed(t *testing.T) {
	login(t, "over")
	e2e.Session(t, "over", "--seed", "over", "--credentials", "broker")
	e2e.Idle(t, "over")
	e2e.Issuer.Fail(scriptedauth.Fault{Kind: "expired"})
	e2e.Send(t, "over", "you are refused for ever")
	e2e.Until(t, "the turn's end", func() (bool, error) {
		turns := turnsOf(t, "over")
		return len(turns) > 0 && turns[0].Done(), nil
	})
	v := turnsOf(t, "over")[0]
	if v.Status != "failed" || v.Error == nil || v.Error.Kind != "auth" || !strings.Contains(v.Error.Hint, "log in anew") || v.FollowedBy != 0 {
		t.Errorf("turn %+v, error %+v", v, v.Error)
	}
	if seed := seedShown(t, "over"); seed.Health != "dead" {
		t.Errorf("the seed is %+v", seed)
	}
}

func TestATurnThatGotNoTokenForWantOfAWorkerIsBegunOnceMore(t *testing.T) {
	login(t, "nobody")
	e2e.Session(t, "nobody", "--seed", "nobody", "--credentials", "broker")
	e2e.Idle(t, "nobody")
	e2e.Send(t, "nobody", "you are refused once behind gate nobody")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "nobody"); err != nil {
		t.Fatal(err)
	}
	back := e2e.NoWorker(t)
	e2e.Lab.Model.Release("nobody")
	journal := filepath.Join(e2e.Root, "sessions", "nobody", "proc", "app-server", "out.log")
	e2e.Until(t, "codex to give up", func() (bool, error) {
		data, err := os.ReadFile(journal)
		return bytes.Contains(data, []byte(`"turn/completed"`)), err
	})
	back()
	e2e.Until(t, "the second attempt", func() (bool, error) {
		turns := turnsOf(t, "nobody")
		return len(turns) == 2 && turns[1].Done(), nil
	})
	turns := turnsOf(t, "nobody")
	if first := turns[0]; first.Status != "failed" || first.Error.Kind != "auth" || first.FollowedBy != 2 {
		t.Errorf("first turn %+v, error %+v", first, first.Error)
	}
	if second := turns[1]; second.Status != "completed" || second.FinalText != "now I may" {
		t.Errorf("second turn %+v, error %+v", second, second.Error)
	}
	if v := seedShown(t, "nobody"); v.Health == "suspect" || v.Health == "dead" {
		t.Errorf("the seed is blamed: %+v", v)
	}
}

func TestAWorkerThatIsKilledInARefreshBurnsNoLogin(t *testing.T) {
	login(t, "burning")
	e2e.Session(t, "burning", "--seed", "burning", "--credentials", "broker")
	e2e.Idle(t, "burning")
	e2e.Issuer.Fail(scriptedauth.Fault{Kind: "hang"})
	e2e.Send(t, "burning", "you are refused for ever")
	if err := e2e.Issuer.AwaitHolding(e2e.Within(t), 1); err != nil {
		t.Fatal(err)
	}
	pid := e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	e2e.Back(t, pid)
	e2e.Until(t, "the turn's end", func() (bool, error) {
		turns := turnsOf(t, "burning")
		return len(turns) > 0 && turns[0].Done(), nil
	})
	v := turnsOf(t, "burning")[0]
	if v.Status != "failed" || v.Error == nil || v.Error.Kind != "auth" || v.Error.Hint == "" {
		t.Errorf("turn %+v, error %+v", v, v.Error)
	}
	e2e.Until(t, "the seed to be suspect", func() (bool, error) {
		seed := seedShown(t, "burning")
		return seed.Health == "suspect" && seed.Hint != "", nil
	})
	if n := e2e.Issuer.MostUses(); n > 1 {
		t.Errorf("a refresh token was used %d times", n)
	}
}
