package main

import (
	"slices"
	"testing"
)

func TestAHostsLabelsAreGivenAndTakenAway(t *testing.T) {
	set, err := hostChange("web-1", []string{"gpu=no", "team-", "note=a-"}, 8, true)
	if err != nil || set.Labels["gpu"] != "no" || set.Labels["note"] != "a-" || !slices.Equal(set.Unlabel, []string{"team"}) || set.Slots != 8 {
		t.Errorf("%+v, %v", set, err)
	}
	for _, bad := range [][]string{nil, {"gpu"}, {"-"}, {"=x"}, {"gpu=no", "gpu-"}} {
		if _, err := hostChange("web-1", bad, 0, false); exitOf(err) != exitUsage {
			t.Errorf("%q gives %v", bad, err)
		}
	}
	if _, err := hostChange("web-1", nil, 0, true); exitOf(err) != exitUsage {
		t.Errorf("no slots give %v", err)
	}
}
