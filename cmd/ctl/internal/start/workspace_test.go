package start

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/workflows/session"
)

// workspaceOf parses flags and returns the session options that they give.
func workspaceOf(t *testing.T, dir string, args ...string) (session.Options, *WorkspaceFlags, error) {
	t.Helper()
	f := &WorkspaceFlags{}
	c := &cobra.Command{}
	f.add(c)
	if err := c.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	opt := session.Options{Dir: dir}
	return opt, f, f.set(&opt)
}

func TestAWorkspaceThatCannotBeIsRefusedBeforeAnythingStarts(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	token := file("token", "tok-canary-1\n")
	for what, c := range map[string]struct {
		args []string
		dir  string
		says string
	}{
		"a password in the URL":  {args: []string{"--repo", "https://me:tok-canary-1@example.com/a.git"}, says: "password"},
		"a token as the user":    {args: []string{"--repo", "https://tok-canary-1@example.com/a.git"}, says: "leave it out"},
		"an option for a URL":    {args: []string{"--repo", "--upload-pack=evil"}, says: "dash"},
		"a program for a URL":    {args: []string{"--repo", "ext::sh -c evil"}, says: "space"},
		"a helper for a URL":     {args: []string{"--repo", "ext::evil"}, says: "neither a URL"},
		"an option for a ref":    {args: []string{"--repo", "https://example.com/a.git", "--ref", "--evil"}, says: "no name of a branch"},
		"a ref that leads up":    {args: []string{"--repo", "https://example.com/a.git", "--ref", "a..b"}, says: "no name of a branch"},
		"a ref of nothing":       {args: []string{"--ref", "main"}, says: "go with --repo"},
		"two to begin with":      {args: []string{"--repo", "https://example.com/a.git", "--from-snapshot", "s.snap-x"}, says: "give one of them"},
		"a folder and a clone":   {args: []string{"--repo", "https://example.com/a.git"}, dir: "/srv/app", says: "give one of them"},
		"a token in clear":       {args: []string{"--repo", "http://example.com/a.git", "--git-token-file", token}, says: "https"},
		"a token of two lines":   {args: []string{"--repo", "https://example.com/a.git", "--git-token-file", file("two", "a\nb\n")}, says: "not a valid token"},
		"a token that is gone":   {args: []string{"--repo", "https://example.com/a.git", "--git-token-file", filepath.Join(dir, "gone")}, says: "no such file"},
		"an unknown hook":        {args: []string{"--hooks", file("h1", "after_all: x\nbefor_run: y\n")}, says: "befor_run"},
		"hooks without a hook":   {args: []string{"--hooks", file("h2", "timeout: 3s\n")}, says: "no hook"},
		"a timeout that is none": {args: []string{"--hooks", file("h3", "after_run: x\ntimeout: soon\n")}, says: "is not a duration"},
		"an upload of a file":    {args: []string{"--upload", token}, says: "is not a folder"},
		"an upload of nothing":   {args: []string{"--upload", filepath.Join(dir, "gone")}, says: "no such folder"},
		"a folder that is kept":  {args: []string{"--keep-work"}, dir: "/srv/app", says: "never removed"},
	} {
		_, _, err := workspaceOf(t, c.dir, c.args...)
		if core.ExitCode(err) != core.ExitUsage || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "tok-canary-1") {
			t.Errorf("%s: exit %d, %v", what, core.ExitCode(err), err)
		}
	}
	for _, url := range []string{"https://example.com/a.git", "git@example.com:team/a.git", "ssh://git@example.com:2222/a.git", "/srv/git/a.git", "file:///srv/git/a.git", "git@[::1]:a.git"} {
		if _, _, err := workspaceOf(t, "", "--repo", url, "--depth", "3", "--ref", "feature/x-1"); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestATokenIsNoPartOfWhatASessionIsStartedWith(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("tok-canary-2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	opt, f, err := workspaceOf(t, "", "--repo", "https://example.com/a.git", "--git-token-file", token)
	if err != nil || f.token != "tok-canary-2" {
		t.Fatalf("%q, %v", f.token, err)
	}
	raw, err := json.Marshal(opt)
	if err != nil || strings.Contains(string(raw), "canary") || !strings.Contains(string(raw), "example.com") {
		t.Errorf("%s, %v", raw, err)
	}
}
