package alarm

import (
	"fmt"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// A Scrape is what a worker served at one moment: values by series, in Prometheus's notation.
type Scrape struct {
	Values map[string]float64
	// Grows has the series that count.
	Grows map[string]bool
	// Names are those of the metrics, without the suffixes of histograms.
	Names []string
}

// Parse reads what a worker served. instance is the label that Prometheus adds; the label
// instance tells workers apart.
func Parse(text, instance string) (Scrape, error) {
	s := Scrape{Values: map[string]float64{}, Grows: map[string]bool{}}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return s, fmt.Errorf("read metrics: %w", err)
	}
	for name, f := range families {
		s.Names = append(s.Names, name)
		for _, m := range f.GetMetric() {
			labels := []string{fmt.Sprintf("instance=%q", instance)}
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			add := func(name string, v float64, grows bool, more ...string) {
				series := name + "{" + strings.Join(append(slices.Clone(labels), more...), ",") + "}"
				s.Values[series], s.Grows[series] = v, grows
			}
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				add(name, m.GetCounter().GetValue(), true)
			case dto.MetricType_GAUGE:
				add(name, m.GetGauge().GetValue(), false)
			case dto.MetricType_UNTYPED:
				add(name, m.GetUntyped().GetValue(), false)
			case dto.MetricType_HISTOGRAM:
				h := m.GetHistogram()
				add(name+"_count", float64(h.GetSampleCount()), true)
				add(name+"_sum", h.GetSampleSum(), true)
				for _, b := range h.GetBucket() {
					add(name+"_bucket", float64(b.GetCumulativeCount()), true, fmt.Sprintf("le=\"%v\"", b.GetUpperBound()))
				}
			case dto.MetricType_SUMMARY:
				add(name+"_count", float64(m.GetSummary().GetSampleCount()), true)
				add(name+"_sum", m.GetSummary().GetSampleSum(), true)
			}
		}
	}
	slices.Sort(s.Names)
	return s, nil
}
