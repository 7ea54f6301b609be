package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed rest.txt
var restText string

//go:embed rigs.txt
var rigsText string

// lists are the lists of tests by name: the target of the Makefile that runs them.
func lists() (map[string][]longTest, error) {
	rest, err := parse("rest.txt", restText)
	if err != nil {
		return nil, err
	}
	rigs, err := parse("rigs.txt", rigsText)
	return map[string][]longTest{"rest": rest, "rigs": rigs}, err
}

// A longTest is a line of a list: a package, relative to the repository, and a test of it,
// perhaps with the name of a subtest after a slash.
type longTest struct {
	Package, Name string
}

var lineRule = regexp.MustCompile(`^([a-z0-9/]+) (Test\w+(?:/[^/\s]+)?)$`)

// parse reads a list: empty lines and lines that begin with # say nothing.
func parse(file, text string) ([]longTest, error) {
	var all []longTest
	seen := map[longTest]bool{}
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := lineRule.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("%s:%d: want a package and a test, not %q", file, i+1, line)
		}
		t := longTest{m[1], m[2]}
		if seen[t] {
			return nil, fmt.Errorf("%s:%d: %s is there twice", file, i+1, t.Name)
		}
		seen[t] = true
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s names no test: the pattern for -skip would mean all tests", file)
	}
	return all, nil
}

// pattern returns what -run or -skip takes to mean these tests and no other ones.
func pattern(tests []longTest) string {
	var parts []string
	for _, t := range tests {
		var names []string
		for name := range strings.SplitSeq(t.Name, "/") {
			names = append(names, "^"+regexp.QuoteMeta(name)+"$")
		}
		parts = append(parts, strings.Join(names, "/"))
	}
	return strings.Join(parts, "|")
}
