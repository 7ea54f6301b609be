package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestPolicyScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/policy",
		Setup: alone,
		Cmds:  map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

func TestAccessScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/access",
		Setup: alone,
		Cmds:  map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}
