package alarm

import (
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/realparts"
)

// A History is what Prometheus has read, once a minute. The zero History is empty.
type History struct {
	minutes int
	series  map[string][]float64 // NaN where nothing was served
	checks  []check
}

type check struct {
	minute int
	among  []string // nil: all alerts
	firing []string
}

// add appends to a series what at says for each minute.
func (h *History) add(series string, minutes int, at func(minute int, last float64) float64) {
	if h.series == nil {
		h.series = map[string][]float64{}
	}
	all := h.series[series]
	for len(all) < h.minutes {
		all = append(all, math.NaN())
	}
	last := 0.0
	for _, v := range all {
		if !math.IsNaN(v) {
			last = v
		}
	}
	for m := range minutes {
		v := at(m+1, last)
		if !math.IsNaN(v) {
			last = v
		}
		all = append(all, v)
	}
	h.series[series] = all
}

// As lets values stay as they are in a scrape.
func (h *History) As(minutes int, now Scrape) { h.Between(minutes, now, now) }

// Between goes on as it went between two scrapes: what counts grows as much in each minute, and
// the age of what still waits grows by a minute.
func (h *History) Between(minutes int, before, now Scrape) {
	for series, v := range now.Values {
		switch {
		case now.Grows[series]:
			step := max(0, v-before.Values[series])
			h.add(series, minutes, func(_ int, last float64) float64 { return max(last, v-step) + step })
		case strings.Contains(series, "_oldest_seconds") && v > 0:
			h.add(series, minutes, func(m int, _ float64) float64 { return v + float64(60*m) })
		default:
			h.add(series, minutes, func(int, float64) float64 { return v })
		}
	}
	h.minutes += minutes
	for series := range h.series { // what is no longer served ends
		for len(h.series[series]) < h.minutes {
			h.series[series] = append(h.series[series], math.NaN())
		}
	}
}

// Fires says that exactly these alerts fire at this moment.
func (h *History) Fires(alerts ...string) { h.FiresOf(nil, alerts...) }

// FiresOf says that exactly these alerts fire among some.
func (h *History) FiresOf(among []string, alerts ...string) {
	h.checks = append(h.checks, check{h.minutes - 1, among, alerts})
}

// Try has promtool evaluate the alerts over the history.
func (h *History) Try(t testing.TB) {
	t.Helper()
	promtool := realparts.Promtool(t)
	var b strings.Builder
	fmt.Fprintf(&b, "rule_files: [%q]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n", realparts.Path(t, filepath.FromSlash(AlertsFile)))
	for _, series := range slices.Sorted(maps.Keys(h.series)) {
		values := make([]string, 0, h.minutes)
		for _, v := range h.series[series] {
			if math.IsNaN(v) {
				values = append(values, "_")
			} else {
				values = append(values, strconv.FormatFloat(v, 'f', -1, 64))
			}
		}
		fmt.Fprintf(&b, "      - series: %s\n        values: %s\n", quoted(series), quoted(strings.Join(values, " ")))
	}
	b.WriteString("    promql_expr_test:\n")
	for _, c := range h.checks {
		among := ""
		if c.among != nil {
			among = fmt.Sprintf(",alertname=~%q", strings.Join(c.among, "|"))
		}
		fmt.Fprintf(&b, "      - expr: group by (alertname) (ALERTS{alertstate=\"firing\"%s})\n        eval_time: %dm\n        exp_samples:\n", among, c.minute)
		for _, name := range c.firing {
			fmt.Fprintf(&b, "          - {labels: '{alertname=%q}', value: 1}\n", name)
		}
	}
	file := filepath.Join(t.TempDir(), "history.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("the alerts do not fire as they should: %v\n%s", err, out)
	}
}

// quoted makes a string for YAML.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
