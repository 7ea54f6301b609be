package alarm

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// MetricsPage is the page with all metrics of a worker that have a row; a test of cmd/worker
// compares it with what a worker serves.
const MetricsPage = "docs/reference/metrics.md"

var row = regexp.MustCompile("^\\| `([a-z_]+)` \\| [a-z]+ \\| ([^|]*) \\|")

// Reference reads the labels of each metric from the page.
func Reference(file string) (map[string][]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		all[m[1]] = []string{"instance", "job"} // of Prometheus
		for l := range strings.SplitSeq(m[2], ", ") {
			if l = strings.Trim(l, "`"); l != "–" {
				all[m[1]] = append(all[m[1]], l)
			}
		}
	}
	return all, nil
}
