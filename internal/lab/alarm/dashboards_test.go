package alarm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/realparts"
)

func panels(t *testing.T) []Panel {
	t.Helper()
	all, err := Dashboards(realparts.Path(t, "deploy", "observability"))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 40 {
		t.Fatalf("only %d panels were read", len(all))
	}
	return all
}

// A query of a dashboard names metrics and labels that a worker serves.
func TestEveryQueryOfTheDashboardsNamesWhatThereIs(t *testing.T) {
	metrics, err := Reference(realparts.Path(t, MetricsPage))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, p := range panels(t) {
		if p.Unit == "" || len(p.Queries) == 0 {
			t.Errorf("%s, %s: unit %q, %d queries", p.Dashboard, p.Title, p.Unit, len(p.Queries))
		}
		for _, q := range p.Queries {
			for _, u := range Uses(q) {
				shown[u.Metric] = true
				if strings.HasPrefix(u.Metric, "go_") || strings.HasPrefix(u.Metric, "process_") {
					continue // of the Prometheus client; internal/lab/e2e/outages looks for them
				}
				labels, ok := metrics[u.Metric]
				if !ok {
					t.Errorf("%s, %s: there is no metric %s", p.Dashboard, p.Title, u.Metric)
				}
				for _, l := range u.Labels {
					if !slices.Contains(labels, l) {
						t.Errorf("%s, %s: %s has no label %s", p.Dashboard, p.Title, u.Metric, l)
					}
				}
			}
		}
	}
	for name := range metrics {
		if strings.HasPrefix(name, "fairlead_") && !shown[name] && name != "fairlead_fleet_failures_total" {
			t.Errorf("no dashboard shows %s", name)
		}
	}
}

// Prometheus understands each query.
func TestPrometheusTakesEveryQueryOfTheDashboards(t *testing.T) {
	var b strings.Builder
	b.WriteString("groups:\n  - name: dashboards\n    rules:\n")
	for i, p := range panels(t) {
		for j, q := range p.Queries {
			fmt.Fprintf(&b, "      - {record: 'panel:q%d:%d', expr: %s}\n", i, j, quoted(q))
		}
	}
	file := filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), realparts.Promtool(t), "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// No panel of a dashboard covers another one.
func TestPanelsStandBesideEachOther(t *testing.T) {
	all := panels(t)
	for i, a := range all {
		if a.At.X < 0 || a.At.X+a.At.W > 24 || a.At.W < 1 || a.At.H < 1 {
			t.Errorf("%s, %s stands at %+v", a.Dashboard, a.Title, a.At)
		}
		for _, b := range all[:i] {
			if a.Dashboard == b.Dashboard && a.At.X < b.At.X+b.At.W && b.At.X < a.At.X+a.At.W && a.At.Y < b.At.Y+b.At.H && b.At.Y < a.At.Y+a.At.H {
				t.Errorf("%s: %s covers %s", a.Dashboard, a.Title, b.Title)
			}
		}
	}
}
