package api

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The package's documentation lists every place that the server serves.
func TestEveryPlaceIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		method, path, ok := strings.Cut(r.pattern, " ")
		if !ok { // the place of what is not there
			continue
		}
		listed := regexp.MustCompile(`(?m)^//\t` + method + ` +` + regexp.QuoteMeta(path) + `[ ?]`)
		if !listed.Match(doc) {
			t.Errorf("doc.go does not list %s", r.pattern)
		}
	}
}
