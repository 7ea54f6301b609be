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
  - when: {contains: spend on}
    steps:
      - [{limits: {used: 73, minutes: 300, resets_in: 2h}}, {shell: "true"}]
      - [{wait: metering}, {say: done}]
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
	e2e.Send(t, "metering", "spend on")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "metering"); err != nil {
		t.Fatal(err)
	}
	used(73) // while its turn runs
	if out := e2e.OK(t, "seed", "list"); !strings.Contains(out, "73 %") {
		t.Errorf("seed list:\n%s", out)
	}
	e2e.Lab.Model.Release("metering")
	if v := e2e.Ended(t, "metering", 3); v.Turn.Status != "completed" {
		t.Errorf("the turn is %+v", v.Turn)
	}
	e2e.OK(t, "session", "close", "metering")
	if a := seed(t, "metered").Account; a == nil || a.UsedPercent == nil || *a.UsedPercent != 73 || a.Limits == nil || a.Limits.Primary == nil || a.Limits.Primary.WindowMinutes != 300 {
		t.Errorf("after the session: %+v", a)
	}
}
