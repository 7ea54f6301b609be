package alarm

import (
	"fmt"
	"os"
	"regexp"

	"github.com/goccy/go-yaml"
)

// AlertsFile is the file of the alerts, in the repository.
const AlertsFile = "deploy/observability/alerts.yaml"

// An Alert is one of the file.
type Alert struct {
	Name        string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// Alerts reads a file of alerts.
func Alerts(file string) (all []Alert, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the alerts: %w", err)
	}
	var doc struct {
		Groups []struct {
			Name  string  `yaml:"name"`
			Rules []Alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.UnmarshalWithOptions(text, &doc, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("read the alerts in %s: %w", file, err)
	}
	for _, g := range doc.Groups {
		all = append(all, g.Rules...)
	}
	return all, nil
}

var (
	ours    = regexp.MustCompile(`\b(?:fairlead|temporal|go|process)_[a-z_]+\b`)
	suffix  = regexp.MustCompile(`_(?:bucket|count|sum)$`)
	texts   = regexp.MustCompile(`"[^"]*"`)
	matcher = regexp.MustCompile(`(\b[a-z_]+)\{([^}]*)\}`)
	label   = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
)

// A Use is a metric in an expression, with the labels by which it is selected there.
type Use struct {
	Metric string // without the suffix of a histogram's series
	Labels []string
}

// Uses returns the metrics of workers in an expression of PromQL.
func Uses(expr string) (all []Use) {
	plain := texts.ReplaceAllString(expr, `""`)
	labels := map[string][]string{}
	for _, m := range matcher.FindAllStringSubmatch(plain, -1) {
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			labels[m[1]] = append(labels[m[1]], l[1])
		}
	}
	for _, name := range ours.FindAllString(plain, -1) {
		all = append(all, Use{suffix.ReplaceAllString(name, ""), labels[name]})
	}
	return all
}
