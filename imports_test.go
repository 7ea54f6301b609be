package fairlead

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "fairlead.dev/fairlead/"

// leaves import nothing of ours.
var leaves = []string{"hostexec", "conversation", "internal/store", "internal/sshsig"}

// rules say who may import what, with the reason.
var rules = []struct {
	imported string   // an import path, or the beginning of one
	by       []string // folders that may
	why      string
}{
	{"go.temporal.io/", []string{"cmd", "workflows", "activities", "deploy", "internal/payload"}, "domain packages know nothing of Temporal"},
	{"golang.org/x/crypto/ssh", []string{"hostexec", "internal/sshsig"}, "SSH is hostexec's; internal/sshsig verifies signed decisions, and dials nobody"},
	{"github.com/pkg/sftp", []string{"hostexec"}, "SFTP is hostexec's"},
	{module + "workflows", []string{"cmd", "deploy"}, "workflows decide; nobody below knows them"},
	{module + "activities", []string{"workflows", "cmd", "internal/api", "deploy"}, "activities stand above the domain"},
	{module + "hostexec", []string{"activities", "seeds", "snapshots", "cmd/worker", "internal/api", "deploy"}, "ctl never dials a host; conversation is given a pipe"},
	{module + "conversation", []string{"activities", "cmd/worker", "internal/api", "deploy"}, "a conversation is held by an activity"},
	{"cel.dev/cel-go", []string{"internal/policy"}, "what a rule means is the policy's"},
	{module + "internal/policy", []string{"activities", "workflows", "cmd", "deploy"}, "who asks for a verdict gives the facts"},
	{module + "internal/sshsig", []string{"internal/policy", "workflows", "cmd", "deploy"}, "decisions are signed by ctl, and verified where they count"},
	{module + "internal/payload", []string{"cmd", "internal/stack", "deploy"}, "programs make the connections to Temporal; what runs on them knows nothing of keys"},
	{module + "internal/api", []string{"cmd", "internal/stack", "deploy"}, "only programs speak HTTP"},
}

// TestThePictureOfImportsHolds reads the files itself: `go list` in a test is
// answered from the test cache after a forbidden import was added.
func TestThePictureOfImportsHolds(t *testing.T) {
	seen := map[string]bool{}
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || path == "bin" || path == filepath.Join("deploy", "devserver")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		seen[dir] = true
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			check(t, path, dir, imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 40 {
		t.Fatalf("only %d files were read: this test looks in the wrong place", files)
	}
	for _, leaf := range leaves {
		if !seen[leaf] {
			t.Errorf("%s is named here and does not exist: the rule has rotted", leaf)
		}
	}
}

func check(t *testing.T, path, dir, imported string) {
	for _, leaf := range leaves {
		if dir == leaf && strings.HasPrefix(imported, module) {
			t.Errorf("%s imports %s: %s is a leaf and imports nothing of ours", path, imported, leaf)
		}
	}
	for _, r := range rules {
		if !within(imported, r.imported) || within(module+dir, r.imported) {
			continue
		}
		allowed := false
		for _, by := range r.by {
			allowed = allowed || within(dir, by)
		}
		if !allowed {
			t.Errorf("%s imports %s: %s (only %s may)", path, imported, r.why, strings.Join(r.by, ", "))
		}
	}
}

// within says whether path is root or lies below it.
func within(path, root string) bool {
	root = strings.TrimSuffix(root, "/")
	return path == root || strings.HasPrefix(path, root+"/")
}

// TestTheTopLevelIsAsDrawn keeps folders from growing like weeds.
func TestTheTopLevelIsAsDrawn(t *testing.T) {
	want := map[string]bool{"cmd": true, "workflows": true, "activities": true, "hostexec": true, "seeds": true,
		"snapshots": true, "conversation": true, "deploy": true, "internal": true, "bin": true}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	have := 0
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		have++
		if !want[e.Name()] {
			t.Errorf("folder %s is not in the picture", e.Name())
		}
	}
	if have < 8 {
		t.Errorf("only %d folders at the top level", have)
	}
}
