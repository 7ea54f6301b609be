package workspaces

import "testing"

// A host or a model that chooses the name of a file could plant a git hook or a
// configuration where the file is fetched to.
func TestAFetchedFileHasTheNameThatWasAskedFor(t *testing.T) {
	for _, c := range []struct{ asked, listed, name string }{
		{"report.md", "./report.md", "report.md"},
		{"./a/../report.md", "./report.md", "report.md"},
		{"src", "./src/a/b.go", "src/a/b.go"},
		{"src/", "./src/a", "src/a"},
		{".", "./.envrc", ".envrc"},
		{"/srv/work/report.md", "/srv/work/report.md", "report.md"},
		{"/srv/work/src", "/srv/work/src/a/b.go", "src/a/b.go"},
		{"report.md", "./.envrc", ""},
		{"report.md", "./report.md/../.envrc", ""},
		{"src", "./srcs/a", ""},
		{"src", "./src/../../a", ""},
		{"src", "/src/a", ""},
		{".", "/etc/passwd", ""},
		{".", "../a", ""},
		{"/srv/work/src", "/srv/work/other", ""},
		{"/srv/work/src", "./src/a", ""},
		{"/", "/etc/passwd", ""},
	} {
		name, ok := fetchedName([]string{"other", c.asked}, c.listed)
		if name != c.name || ok != (c.name != "") {
			t.Errorf("asked for %s, the host listed %s: it is given as %q", c.asked, c.listed, name)
		}
		if ok && !Covers(c.asked, name) {
			t.Errorf("asked for %s: %s is not covered", c.asked, name)
		}
	}
	for _, name := range []string{"", ".", "..", "../a", "/a", "a/../b", "a//b", "./a"} {
		if Covers(".", name) {
			t.Errorf("%q is covered", name)
		}
	}
}
