package alarm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Panel is one of a dashboard, with its queries as Prometheus gets them.
type Panel struct {
	Dashboard string
	Title     string
	Kind      string
	Unit      string
	Queries   []string
	At        Place
}

// A Place is where a panel stands, in Grafana's grid of 24 columns.
type Place struct {
	X, Y, W, H int
}

// rateInterval is what Grafana puts in for $__rate_interval.
const rateInterval = "2m"

// Dashboards reads the panels of all dashboards in a folder.
func Dashboards(dir string) (all []Panel, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read a dashboard: %w", err)
		}
		var doc struct {
			UID    string
			Title  string
			Panels []struct {
				Title       string
				Type        string
				GridPos     Place
				FieldConfig struct{ Defaults struct{ Unit string } }
				Targets     []struct {
					Expr       string
					Datasource struct{ UID string }
				}
			}
		}
		if err := json.Unmarshal(text, &doc); err != nil {
			return nil, fmt.Errorf("read dashboard %s: %w", file, err)
		}
		if doc.UID != "fairlead-"+strings.TrimSuffix(filepath.Base(file), ".json") || doc.Title == "" {
			return nil, fmt.Errorf("dashboard %s has uid %q and title %q", file, doc.UID, doc.Title)
		}
		for _, p := range doc.Panels {
			one := Panel{Dashboard: doc.Title, Title: p.Title, Kind: p.Type, Unit: p.FieldConfig.Defaults.Unit, At: p.GridPos}
			for _, t := range p.Targets {
				if t.Datasource.UID != "${datasource}" {
					return nil, fmt.Errorf("dashboard %s, panel %s: its source %q is not the one that the reader chooses", file, p.Title, t.Datasource.UID)
				}
				one.Queries = append(one.Queries, strings.ReplaceAll(t.Expr, "$__rate_interval", rateInterval))
			}
			all = append(all, one)
		}
	}
	return all, nil
}
