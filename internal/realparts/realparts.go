// Package realparts finds the programs that tests run against: codex, from `make tools` and
// `make versions`, and the Temporal server, from `make build`.
//
// If a program is missing, the test fails and names the command that provides it. Under
// -short (`make check`), such tests are skipped.
package realparts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Root returns the folder of the repository, the nearest one upwards with a go.mod.
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

// Path returns an absolute path in the repository, which need not exist.
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

// CodexBinary returns the program of the pinned codex.
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

// CodexPlatform returns the folder of the pinned codex for another platform.
func CodexPlatform(t testing.TB, platform string) string {
	t.Helper()
	dir := Path(t, ".tools", "codex-platforms", platform)
	how := "make versions"
	if strings.HasPrefix(platform, "darwin-") {
		how = "make platforms PLATFORMS=" + platform
	}
	need(t, filepath.Join(dir, "bin", "codex"), how)
	return dir
}

// Promtool returns Prometheus's program that checks and tries rules.
func Promtool(t testing.TB) string {
	t.Helper()
	name := Path(t, ".tools", "prometheus", "promtool")
	need(t, name, "make tools")
	return name
}

// DevServer returns the program of the Temporal server.
func DevServer(t testing.TB) string {
	t.Helper()
	name := Path(t, "bin", "devserver")
	need(t, name, "make build")
	return name
}

// Worker returns the path of the worker's program.
func Worker(t testing.TB) string {
	t.Helper()
	name := Path(t, "bin", "worker")
	need(t, name, "make build")
	return name
}

// NotShort skips a test of other real parts (sshd, a network namespace, a browser) under
// -short.
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
