package authority

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// Only who may write a seed gives it rules. What they start is for the owner of the session, who
// must be allowed to use the seed that a rule names.
func TestRulesOfASeedStartOnlyWhatTheOwnerOfTheSessionMayStart(t *testing.T) {
	was, err := os.ReadFile(filepath.Join(keys, "access.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := writeAccess(string(was)); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	home, settings := filepath.Join(dir, "home"), filepath.Join(dir, "settings.yaml")
	err = errors.Join(os.Mkdir(home, 0o700),
		os.WriteFile(filepath.Join(home, "config.toml"), []byte(scriptedmodel.ConfigTOML(e2e.Lab.Model.BaseURL(), e2e.Lab.Token)), 0o600),
		os.WriteFile(settings, []byte("follow_ups:\n  - {name: mine, after: {turns: 1}, prompt: hello}\n  - {name: theirs, after: {turns: 1}, prompt: hello, seed: vault}\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if r := as(t, "olaf", "seed", "import", "rules", home, "--settings", settings); r.Code != 6 {
		t.Errorf("an operator gave rules to a seed: %v", r)
	}
	e2e.OK(t, "seed", "import", "vault", home)
	e2e.OK(t, "seed", "import", "rules", home, "--settings", settings)
	if err := writeAccess(strings.Replace(string(was), `roles: [operator], to: ["group:builders"]}`, `roles: [operator], to: ["group:builders"], when: 'seed != "vault"'}`, 1)); err != nil {
		t.Fatal(err)
	}
	e2e.Until(t, "the vault to be closed to olaf", func() (bool, error) {
		r := as(t, "olaf", "access", "why", "olaf", "seed.use", "seed:vault")
		return r.Code == 6, nil
	})

	mustDo(t, "olaf", "session", "start", "--host", "web-1", "--seed", "rules", "--id", "by-rules")
	mustDo(t, "olaf", "session", "send", "by-rules", "hello")
	var all []protocol.FollowUpView
	e2e.Until(t, "both follow-ups to end", func() (bool, error) {
		all = e2e.Show(t, "by-rules").FollowUps
		ended := 0
		for _, f := range all {
			if f.State != protocol.FollowUpStarted {
				ended++
			}
		}
		return ended == 2, nil
	})
	for _, f := range all {
		switch f.Name {
		case "mine":
			if o := objectOf(t, f.Session); f.Status != "completed" || o.Owner != "olaf" {
				t.Errorf("what olaf may start is %+v, that of %q", f, o.Owner)
			}
		case "theirs":
			if f.State != string(protocol.Failed) || f.Error == nil || f.Error.Kind != protocol.RefusedForbidden {
				t.Errorf("what olaf may not start is %+v", f)
			}
		}
	}
	mustDo(t, "olaf", "session", "close", "by-rules")
}
