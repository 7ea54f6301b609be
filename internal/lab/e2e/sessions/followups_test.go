package sessions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestAFollowUpGoesOnWithTheThreadAndItsResultIsAttached(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	err := os.WriteFile(rules, []byte("follow_ups:\n  - name: review\n    after: {turns: 1}\n    prompt: what was first\n    sandbox: read-only\n    budget: tokens=900000\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	e2e.Session(t, "followed", "--follow-up", rules)
	e2e.Turn(t, "followed", "the first words")
	second := e2e.Started(t, "followed", 1)
	closed(t, second)
	e2e.Until(t, "the result of the follow-up is attached", func() (bool, error) {
		all := e2e.Show(t, "followed").FollowUps
		return len(all) == 1 && all[0].State != protocol.FollowUpStarted, nil
	})
	v := e2e.Show(t, "followed")
	got := v.FollowUps[0]
	if got.Session != second || !strings.HasPrefix(second, "followed-review-1-") || got.State != "closed" || got.Status != "completed" || got.Turn != 1 || !strings.Contains(got.Text, "The first was: the first words") {
		t.Errorf("it is shown as %+v", got)
	}
	its := e2e.Show(t, second)
	if its.Origin != "session/followed" || its.ThreadID == v.ThreadID || its.Options["sandbox"] != "read-only" || len(its.FollowUps) > 0 || v.State != protocol.Idle {
		t.Errorf("the follow-up is %+v, and the first session %s", its, v.State)
	}
	if out := e2e.OK(t, "session", "list", "--follow-ups-of", "followed"); !strings.Contains(out, second) {
		t.Errorf("listed are\n%s", out)
	}
}
