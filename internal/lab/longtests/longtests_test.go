package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A test that was renamed would be skipped by nobody and run by nobody.
func TestEachTestOfTheListIsThere(t *testing.T) {
	all, err := parse(listText)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("the list is empty")
	}
	where := map[string]string{}
	for _, l := range all {
		files, err := filepath.Glob(filepath.Join("../../..", l.Package, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no tests: %v", l.Package, err)
			continue
		}
		name, _, _ := strings.Cut(l.Name, "/")
		found := false
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {")
		}
		if !found {
			t.Errorf("%s has no test %s", l.Package, name)
		}
		if p := where[name]; p != "" && p != l.Package {
			t.Errorf("%s is in %s and in %s: -skip cannot tell them apart", name, p, l.Package)
		}
		where[name] = l.Package
	}
}

func TestThePatternMeansTheNamedTestsAlone(t *testing.T) {
	all, err := parse("# what\n\na/b TestOne\na/b TestTwo/0.1_as_a_user\n")
	if err != nil {
		t.Fatal(err)
	}
	got := pattern(all)
	if want := `^TestOne$|^TestTwo$/^0\.1_as_a_user$`; got != want {
		t.Errorf("the pattern is %s, want %s", got, want)
	}
	if first, _, _ := strings.Cut(got, "|"); regexp.MustCompile(first).MatchString("TestOneMore") {
		t.Error("the pattern means a test with a longer name, too")
	}
}

func TestALineThatMeansNoTestIsAnError(t *testing.T) {
	for _, text := range []string{"TestOne\n", "a/b One\n", "a/b TestOne TestTwo\n", "a/b TestOne\na/b TestOne\n", "../a TestOne\n"} {
		if all, err := parse(text); err == nil {
			t.Errorf("%q is %v", text, all)
		}
	}
}

func TestATestThatDidNotRunHasNotPassed(t *testing.T) {
	var out strings.Builder
	passed, err := readEvents(strings.NewReader(`{"Action":"run","Test":"TestOne"}
{"Action":"output","Test":"TestOne","Output":"said\n"}
{"Action":"pass","Test":"TestOne"}
{"Action":"skip","Test":"TestTwo"}
{"Action":"fail","Test":"TestThree"}
not JSON
`), &out)
	if err != nil || !passed["TestOne"] || passed["TestTwo"] || passed["TestThree"] {
		t.Errorf("passed are %v, %v", passed, err)
	}
	if out.String() != "said\nnot JSON\n" {
		t.Errorf("printed was %q", out.String())
	}
}

// Each promise that a page states has a test that make test runs.
func TestEachPromiseHasATestThatIsNotLong(t *testing.T) {
	all, err := parse(listText)
	if err != nil {
		t.Fatal(err)
	}
	long := map[string]bool{}
	for _, l := range all {
		long[l.Name] = true
	}
	name := regexp.MustCompile(`\bTest[A-Z]\w+`)
	rows := 0
	for _, page := range []string{"explanation/guarantees.md", "explanation/threat-model.md", "reference/behaviours.md"} {
		text, err := os.ReadFile(filepath.Join("../../../docs", page))
		if err != nil {
			t.Fatal(err)
		}
		for row := range strings.Lines(string(text)) {
			tests := name.FindAllString(row, -1)
			if len(tests) == 0 {
				continue
			}
			rows++
			if !slices.ContainsFunc(tests, func(test string) bool { return !long[test] }) {
				t.Errorf("%s: make test runs none of the tests of %.150q", page, row)
			}
		}
	}
	if rows < 100 {
		t.Errorf("the pages have %d rows with tests", rows)
	}
}
