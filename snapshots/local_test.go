package snapshots

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestALocalTreeIsWhatGitWouldTake(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		".gitignore": "*.log\n/build/\n!keep.log\nvendor\n# no\ndoc/*.txt\n", "a.log": "x", "keep.log": "x", "src/build/b.go": "x", "build/out": "x",
		"src/.gitignore": "!a.log\nlocal.*\n/only\n", "src/a.log": "x", "src/local.env": "x", "src/only": "x", "src/deep/only": "x", "vendor/m/v.go": "x",
		"doc/a.txt": "x", "doc/sub/a.txt": "x", "sp ace/ü.txt": "x", ".hidden/x": "x",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := ReadLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range tree.Entries {
		if e.Kind != Dir {
			got = append(got, e.Path)
		}
	}
	cmd := exec.Command("sh", "-c", "git init -q . && git ls-files -co --exclude-standard -z")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "XDG_CONFIG_HOME="+dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("it has %q, git %q", got, want)
	}
	again, err := ReadLocal(dir)
	if err != nil || again.Digest != tree.Digest {
		t.Errorf("read again it is another one: %s, %s, %v", again.Digest, tree.Digest, err)
	}
}

func TestATreeThatLeadsElsewhereIsRefused(t *testing.T) {
	for _, entries := range [][]Entry{
		{{Path: "../x", Kind: File}}, {{Path: "/x", Kind: File}}, {{Path: "a/b", Kind: File}}, {{Path: "a", Kind: Symlink, Link: "/etc"}, {Path: "a/passwd", Kind: File}},
		{{Path: "a", Kind: File}, {Path: "a", Kind: File}}, {{Path: "a", Kind: HardLink, Link: "/etc/passwd"}}, {{Path: "a", Kind: File, Mode: 0o4755}},
	} {
		if err := checkEntries(entries); err == nil {
			t.Errorf("%+v was taken", entries)
		}
	}
	if err := checkEntries([]Entry{{Path: "a", Kind: Dir, MTime: time.Now()}, {Path: "a/b", Kind: File}, {Path: "l", Kind: Symlink, Link: "/etc"}}); err != nil {
		t.Error(err)
	}
}
