package snapshots

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
)

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

// Our scripts work with the shell and the small programs of every kind of host.
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

// A full disk gives the error for a full disk.
func TestGitOnAFullDisk(t *testing.T) {
	u := newUpstream(t)
	c := u.clone()
	p := c.plan()
	small := t.TempDir()
	unmount, err := hosttest.SmallDisk(t.Context(), small, 300<<10)
	c.do(err)
	t.Cleanup(func() { c.do(unmount()) })
	carry(t, filepath.Join(c.root, "scratch"), filepath.Join(small, "git"), p.Kept)
	_, _, err = rebuildGit(t.Context(), c.host, gitRebuild{Parts: filepath.Join(small, "git"), Overlay: filepath.Join(small, "none"), Root: filepath.Join(small, "root"), State: p.made.state})
	if !errors.Is(err, hostexec.ErrNoSpace) {
		t.Errorf("restored to a disk that is full: %v", err)
	}
}

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

// otherPath is a host that runs scripts with the shell and the programs of a folder.
type otherPath struct {
	hostexec.Host
	path string
}

func (h otherPath) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	c.Args = append([]string{h.path, c.Script}, c.Args...)
	c.Script = `PATH=$1; export PATH; shift; s=$1; shift; exec sh -c "$s" sh "$@"`
	return h.Host.Start(ctx, c)
}

type withoutGit struct{ hostexec.Host }

func (h withoutGit) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	c.Script = "command() { case $2 in git) return 1 ;; *) unset -f command; command \"$@\" ;; esac; }\n" + c.Script
	return h.Host.Start(ctx, c)
}
