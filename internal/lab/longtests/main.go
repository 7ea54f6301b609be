package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
)

func main() {
	if err := do(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "longtests: %v\n", err)
		os.Exit(1)
	}
}

func do(args []string) error {
	all, err := lists()
	if err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "left" {
		tests, err := testsBelow(".")
		if err != nil {
			return err
		}
		for _, p := range left(args[1:], tests, append(all["rest"], all["rigs"]...)) {
			fmt.Println("./" + p)
		}
		return nil
	}
	if len(args) < 2 || len(args) > 3 || len(args) == 3 && args[0] != "run" {
		return errors.New("say pattern, packages or run, then rest or rigs, and for run perhaps a package; or left, and the packages that go first")
	}
	list := all[args[1]]
	if list == nil {
		return fmt.Errorf("the lists are rest and rigs, not %s", args[1])
	}
	switch args[0] {
	case "pattern":
		fmt.Println(pattern(list))
		return nil
	case "packages":
		for _, p := range packages(list) {
			fmt.Println("./" + p)
		}
		return nil
	case "run":
		if len(args) == 3 {
			list = slices.DeleteFunc(list, func(t longTest) bool { return t.Package != args[2] })
			if len(list) == 0 {
				return fmt.Errorf("%s.txt names no test of %s", args[1], args[2])
			}
		}
		return run(list)
	}
	return fmt.Errorf("say left, pattern, packages or run, not %s", args[0])
}

// packages returns the packages of tests, in the order of the list.
func packages(list []longTest) (out []string) {
	for _, t := range list {
		if !slices.Contains(out, t.Package) {
			out = append(out, t.Package)
		}
	}
	return out
}

// run runs the tests, one package after the other. A test that did not run is an error: a
// pattern that fits nothing is none for go test.
func run(all []longTest) error {
	of := map[string][]longTest{}
	for _, t := range all {
		of[t.Package] = append(of[t.Package], t)
	}
	var failed []error
	for _, p := range packages(all) {
		passed, err := goTest(p, pattern(of[p]))
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p, err))
		}
		for _, t := range of[p] {
			if !passed[t.Name] {
				failed = append(failed, fmt.Errorf("%s: %s did not pass", p, t.Name))
			}
		}
	}
	return errors.Join(failed...)
}

// goTest runs the tests of a package, prints what they print, and returns those that passed.
func goTest(pkg, pattern string) (map[string]bool, error) {
	cmd := exec.Command("go", "test", "-json", "-count=1", "-vet=off", "-timeout=90m", "-run", pattern, "./"+pkg)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	passed, err := readEvents(out, os.Stdout)
	return passed, errors.Join(err, cmd.Wait())
}

// readEvents prints the output in what go test -json writes, and returns the tests that passed.
func readEvents(r io.Reader, w io.Writer) (map[string]bool, error) {
	passed := map[string]bool{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(w, lines.Text())
			continue
		}
		switch e.Action {
		case "output":
			io.WriteString(w, e.Output)
		case "pass":
			passed[e.Test] = true
		}
	}
	return passed, lines.Err()
}
