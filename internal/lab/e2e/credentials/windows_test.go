package credentials

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

// ChatGPT's backend says with each answer what the account has used of its windows.
func TestASessionKeepsTheUseOfItsLoginUpToDate(t *testing.T) {
	e2e.Scripted(t, `
rules:
  - when: {contains: spend a lot}
    steps:
      - [{limits: {used: 61, minutes: 300, resets_in: 2h}}, {say: done}]
  - when: {}
    steps:
      - [{limits: {used: 42, minutes: 300, resets_in: 2h}}, {say: done}]
`)
	loginSeed(t, "metered")
	e2e.Session(t, "metering", "--seed", "metered")
	used := func(percent int) {
		t.Helper()
		e2e.Until(t, "the seed shows what its login has used", func() (bool, error) {
			a := seed(t, "metered").Account
			return a != nil && a.UsedPercent != nil && *a.UsedPercent == percent && a.ResetsAt != nil && time.Until(*a.ResetsAt) > time.Hour, nil
		})
	}
	for i, text := range []string{"spend a little", "spend a lot"} {
		if v := e2e.Turn(t, "metering", text); v.Status != "completed" {
			t.Fatalf("turn %+v", v)
		}
		used([]int{42, 61}[i]) // while a session has it
	}
	if out := e2e.OK(t, "seed", "list"); !strings.Contains(out, "61 %") {
		t.Errorf("seed list:\n%s", out)
	}
	e2e.OK(t, "session", "close", "metering")
	if a := seed(t, "metered").Account; a == nil || a.UsedPercent == nil || *a.UsedPercent != 61 || a.Limits == nil || a.Limits.Primary == nil || a.Limits.Primary.WindowMinutes != 300 {
		t.Errorf("after the session: %+v", a)
	}
}
