package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

// released are commands of pages that call the program as a release does. The other pages are
// run; these need a cluster.
var released = regexp.MustCompile(`(?m)^(?:[$] )?fairlead ([^|>&\n]+)`)

func TestPagesOnInstallationNameCommandsThatExist(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "how-to", "install-*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%v (%v)", pages, err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found := released.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 && !strings.Contains(string(text), "\n    bin/ctl ") { // those of a checkout are run by internal/lab/e2e/docs
			t.Errorf("%s has no commands", page)
		}
		for _, m := range found {
			line, _, _ := strings.Cut(m[1], "#")
			words := strings.Fields(line)
			c, rest, err := newRoot(&core.App{Name: core.ReleaseName}).Find(words)
			if err == nil {
				err = c.ParseFlags(rest)
			}
			if err == nil && c.Args != nil {
				err = c.ValidateArgs(c.Flags().Args())
			}
			if err != nil || c.HasSubCommands() {
				t.Errorf("%s: fairlead %s: %v", filepath.Base(page), line, err)
			}
		}
	}
}
