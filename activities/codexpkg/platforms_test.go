package codexpkg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func packageFor(t *testing.T, target string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), target)
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"bin/codex": "for " + target, "codex-package.json": fmt.Sprintf(`{"version":"0.169.0","target":%q}`, target),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestWhatUnameSaysChoosesThePackage(t *testing.T) {
	var dirs []string
	for _, target := range []string{"x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl", "aarch64-apple-darwin"} {
		dirs = append(dirs, packageFor(t, target))
	}
	s := NewCodexSource(dirs...)
	digests := map[string]bool{}
	for uname, target := range map[string]string{
		"Linux x86_64": "x86_64-unknown-linux-musl", "Linux amd64": "x86_64-unknown-linux-musl",
		"Linux aarch64": "aarch64-unknown-linux-musl", "Linux arm64": "aarch64-unknown-linux-musl", "Darwin arm64": "aarch64-apple-darwin",
	} {
		system, cpu, _ := strings.Cut(uname, " ")
		tree, err := s.Tree(t.Context(), system, cpu)
		if err != nil || tree.Target != target {
			t.Errorf("for %s: %+v, %v", uname, tree, err)
			continue
		}
		digests[tree.Digest] = true
	}
	if len(digests) != 3 {
		t.Errorf("three packages have %d digests", len(digests))
	}
	for _, uname := range []string{"Darwin x86_64", "Linux riscv64", "FreeBSD amd64"} {
		system, cpu, _ := strings.Cut(uname, " ")
		if tree, err := s.Tree(t.Context(), system, cpu); !errors.Is(err, ErrNoSource) {
			t.Errorf("for %s: %+v, %v", uname, tree, err)
		}
	}
}
