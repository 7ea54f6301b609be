// Package realparts finds the real programs that tests run against: codex, as
// `make tools` and `make versions` install it, and the Temporal server that
// `make build` builds. A test may run in any folder of the repository.
//
// A test fails if a program is missing, and the failure names the command that
// provides it. Under -short, which `make check` uses, tests that need a program are
// skipped. `make test` never sets -short.
package realparts

import (
	"os"
	"path/filepath"
	"testing"
)

// Root returns the folder of the repository: the nearest one, from the current
// folder upwards, that has a go.mod.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for from := dir; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("no go.mod in %s or above it", from)
		}
	}
}

// Path returns an absolute path in the repository. It does not check that the path
// exists.
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	return filepath.Join(append([]string{Root(t)}, elem...)...)
}

// Codex returns the folder of the pinned codex; its program is bin/codex.
func Codex(t testing.TB) string {
	t.Helper()
	dir := Path(t, ".tools", "codex")
	need(t, filepath.Join(dir, "bin", "codex"), "make tools")
	return dir
}

// CodexBinary returns the path of the pinned codex's program.
func CodexBinary(t testing.TB) string {
	t.Helper()
	return filepath.Join(Codex(t), "bin", "codex")
}

// CodexVersion returns the folder of an older codex.
func CodexVersion(t testing.TB, version string) string {
	t.Helper()
	dir := Path(t, ".tools", "codex-versions", version)
	need(t, filepath.Join(dir, "bin", "codex"), "make versions")
	return dir
}

// DevServer returns the path of the Temporal server's program.
func DevServer(t testing.TB) string {
	t.Helper()
	name := Path(t, "bin", "devserver")
	need(t, name, "make build")
	return name
}

// NotShort skips the test under -short. It is for tests of real parts that this
// package does not find: sshd, a network namespace, a browser.
func NotShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs real parts, which make check does without")
	}
}

func need(t testing.TB, name, command string) {
	t.Helper()
	NotShort(t)
	if _, err := os.Stat(name); err != nil {
		t.Fatalf("no real part to test with: %v (run `%s`)", err, command)
	}
}
