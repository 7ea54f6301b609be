package snapshots

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
)

// gitEnviron keeps git's tests from whatever the machine is set up with.
func gitEnviron(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org"}
}

const gitToken = "token-0123456789-abcdef"

func thisHost(t *testing.T) hostexec.Host {
	t.Helper()
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	h, err := pool.Host(hostexec.Spec{Name: hostexec.Local})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A gitDir is a folder in which git is run.
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

// An upstream is a repository that git's own daemon serves. Its address is one
// of this machine's that does not say so: as a remote it counts as one that
// others can reach.
type upstream struct {
	gitDir
	url  string
	stop func()
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
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
	u.serve(root)
	return u
}

func (u *upstream) serve(root string) {
	t := u.t
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	// Not by git, which would only wait for it and die alone.
	programs := strings.TrimSpace(u.git("--exec-path"))
	cmd := exec.Command(filepath.Join(programs, "git-daemon"), "--listen=127.0.0.2", fmt.Sprintf("--port=%d", port), "--base-path="+root, "--export-all", "--reuseaddr", "--informative-errors", root)
	cmd.Env = gitEnviron(root)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	u.stop = func() {
		_ = cmd.Process.Kill() // it may be gone already
		_ = cmd.Wait()
	}
	t.Cleanup(func() { u.stop() })
	u.url = fmt.Sprintf("git://127.0.0.2:%d/up.git", port)
	deadline := time.Now().Add(time.Minute)
	for {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", port))
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A gitCase is a work folder, and what a snapshot of it would go through.
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

// elsewhere takes what a snapshot would hold to other folders and makes the
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
	dir, differs, err := rebuildGit(c.t.Context(), c.host, gitRebuild{Parts: filepath.Join(root, "git"), Overlay: filepath.Join(root, "overlay"), Root: root})
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

// state is all that a person sees of a repository and its work tree.
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
		rel, _ := filepath.Rel(c.dir, name) // it lies below
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

// sameElsewhere is the promise.
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

func TestGitTreeIsTheSameElsewhere(t *testing.T) {
	u := newUpstream(t)
	for name, change := range map[string]func(*gitCase){
		"untouched": func(*gitCase) {},
		"local commits, branches, tags, a note": func(c *gitCase) {
			c.commit("new.c", "int n;\n")
			c.git("checkout", "-q", "-b", "work/one")
			c.commit("src/a.c", "int a2;\n")
			c.git("tag", "light")
			c.git("tag", "-a", "-m", "heavy", "heavy")
			c.git("notes", "add", "-m", "noted")
			c.git("branch", "--track", "tracking", "origin/other")
		},
		"staged, changed, deleted, untracked, typed anew": func(c *gitCase) {
			c.write("src/a.c", "staged\n")
			c.git("add", "src/a.c")
			c.write("src/a.c", "and changed again\n")
			c.write("README", "only changed\n")
			c.write("staged new", "x\n")
			c.git("add", "staged new")
			c.git("rm", "-q", "--cached", "src/b.c")
			c.git("rm", "-q", "src/deep/c.c")
			c.do(os.Remove(filepath.Join(c.dir, "big")))
			c.do(os.Remove(filepath.Join(c.dir, "link")))
			c.write("link", "a file now\n")
			c.do(os.Remove(filepath.Join(c.dir, "log")))
			c.do(os.Symlink("nowhere", filepath.Join(c.dir, "log")))
			c.do(os.Chmod(filepath.Join(c.dir, "run.sh"), 0o644))
			c.do(os.RemoveAll(filepath.Join(c.dir, "alone")))
			c.write("alone", "a file where a folder was\n")
			c.do(os.Remove(filepath.Join(c.dir, ".gitignore")))
			c.write(".gitignore/in a folder", "a folder where a file was\n")
			c.write("added later", "y\n")
			c.git("add", "-N", "added later")
		},
		"names": func(c *gitCase) {
			for _, name := range []string{"a b", "new\nline", "quote'\"", "-dash", "tab\there", "\xff\xfe not UTF-8", "*", "back\\slash", "ü"} {
				c.write("untracked/"+name, "u "+name)
				c.write("tracked/"+name, "t "+name)
			}
			c.git("add", "tracked")
			c.git("commit", "-q", "-m", "names")
			for _, name := range []string{"new\nline", "-dash", "\xff\xfe not UTF-8", "*"} {
				c.do(os.Remove(filepath.Join(c.dir, "tracked", name)))
			}
			c.write("name with\nnewline", "changed")
			c.do(os.Mkdir(filepath.Join(c.dir, "empty\nfolder"), 0o755))
			c.do(os.MkdirAll(filepath.Join(c.dir, "empty/deep"), 0o755))
		},
		"detached, with stashes": func(c *gitCase) {
			c.write("README", "first stash\n")
			c.git("stash", "-q")
			c.write("untracked", "second stash\n")
			c.write("src/a.c", "second stash\n")
			c.git("stash", "push", "-q", "-u", "-m", "the second")
			c.git("checkout", "-q", "--detach", "HEAD~2")
			c.commit("detached", "nobody's\n")
		},
		"a merge with conflicts": func(c *gitCase) {
			c.git("checkout", "-q", "-b", "side", "HEAD~1")
			c.commit("README", "side\n")
			c.commit("src/a.c", "side\n")
			c.git("checkout", "-q", "main")
			c.commit("README", "main\n")
			c.git("rm", "-q", "src/a.c")
			c.git("commit", "-q", "-m", "gone")
			if out, err := c.try("merge", "side"); err == nil {
				c.t.Fatalf("it merged: %s", out)
			}
		},
		"a rebase under way": func(c *gitCase) {
			c.git("checkout", "-q", "-b", "side", "HEAD~1")
			c.commit("log", "side\n")
			c.commit("more", "side\n")
			if out, err := c.try("rebase", "main"); err == nil {
				c.t.Fatalf("it went through: %s", out)
			}
		},
		"a cherry-pick and a dirty hook": func(c *gitCase) {
			c.git("checkout", "-q", "-b", "side", "HEAD~1")
			pick := c.commit("log", "side\n")
			c.git("checkout", "-q", "main")
			if out, err := c.try("cherry-pick", pick); err == nil {
				c.t.Fatalf("it went through: %s", out)
			}
			c.write(".git/hooks/post-checkout", "#!/bin/sh\ntouch hooked\n")
			c.do(os.Chmod(filepath.Join(c.dir, ".git/hooks/post-checkout"), 0o755))
			c.write(".git/info/exclude", "secret*\n")
			c.write("secret", "excluded here only\n")
			c.do(os.Remove(filepath.Join(c.dir, "secret")))
		},
		"bits in the index": func(c *gitCase) {
			c.git("update-index", "--assume-unchanged", "README", "name with\nnewline", "log")
			c.write("README", "changed, and git looks away\n")
			c.write("name with\nnewline", "likewise\n")
			c.do(os.Remove(filepath.Join(c.dir, "log")))
			c.git("update-index", "--skip-worktree", "big", "run.sh")
			c.do(os.Remove(filepath.Join(c.dir, "run.sh")))
			c.git("update-index", "--split-index")
			c.write("src/a.c", "x\n")
			c.git("add", "src/a.c")
		},
		"a sparse checkout": func(c *gitCase) {
			c.git("sparse-checkout", "set", "src")
			c.write("src/a.c", "changed\n")
		},
		"CRLF": func(c *gitCase) {
			c.git("config", "core.autocrlf", "true")
			c.do(os.Remove(filepath.Join(c.dir, "src/b.c")))
			c.git("checkout", "-q", "src/b.c")
			c.git("rm", "-q", "-r", "--cached", ".")
			c.git("reset", "-q", "--hard")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := u.clone()
			c.t = t
			change(c)
			c.sameElsewhere()
		})
	}
}

func (c *gitCase) do(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func TestGitKeepsOnlyWhatUpstreamDoesNotHave(t *testing.T) {
	u := newUpstream(t)
	c := u.clone()
	c.commit("mine", "mine\n")
	c.write("README", "changed\n")
	c.write("x.o", "made by a compiler\n")
	c.write("untracked", "new\n")
	p, there := c.sameIgnoring("x.o")
	slices.Sort(p.Only)
	if want := []string{"README", "untracked"}; !slices.Equal(p.Only, want) {
		t.Errorf("kept of the work folder: %q, want %q", p.Only, want)
	}
	fi, err := os.Stat(filepath.Join(c.root, "scratch", p.Pack))
	if err != nil || fi.Size() > 3000 {
		t.Errorf("one small commit makes a pack of %d bytes (%v)", fi.Size(), err)
	}
	if _, err := os.Stat(filepath.Join(there.dir, "x.o")); !os.IsNotExist(err) {
		t.Errorf("what git ignores came along (%v)", err)
	}
	// The same again makes no other pack, and leaves the old one untouched.
	if again := c.plan(); again.Pack != p.Pack {
		t.Errorf("another pack: %s", again.Pack)
	}
	if now, err := os.Stat(filepath.Join(c.root, "scratch", p.Pack)); err != nil || !os.SameFile(fi, now) {
		t.Errorf("the pack was made anew (%v)", err)
	}
	left, err := filepath.Glob(filepath.Join(c.root, "scratch", "*"))
	if err != nil || len(left) != len(p.Kept) {
		t.Errorf("in the folder for it are %q (%v)", left, err)
	}
}

// sameIgnoring is sameElsewhere less a file that git ignores.
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

func TestShallowCloneAndGoneBranchGoOnElsewhere(t *testing.T) {
	u := newUpstream(t)
	c := u.clone("--depth=1", "--no-single-branch")
	c.commit("mine", "mine\n")
	if _, _, err := c.elsewhere(c.plan()); err != nil {
		t.Errorf("a shallow clone: %v", err)
	}
	// A branch that upstream has no more, on which nothing is built.
	c = u.clone()
	u.git("branch", "-D", "other")
	u.git("branch", "another")
	there, differs, err := c.elsewhere(c.plan())
	if err != nil || len(differs) != 0 {
		t.Fatalf("its commits are still in another branch: %q, %v", differs, err)
	}
	if there.state() != c.state() {
		t.Error("it is not the same elsewhere")
	}
}

func TestUpstreamThatLacksOrCannotBeAskedIsATypedFailure(t *testing.T) {
	u := newUpstream(t)
	c := u.clone()
	// Local work on a commit that upstream forgets.
	u.git("update-ref", "refs/heads/main", "refs/heads/main~1")
	c.commit("mine", "mine\n")
	p := c.plan()
	if _, _, err := c.elsewhere(p); err == nil {
		// The server may give a commit by its name as long as it has it.
		t.Log("upstream still gave the commit by its name")
	}
	u.git("update-ref", "-d", "refs/tags/v1")
	u.git("update-ref", "refs/heads/other", "refs/heads/main")
	u.git("reflog", "expire", "--expire=now", "--all")
	u.git("gc", "-q", "--prune=now")
	_, _, err := c.elsewhere(p)
	e, ok := errors.AsType[*UpstreamError](err)
	if !ok || e.Remote != "origin" || e.URL != u.url || !strings.Contains(err.Error(), "--snapshot full") {
		t.Errorf("upstream has forgotten the commit: %v", err)
	}
	u.stop()
	_, _, err = c.elsewhere(p)
	if e, ok := errors.AsType[*UpstreamError](err); !ok || e.Remote != "origin" || !strings.Contains(e.Why, "unable to connect") {
		t.Errorf("upstream is away: %v", err)
	}
}

func TestWhatGitCannotCoverIsKeptInFullAndSaid(t *testing.T) {
	u := newUpstream(t)
	for want, change := range map[string]func(*gitCase){
		"not the top": func(c *gitCase) { c.dir = filepath.Join(c.dir, "src") },
		"not the top of a git repository": func(c *gitCase) {
			c.do(os.RemoveAll(filepath.Join(c.dir, ".git")))
		},
		"no commit yet": func(c *gitCase) { c.git("checkout", "-q", "--orphan", "new") },
		"further work trees": func(c *gitCase) {
			c.git("worktree", "add", "-q", "../second")
		},
		"submodules": func(c *gitCase) {
			c.git("-c", "protocol.git.allow=always", "submodule", "--quiet", "add", u.url, "sub")
		},
		"no remote":        func(c *gitCase) { c.git("remote", "remove", "origin") },
		"could be reached": func(c *gitCase) { c.git("remote", "set-url", "origin", u.dir) },
		"be reached by":    func(c *gitCase) { c.git("remote", "set-url", "origin", "http://localhost/up.git") },
		"filter lfs": func(c *gitCase) {
			c.git("config", "filter.lfs.smudge", "touch "+c.root+"/ran")
			c.git("config", "filter.lfs.clean", "touch "+c.root+"/ran")
			c.write(".gitattributes", "big filter=lfs\n")
			c.git("add", ".gitattributes")
		},
		"another git repository": func(c *gitCase) {
			gitDir{c.t, c.dir}.git("init", "-q", "within")
		},
		"partial clone":       func(c *gitCase) { c.git("config", "extensions.partialclone", "origin") },
		"does not take it":    func(c *gitCase) { c.do(os.Remove(filepath.Join(c.dir, ".git", "HEAD"))) },
		"git fails in it":     func(c *gitCase) { c.write(".git/index", "no index") },
		"work tree elsewhere": func(c *gitCase) { c.git("config", "core.worktree", "/") },
	} {
		t.Run(want, func(t *testing.T) {
			c := u.clone()
			c.t = t
			change(c)
			_ = os.Remove(filepath.Join(c.root, "ran")) // setting it up may have run it
			if p := c.plan(); !strings.Contains(p.Why, want) {
				t.Errorf("it says %q", p.Why)
			}
			if _, err := os.Stat(filepath.Join(c.root, "ran")); err == nil {
				t.Error("a program of the repository's was run")
			}
		})
	}
}

// Nothing that the repository names is run, on either host, and no credential
// of its configuration is kept.
func TestGitRunsNothingAndKeepsNoCredential(t *testing.T) {
	u := newUpstream(t)
	c := u.clone()
	ran := filepath.Join(c.root, "ran")
	hook := "#!/bin/sh\ntouch '" + ran + "'\n"
	for _, name := range []string{"post-checkout", "reference-transaction", "post-index-change", "fsmonitor-watchman", "pre-auto-gc"} {
		c.write(".git/hooks/"+name, hook)
		c.do(os.Chmod(filepath.Join(c.dir, ".git/hooks", name), 0o755))
	}
	c.git("config", "core.fsmonitor", ".git/hooks/fsmonitor-watchman")
	c.git("config", "core.sshCommand", "touch "+ran)
	c.git("config", "http.extraheader", "Authorization: "+gitToken)
	c.git("config", "url.git://"+gitToken+"@127.0.0.2/.insteadOf", "short:")
	c.git("config", "remote.second.url", "https://"+gitToken+"@example.org/x.git")
	c.git("config", "remote.second.fetch", "+refs/heads/*:refs/remotes/second/*")
	c.git("config", "remote.third.url", "https://user:"+gitToken+"@example.org/x.git?token="+gitToken)
	_ = os.Remove(ran) // setting it up ran some
	p := c.plan()
	for _, name := range p.Kept {
		err := filepath.WalkDir(filepath.Join(c.root, "scratch", name), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(name)
			if bytes.Contains(text, []byte(gitToken)) {
				t.Errorf("the credential is in %s", name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if bytes.Contains(p.Config, []byte(gitToken)) || !bytes.Contains(p.Config, []byte(`"https://example.org/x.git"`)) {
		t.Errorf("configuration:\n%s", p.Config)
	}
	want := []string{"core.fsmonitor", "core.sshcommand", "http.extraheader", "remote.second.url (the credential in it)", "remote.third.url (the credential in it)", "url.*.insteadof"}
	slices.Sort(p.Dropped)
	if !slices.Equal(p.Dropped, want) {
		t.Errorf("dropped %q, want %q", p.Dropped, want)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a program of the repository's was run while it was looked at")
	}
}

func TestGitURLs(t *testing.T) {
	for raw, want := range map[string]gitURL{
		"https://example.org/a.git":           {"https://example.org/a.git", false, true},
		"https://u:p@example.org/a.git":       {"https://example.org/a.git", true, true},
		"https://token@example.org/a":         {"https://example.org/a", true, true},
		"https://example.org/a?t=1":           {"https://example.org/a", true, false},
		"ssh://git@example.org:22/a.git":      {"ssh://git@example.org:22/a.git", false, true},
		"ssh://git:pw@example.org/a.git":      {"ssh://git@example.org/a.git", true, true},
		"git@example.org:a/b.git":             {"git@example.org:a/b.git", false, true},
		"example.org:a/b.git":                 {"example.org:a/b.git", false, true},
		"git@[2001:db8::1]:a/b.git":           {"git@[2001:db8::1]:a/b.git", false, true},
		"git@localhost:a.git":                 {"git@localhost:a.git", false, false},
		"git://127.0.0.1/a":                   {"git://127.0.0.1/a", false, false},
		"http://[::1]/a":                      {"http://[::1]/a", false, false},
		"/srv/git/a.git":                      {"/srv/git/a.git", false, false},
		"../a.git":                            {"../a.git", false, false},
		"./odd:name":                          {"./odd:name", false, false},
		"file:///srv/a.git":                   {"file:///srv/a.git", false, false},
		"ext::sh -c 'echo'":                   {"ext::sh -c 'echo'", false, false},
		"https://u:p%zz@example.org/a":        {"https://unreadable", true, false},
		"codecommit::us-east-1://repo":        {"codecommit::us-east-1://repo", false, false},
		"https://user@example.org:8443/a.git": {"https://example.org:8443/a.git", true, true},
	} {
		if got := cleanURL(raw); got != want {
			t.Errorf("%s: %+v, want %+v", raw, got, want)
		}
	}
}

func TestHostWithoutGitIsSaid(t *testing.T) {
	u := newUpstream(t)
	c := u.clone()
	p := c.plan()
	c.host = withoutGit{c.host}
	if _, _, err := c.elsewhere(p); !errors.Is(err, ErrGit) || !strings.Contains(err.Error(), "not installed") {
		t.Errorf("restored where there is no git: %v", err)
	}
	if p := c.plan(); p.Why != "git is not installed on the host" {
		t.Errorf("captured where there is no git: %q", p.Why)
	}
}

// Wherever a script of ours runs, it finds a shell and small programs of its own.
func TestGitOnOtherHosts(t *testing.T) {
	u := newUpstream(t)
	sshd := hosttest.StartSSHD(t, hosttest.Options{})
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	far, err := pool.Host(sshd.Spec())
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]hostexec.Host{"busybox": onlyBusybox(t, thisHost(t)), "sshd": far} {
		t.Run(name, func(t *testing.T) {
			c := u.clone()
			c.t, c.host = t, h
			c.commit("mine", "mine\n")
			c.write("README", "stashed\n")
			c.git("stash", "-q")
			c.git("checkout", "-q", "-b", "side", "HEAD~1")
			c.commit("log", "side\n")
			c.git("checkout", "-q", "main")
			c.commit("log", "main\n")
			if out, err := c.try("merge", "side"); err == nil {
				t.Fatalf("it merged: %s", out)
			}
			c.write("src/a.c", "staged\n")
			c.git("add", "src/a.c")
			c.git("update-index", "--assume-unchanged", "README")
			c.write("README", "changed, and git looks away\n")
			c.do(os.Remove(filepath.Join(c.dir, "name with\nnewline")))
			c.do(os.RemoveAll(filepath.Join(c.dir, "alone")))
			c.write("alone", "a file now\n")
			c.write("new\n\xff/-file", "x")
			c.do(os.Mkdir(filepath.Join(c.dir, "empty"), 0o755))
			c.write(".git/hooks/post-checkout", "#!/bin/sh\n")
			c.sameElsewhere()
		})
	}
}

// onlyBusybox is a host where there is nothing but busybox and git.
func onlyBusybox(t *testing.T, h hostexec.Host) hostexec.Host {
	t.Helper()
	program, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name := range strings.FieldsSeq(string(out)) {
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(git, filepath.Join(dir, "git")); err != nil {
		t.Fatal(err)
	}
	return otherPath{h, dir}
}

// otherPath runs scripts by the shell, and with the programs, of a folder.
type otherPath struct {
	hostexec.Host
	path string
}

func (h otherPath) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	c.Args = append([]string{h.path, c.Script}, c.Args...)
	c.Script = `PATH=$1; export PATH; shift; s=$1; shift; exec sh -c "$s" sh "$@"`
	return h.Host.Start(ctx, c)
}

// A disk that gets full is told apart, on the one host and on the other.
func TestGitOnAFullDisk(t *testing.T) {
	u := newUpstream(t)
	c := u.clone()
	p := c.plan()
	small := t.TempDir()
	unmount, err := hosttest.SmallDisk(t.Context(), small, 300<<10)
	c.do(err)
	t.Cleanup(func() { c.do(unmount()) })
	carry(t, filepath.Join(c.root, "scratch"), filepath.Join(small, "git"), p.Kept)
	_, _, err = rebuildGit(t.Context(), c.host, gitRebuild{Parts: filepath.Join(small, "git"), Overlay: filepath.Join(small, "none"), Root: filepath.Join(small, "root")})
	if !errors.Is(err, hostexec.ErrNoSpace) {
		t.Errorf("restored to a disk that is full: %v", err)
	}
}

// withoutGit is a host whose PATH has everything but git.
type withoutGit struct{ hostexec.Host }

func (h withoutGit) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	c.Script = "command() { case $2 in git) return 1 ;; *) unset -f command; command \"$@\" ;; esac; }\n" + c.Script
	return h.Host.Start(ctx, c)
}
