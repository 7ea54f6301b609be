package snapshots

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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
	// The same plan again makes no other pack, and does not change the old one.
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

func TestShallowCloneAndGoneBranchGoOnElsewhere(t *testing.T) {
	u := newUpstream(t)
	c := u.clone("--depth=1", "--no-single-branch")
	c.commit("mine", "mine\n")
	if _, _, err := c.elsewhere(c.plan()); err != nil {
		t.Errorf("a shallow clone: %v", err)
	}
	// Upstream no longer has a branch, on which no local commit depends.
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
	// A local commit depends on a commit that upstream no longer has in a ref.
	u.git("update-ref", "refs/heads/main", "refs/heads/main~1")
	c.commit("mine", "mine\n")
	p := c.plan()
	if _, _, err := c.elsewhere(p); err == nil {
		// The server may still send a commit by its hash while the object exists.
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
			_ = os.Remove(filepath.Join(c.root, "ran")) // the setup of the test may have run the program
			if p := c.plan(); !strings.Contains(p.Why, want) {
				t.Errorf("it says %q", p.Why)
			}
			if _, err := os.Stat(filepath.Join(c.root, "ran")); err == nil {
				t.Error("a program of the repository's was run")
			}
		})
	}
}

// No program that the repository names is run, on either host, and no credential of its
// configuration is kept.
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
	_ = os.Remove(ran) // the setup of the test ran some of the programs
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
