package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The test binary is also ctl, under both of its names. The scripts in testdata run it as a user would.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"ctl":      main,
		"fairlead": main, // as a release installs it
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "testdata",
		Setup: alone,
		Cmds:  map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// alone gives a script its own home, so that a user's config, profile or stack does not
// affect it.
func alone(env *testscript.Env) error {
	home := filepath.Join(env.WorkDir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	env.Setenv("HOME", home)
	env.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
	env.Setenv("XDG_RUNTIME_DIR", "")
	env.Setenv("FAIRLEAD_STATE", "")
	return nil
}

// exits runs a command that must end with this status, as in "exits 2 ctl nonsense".
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits status program [args...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		e, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("run %s: %v", args[1], err)
		}
		got = strconv.Itoa(e.ExitCode())
	}
	if got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}
