package conversation

import (
	"slices"
	"strings"
	"testing"
)

func TestATurnsDiffTellsWhichWatchedFilesItTouches(t *testing.T) {
	diff := "diff --git a/docs/how/a.md b/docs/how/a.md\n--- a/docs/how/a.md\n+++ b/docs/how/a.md\n@@ -1 +1 @@\n-x\n+diff --git a/main.go b/main.go\n" +
		"diff --git a/old name b/x.sql b/new/y.sql\nrename from old name b/x.sql\nrename to new/y.sql\n"
	for pattern, want := range map[string]bool{
		"*.md": true, "docs/**": true, "docs/*.md": false, "docs/*/*.md": true, "/docs/**/*.md": true,
		"*.go": false, "main.go": false, // only in the text of a file
		"new/*.sql": true, "x.sql": true, "a.m?": true, "[": false,
	} {
		got := touched(diff, "/srv/work", []WatchedFiles{{Name: "other", Patterns: []string{"none"}}, {Name: "w", Patterns: []string{"none", pattern}}})
		if slices.Contains(got, "w") != want || slices.Contains(got, "other") {
			t.Errorf("%q: %q", pattern, got)
		}
	}
}

// codex names files from the folder of the repository, which may be above the work folder, and by
// absolute paths where there is no repository.
func TestPatternsOfWatchedFilesAreSeenFromTheWorkFolder(t *testing.T) {
	for _, path := range []string{"migrations/1.sql", "work/migrations/1.sql", "srv/work/migrations/1.sql", "/srv/work/migrations/1.sql"} {
		diff := "diff --git a/" + path + " b/" + path + "\n"
		for pattern, want := range map[string]bool{"migrations/**": true, "*.sql": true, "other/**": false, "1.sql/**": false} {
			if got := touched(diff, "/srv/work", []WatchedFiles{{Name: "w", Patterns: []string{pattern}}}); (len(got) == 1) != want {
				t.Errorf("%s, %q: %q", path, pattern, got)
			}
		}
	}
	elsewhere := "diff --git a//srv/other/migrations/1.sql b//srv/other/migrations/1.sql\n"
	if got := touched(elsewhere, "/srv/work", []WatchedFiles{{Name: "w", Patterns: []string{"migrations/**"}}}); got != nil {
		t.Errorf("a file of another folder: %q", got)
	}
}

func TestADiffLineOfAHostIsBounded(t *testing.T) {
	if got := pathsOf("a/" + strings.Repeat(" b/", 1<<20)); got != nil {
		t.Errorf("%d paths of a line of 3 MiB", len(got))
	}
	if got := pathsOf("a/" + strings.Repeat(" b/", 1000)); len(got) != 2*maxDiffCuts {
		t.Errorf("%d paths", len(got))
	}
	if got := pathsOf("a b/"); got != nil {
		t.Errorf("%q", got)
	}
}
