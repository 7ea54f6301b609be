package snapshots

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

// gitEnviron isolates git from the machine's configuration.
func gitEnviron(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org"}
}

const gitToken = "token-0123456789-abcdef"

func thisHost(t *testing.T) hostexec.Host {
	t.Helper()
	realparts.NotShort(t)
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	h, err := pool.Host(protocol.HostSpec{Name: protocol.LocalHost})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

type gitDir struct {
	t   *testing.T
	dir string
}

func (g gitDir) try(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = g.dir
	cmd.Env = gitEnviron(filepath.Dir(g.dir))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (g gitDir) git(args ...string) string {
	g.t.Helper()
	out, err := g.try(args...)
	if err != nil {
		g.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return out
}

func (g gitDir) write(name, text string) {
	g.t.Helper()
	name = filepath.Join(g.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		g.t.Fatal(err)
	}
}

func (g gitDir) commit(name, text string) string {
	g.t.Helper()
	g.write(name, text)
	g.git("add", "--", name)
	g.git("commit", "-q", "-m", "about "+name)
	return strings.TrimSpace(g.git("rev-parse", "HEAD"))
}

// An upstream is a repository that git-daemon serves. The address is a loopback address
// that thisMachine does not know, so that it counts as a remote that other hosts can reach.
type upstream struct {
	gitDir
	url  string
	stop func()
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	realparts.NotShort(t)
	root := t.TempDir()
	seed := gitDir{t, filepath.Join(root, "seed")}
	if err := os.Mkdir(seed.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	seed.git("init", "-q", "-b", "main")
	seed.write("README", "hello\n")
	seed.write("run.sh", "#!/bin/sh\n")
	seed.write("src/a.c", "int a;\n")
	seed.write("src/b.c", "int b;\n")
	seed.write("src/deep/c.c", "int c;\n")
	seed.write("alone/only", "the only one\n")
	seed.write(".gitignore", "*.o\nbuild/\n")
	seed.write("name with\nnewline", "odd\n")
	seed.write("big", strings.Repeat("0123456789abcdef", 20000))
	if err := os.Chmod(filepath.Join(seed.dir, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("src/a.c", filepath.Join(seed.dir, "link")); err != nil {
		t.Fatal(err)
	}
	seed.git("add", "-A")
	seed.git("commit", "-q", "-m", "one")
	for i := range 5 {
		seed.commit("log", fmt.Sprintf("%d\n", i))
	}
	seed.git("tag", "-a", "-m", "one", "v1")
	seed.git("branch", "other")
	seed.git("clone", "-q", "--bare", seed.dir, filepath.Join(root, "up.git"))
	u := &upstream{gitDir: gitDir{t, filepath.Join(root, "up.git")}}
	u.url, u.stop = hosttest.ServeGit(t, root)
	u.url += "/up.git"
	return u
}

// A gitCase is a work folder with the folders through which its snapshot goes.
type gitCase struct {
	gitDir
	root string
	host hostexec.Host
}

func (u *upstream) clone(args ...string) *gitCase {
	u.t.Helper()
	root := u.t.TempDir()
	c := &gitCase{gitDir: gitDir{u.t, filepath.Join(root, "w 'ü\" 1", "work")}, root: root, host: thisHost(u.t)}
	if err := os.MkdirAll(filepath.Dir(c.dir), 0o755); err != nil {
		u.t.Fatal(err)
	}
	gitDir{u.t, root}.git(append(append([]string{"clone", "-q"}, args...), u.url, c.dir)...)
	c.git("config", "user.name", "A")
	c.git("config", "user.email", "a@example.org")
	return c
}

func (c *gitCase) plan() gitPlan {
	c.t.Helper()
	p, err := planGit(c.t.Context(), c.host, c.dir, filepath.Join(c.root, "scratch"))
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

// elsewhere copies the files that a snapshot would have to other folders and builds the
// repository there.
func (c *gitCase) elsewhere(p gitPlan) (*gitCase, []string, error) {
	c.t.Helper()
	if p.Why != "" {
		c.t.Fatalf("it is kept in full: %s", p.Why)
	}
	root := c.t.TempDir()
	there := &gitCase{gitDir: gitDir{c.t, filepath.Join(root, "there")}, root: root, host: c.host}
	carry(c.t, filepath.Join(c.root, "scratch"), filepath.Join(root, "git"), p.Kept)
	carry(c.t, c.dir, filepath.Join(root, "overlay"), p.Only)
	dir, differs, err := rebuildGit(c.t.Context(), c.host, gitRebuild{Parts: filepath.Join(root, "git"), Overlay: filepath.Join(root, "overlay"), Root: root, State: p.made.state})
	there.dir = dir
	return there, differs, err
}

func carry(t *testing.T, from, to string, names []string) {
	t.Helper()
	if err := os.Mkdir(to, 0o755); err != nil {
		t.Fatal(err)
	}
	pack := exec.Command("tar", "cf", "-", "--null", "-T", "-")
	pack.Dir, pack.Stdin = from, strings.NewReader(strings.Join(names, "\x00"))
	content, err := pack.Output()
	if err != nil {
		t.Fatal(err)
	}
	unpack := exec.Command("tar", "xpf", "-")
	unpack.Dir, unpack.Stdin = to, bytes.NewReader(content)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// state returns everything that a user sees of a repository and its work tree.
func (c *gitCase) state() string {
	c.t.Helper()
	var b strings.Builder
	for _, args := range [][]string{
		{"status", "--porcelain=v2", "--branch", "--show-stash", "-z", "-uall"}, {"for-each-ref"}, {"stash", "list"}, {"stash", "show", "-p", "--include-untracked"},
		{"ls-files", "--stage", "-z"}, {"ls-files", "-v", "-z"}, {"diff"}, {"diff", "--cached"}, {"log", "--all", "--format=%H %s", "-20"}, {"config", "--get-regexp", "^(branch|remote|user)[.]"}, {"symbolic-ref", "-q", "HEAD"},
	} {
		out, err := c.try(args...)
		fmt.Fprintf(&b, "%q: %v\n%s\n", args, err, out)
	}
	err := filepath.WalkDir(c.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(c.dir, name) // name lies below c.dir
		if rel == ".git" {
			return fs.SkipDir
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		what := ""
		switch {
		case d.Type() == fs.ModeSymlink:
			what, err = os.Readlink(name)
		case d.Type().IsRegular():
			var text []byte
			text, err = os.ReadFile(name)
			sum := sha256.Sum256(text)
			what = hex.EncodeToString(sum[:8])
		}
		fmt.Fprintf(&b, "%q %v %s\n", rel, fi.Mode(), what)
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return b.String()
}

// sameElsewhere checks that the repository is the same elsewhere.
func (c *gitCase) sameElsewhere() (gitPlan, *gitCase) {
	c.t.Helper()
	before := c.state()
	p := c.plan()
	if now := c.state(); now != before {
		c.t.Errorf("looking at it has changed it:\n%s\nwas\n%s", now, before)
	}
	there, differs, err := c.elsewhere(p)
	if err != nil {
		c.t.Fatal(err)
	}
	if len(differs) > 0 {
		c.t.Errorf("it differs: %q", differs)
	}
	if now := there.state(); now != before {
		c.t.Errorf("elsewhere it is\n%s\nand was\n%s", now, before)
	}
	if out := there.git("fsck", "--full", "--no-dangling"); strings.Contains(out, "missing") || strings.Contains(out, "error") {
		c.t.Errorf("git fsck: %s", out)
	}
	return p, there
}

// sameIgnoring is sameElsewhere, but expects that a file that git ignores is missing.
func (c *gitCase) sameIgnoring(name string) (gitPlan, *gitCase) {
	c.t.Helper()
	p := c.plan()
	there, differs, err := c.elsewhere(p)
	if err != nil || len(differs) > 0 {
		c.t.Fatal(err, differs)
	}
	c.do(os.Remove(filepath.Join(c.dir, name)))
	if now, before := there.state(), c.state(); now != before {
		c.t.Errorf("elsewhere it is\n%s\nand was\n%s", now, before)
	}
	return p, there
}

func (c *gitCase) do(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}
