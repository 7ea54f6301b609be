package host

import (
	"slices"
	"testing"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestAHostsLabelsAreGivenAndTakenAway(t *testing.T) {
	set, err := hostChange("web-1", []string{"gpu=no", "team-", "note=a-"}, 8, true)
	if err != nil || set.Labels["gpu"] != "no" || set.Labels["note"] != "a-" || !slices.Equal(set.Unlabel, []string{"team"}) || set.Slots != 8 {
		t.Errorf("%+v, %v", set, err)
	}
	for _, bad := range [][]string{nil, {"gpu"}, {"-"}, {"=x"}, {"gpu=no", "gpu-"}} {
		if _, err := hostChange("web-1", bad, 0, false); core.ExitCode(err) != core.ExitUsage {
			t.Errorf("%q gives %v", bad, err)
		}
	}
	if _, err := hostChange("web-1", nil, 0, true); core.ExitCode(err) != core.ExitUsage {
		t.Errorf("no slots give %v", err)
	}
}

func TestAHostThatIsAwaySaysWhySinceWhenAndWhatEndsIt(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	got := healthText("web-9", &protocol.HostHealth{State: protocol.HealthQuarantined, Reason: "no route to host", Since: at, NextAt: at.Add(time.Minute)})
	want := "quarantined since 2026-01-02 03:04:05: no route to host; a probe that finds it well ends that: the next is at 03:05:05, `ctl host check web-9` is one now"
	if got != want {
		t.Errorf("shown %s, want %s", got, want)
	}
}
