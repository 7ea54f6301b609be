package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The test binary is the worker here. A link to it has the name that a release gives.
func TestAReleasedWorkerCallsItselfByItsName(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{releaseName, "worker"} {
		link := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(self, link); err != nil {
			t.Fatal(err)
		}
		run := func(args ...string) string {
			cmd := exec.Command(link, args...)
			cmd.Env = append(os.Environ(), "FAIRLEAD_TEST_WORKER=1")
			out, _ := cmd.CombinedOutput() // what it says counts here
			return string(out)
		}
		if got := run("version"); !strings.HasPrefix(got, name+" ") {
			t.Errorf("version as %s: %q", name, got)
		}
		if got := run("--help"); !strings.Contains(got, "usage: "+name+" [") {
			t.Errorf("help as %s: %q", name, got)
		}
		if got := run("nonsense"); !strings.HasPrefix(got, name+`: "nonsense" is not a command (`+name+" --help)") {
			t.Errorf("an error as %s: %q", name, got)
		}
	}
}
