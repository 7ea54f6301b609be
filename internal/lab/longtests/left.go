package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var testRule = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)

// testsBelow returns the names of the tests below a folder, by the package that has them.
func testsBelow(root string) (map[string][]string, error) {
	of := map[string][]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || isModule(file)):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		for _, m := range testRule.FindAllSubmatch(text, -1) {
			if string(m[1]) != "TestMain" {
				of[dir] = append(of[dir], string(m[1]))
			}
		}
		return err
	})
	if err == nil && len(of) == 0 {
		err = fmt.Errorf("no test was found below %s: run this in the repository", root)
	}
	return of, err
}

// isModule says whether a folder is a module of its own.
func isModule(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// left returns the packages that have a test which no list names, those of first before the
// others. To run the tests of another package would start what its tests need, and run none.
func left(first []string, tests map[string][]string, listed []longTest) (out []string) {
	has := func(dir string) bool {
		return slices.ContainsFunc(tests[dir], func(name string) bool { return !slices.Contains(listed, longTest{dir, name}) })
	}
	var dirs []string
	for _, p := range first {
		dirs = append(dirs, strings.TrimPrefix(p, "./"))
	}
	for _, dir := range append(dirs, slices.Sorted(maps.Keys(tests))...) {
		if has(dir) && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}
