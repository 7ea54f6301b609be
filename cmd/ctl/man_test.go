package main

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

// A line that begins with a dot or a quote would be a request to the formatter, and a
// backslash begins an escape.
func TestAManualPageShowsTextAsItIs(t *testing.T) {
	for text, want := range map[string]string{
		"plain":            "plain",
		".SH NAME":         `\&.SH NAME`,
		"a\n'b":            "a\n\\&'b",
		`C:\x --flag`:      `C:\ex \-\-flag`,
		"ends with a dot.": "ends with a dot.",
	} {
		if got := roff(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestEveryCommandHasAManualPage(t *testing.T) {
	root := newRoot(&core.App{Name: core.ReleaseName})
	pages := manPages(root, "v9")
	for _, c := range leaves(root) {
		page := string(pages[manName(c)+".1"])
		if !strings.Contains(page, "\n.SH SYNOPSIS\n"+roff(usedAs(c))) || !strings.Contains(page, `"Fairlead v9"`) {
			t.Errorf("%s has no manual page that shows its use:\n%.400s", c.CommandPath(), page)
		}
	}
	if len(pages) < 50 {
		t.Errorf("only %d pages", len(pages))
	}
}
