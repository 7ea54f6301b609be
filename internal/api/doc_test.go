package api

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The package's documentation lists every place that the server serves.
func TestEveryPlaceIsDocumented(t *testing.T) {
	handlers, err := os.ReadFile("handlers.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	routes := regexp.MustCompile(`HandleFunc\("([A-Z]+) (/[^"]+)"`).FindAllStringSubmatch(string(handlers), -1)
	if len(routes) < 20 {
		t.Fatalf("only %d routes were found", len(routes))
	}
	for _, r := range routes {
		listed := regexp.MustCompile(`(?m)^//\t` + r[1] + ` +` + regexp.QuoteMeta(r[2]) + `[ ?]`)
		if !listed.Match(doc) {
			t.Errorf("doc.go does not list %s", strings.TrimSpace(r[0]))
		}
	}
}
