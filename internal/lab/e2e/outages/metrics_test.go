package outages

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

// Whoever reads a worker's metrics sees what the whole namespace waits for.
func TestMetricsSayWhatTheNamespaceWaitsFor(t *testing.T) {
	c := newCrowd(t, true, "")
	c.wait("counted")
	var text string
	e2e.Until(t, "the metrics to count the session", func() (bool, error) {
		var err error
		text, err = fetch(e2e.Within(t), "http://"+c.metrics+"/metrics")
		return strings.Contains(text, `fairlead_sessions{state="waiting"} 1`), err
	})
	for _, want := range []string{
		"fairlead_approvals_open 1\n", "fairlead_approval_oldest_seconds ", `fairlead_pool_slots{zone="default"} `, `fairlead_pool_slots_used{zone="default"} 1` + "\n",
		`fairlead_pool_waiting{zone="default"} 0` + "\n", `fairlead_hosts{state="`, `fairlead_hosts_unclean{zone="default"} 0` + "\n", "fairlead_seeds{health=",
		"fairlead_seeds_unsaved 0\n", "fairlead_fleet_failures_total 0\n", "fairlead_build_info{codex=", "fairlead_ready 1\n", `fairlead_ssh_dials_total{outcome="ok"} `, "fairlead_ssh_connections ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if t.Failed() {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "fairlead_") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
}
