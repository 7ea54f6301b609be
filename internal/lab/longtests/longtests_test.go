package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// both returns the tests of both lists, each of which is in one of them alone.
func both(t *testing.T) []longTest {
	t.Helper()
	all, err := lists()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all["rigs"] {
		if slices.ContainsFunc(all["rest"], func(r longTest) bool { return r.Name == l.Name }) {
			t.Errorf("%s is in both lists", l.Name)
		}
	}
	return append(all["rest"], all["rigs"]...)
}

// -skip does not know of packages, so a listed name must be that of one test alone.
func TestEachTestOfTheListsIsThere(t *testing.T) {
	all := both(t)
	tests, err := testsBelow(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	where := map[string][]string{} // packages by the name of a test
	for dir, names := range tests {
		for _, name := range names {
			where[name] = append(where[name], dir)
		}
	}
	for _, l := range all {
		name, _, _ := strings.Cut(l.Name, "/")
		if got := where[name]; !slices.Equal(got, []string{l.Package}) {
			t.Errorf("%s is a test of %q, want of %s alone", name, got, l.Package)
		}
	}
}

func TestAPackageWhoseTestsAreAllListedIsNotLeft(t *testing.T) {
	tests := map[string][]string{"a": {"TestOne", "TestTwo"}, "b": {"TestThree"}, "c": {"TestFour"}, "d": {"TestFive"}, ".": {"TestSix"}}
	listed := []longTest{{"a", "TestOne"}, {"b", "TestThree"}, {"c", "TestFour/sub"}}
	got := left([]string{"./d", "./b", "./c"}, tests, listed)
	if want := []string{"d", "c", ".", "a"}; !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
}

func TestThePatternMeansTheNamedTestsAlone(t *testing.T) {
	all, err := parse("list", "# what\n\na/b TestOne\na/b TestTwo/0.1_as_a_user\n")
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
	for _, text := range []string{"", "# TestOne\n", "TestOne\n", "a/b One\n", "a/b TestOne TestTwo\n", "a/b TestOne\na/b TestOne\n", "../a TestOne\n"} {
		if all, err := parse("list", text); err == nil {
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
	all := both(t)
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
