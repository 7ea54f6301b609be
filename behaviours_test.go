package fairlead

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/reference/behaviours.md says which tests show how a conversation behaves. What it
// names has to be there.

var (
	shownBy  = regexp.MustCompile("^`([a-z0-9/]+) (Test\\w+)(?:/([^`]+))?`$")
	isATest  = regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)
	rowsWant = 30 // fewer than there are: that the table is read at all
)

// tests are the test files of a package.
type tests struct {
	functions map[string]bool
	text      string
}

func testsIn(t *testing.T, dir string) tests {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := tests{functions: map[string]bool{}}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.text += string(text)
		for _, m := range isATest.FindAllStringSubmatch(string(text), -1) {
			all.functions[m[1]] = true
		}
	}
	return all
}

// behaviourRows are the rows of the tables, heads and lines left out.
func behaviourRows(text string) (rows [][2]string) {
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 4 || cells[0] != "" || cells[3] != "" {
			continue
		}
		name, by := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		if name == "behaviour" || name == "promise" || name == "possible before" || strings.Trim(name, "- ") == "" && strings.Trim(by, "- ") == "" {
			continue
		}
		rows = append(rows, [2]string{name, by})
	}
	return rows
}

// notShown says what is wrong with a row.
func notShown(row [2]string, in func(dir string) tests) (wrong []string) {
	if row[0] == "" {
		wrong = append(wrong, "it has no name")
	}
	for _, one := range strings.Split(row[1], "; ") {
		m := shownBy.FindStringSubmatch(one)
		if m == nil {
			wrong = append(wrong, "no test is named by "+one)
			continue
		}
		switch have := in(m[1]); {
		case !have.functions[m[2]]:
			wrong = append(wrong, "there is no "+m[2]+" in "+m[1])
		case m[3] != "" && !strings.Contains(have.text, `"`+m[3]+`"`):
			wrong = append(wrong, m[2]+" has no "+m[3])
		}
	}
	return wrong
}

func TestEveryBehaviourIsShownByATest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("docs", "reference", "behaviours.md"))
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]tests{}
	in := func(dir string) tests {
		if _, ok := read[dir]; !ok {
			read[dir] = testsIn(t, dir)
		}
		return read[dir]
	}
	rows := behaviourRows(string(text))
	if len(rows) < rowsWant {
		t.Fatalf("the tables have %d rows", len(rows))
	}
	lines := strings.Count(string(text), "\n|")
	if heads := 2 * strings.Count(string(text), "\n| behaviour |"); len(rows) != lines-heads {
		t.Errorf("of %d lines %d are rows", lines-heads, len(rows))
	}
	seen := map[string]bool{}
	for _, row := range rows {
		if seen[row[0]] {
			t.Errorf("%s: twice", row[0])
		}
		seen[row[0]] = true
		for _, wrong := range notShown(row, in) {
			t.Errorf("%s: %s", row[0], wrong)
		}
	}
}

var promisePattern = regexp.MustCompile(`(?m)^- \*\*([^*]+?)\.?\*\*`)

// TestEveryGuaranteeIsShownByATest checks that each promise of docs/explanation/guarantees.md
// has a row that names tests, in the same order, and that these tests exist.
func TestEveryGuaranteeIsShownByATest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("docs", "explanation", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	part, _, found := strings.Cut(string(text), "## What survives")
	if !found {
		t.Fatal("the part that states the promises is not where it was")
	}
	var promises, shown []string
	for _, m := range promisePattern.FindAllStringSubmatch(part, -1) {
		promises = append(promises, m[1])
	}
	for _, row := range behaviourRows(part) {
		shown = append(shown, row[0])
		for _, wrong := range notShown(row, func(dir string) tests { return testsIn(t, dir) }) {
			t.Errorf("%s: %s", row[0], wrong)
		}
	}
	if len(promises) < 12 || !slices.Equal(promises, shown) {
		t.Errorf("promises are %q, shown are %q", promises, shown)
	}
}

// TestEveryPromiseAboutAttackersIsShownByATest checks that the tests exist that
// docs/explanation/threat-model.md names.
func TestEveryPromiseAboutAttackersIsShownByATest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("docs", "explanation", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "## The tests that show it")
	part, _, _ = strings.Cut(part, "\n## ")
	rows := behaviourRows(part)
	for _, row := range rows {
		for _, wrong := range notShown(row, func(dir string) tests { return testsIn(t, dir) }) {
			t.Errorf("%s: %s", row[0], wrong)
		}
	}
	if len(rows) < 18 {
		t.Errorf("only %d promises have a row", len(rows))
	}
}

// TestEverythingThatWasOpenIsTested checks that each way in that docs/explanation/threat-model.md
// says was closed has tests, and that these exist.
func TestEverythingThatWasOpenIsTested(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("docs", "explanation", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "## What was open, and how it is tested")
	part, _, _ = strings.Cut(part, "\n## ")
	rows := behaviourRows(part)
	seen := map[string]bool{}
	for _, row := range rows {
		if seen[row[0]] {
			t.Errorf("%s: twice", row[0])
		}
		seen[row[0]] = true
		for _, wrong := range notShown(row, func(dir string) tests { return testsIn(t, dir) }) {
			t.Errorf("%s: %s", row[0], wrong)
		}
	}
	if lines := strings.Count(part, "\n|") - 2; len(rows) < 27 || len(rows) != lines {
		t.Errorf("of %d lines %d are rows; nothing is taken out of the list", lines, len(rows))
	}
}

func TestABehaviourThatNoTestShowsIsNoticed(t *testing.T) {
	in := func(dir string) tests {
		return tests{functions: map[string]bool{"TestA": dir == "a/b"}, text: `"a row"`}
	}
	for by, want := range map[string]int{
		"`a/b TestA`": 0, "`a/b TestA/a row`": 0, "`a/b TestA`; `a/b TestA/a row`": 0,
		"": 1, "`a/b TestB`": 1, "`c TestA`": 1, "`a/b TestA/another row`": 1, "TestA": 1, "`a/b TestA`, `a/b TestA`": 1, "`a/b TestA`; ": 1,
	} {
		if got := notShown([2]string{"x", by}, in); len(got) != want {
			t.Errorf("%q: %q", by, got)
		}
	}
	if got := notShown([2]string{"", "`a/b TestA`"}, in); len(got) != 1 {
		t.Errorf("without a name: %q", got)
	}
	if got := behaviourRows("| behaviour | shown by |\n| --- | --- |\n| x |  |\n|  | `a TestB` |\ntext\n"); len(got) != 2 {
		t.Errorf("rows %q", got)
	}
}
