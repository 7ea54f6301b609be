package activities

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func (b *bed) placeOf(in PrepareSessionInput, out PrepareSessionResult) Place {
	p := Place{Claim: in.Claim, Layout: out.Layout, Workspace: in.Workspace}
	if out.Brought != nil {
		p.Commit = out.Brought.Commit
	}
	return p
}

// mustApply says what a folder is after a diff was applied to it.
func mustApply(t *testing.T, dir, diff string) {
	t.Helper()
	cmd := exec.Command("git", "apply", "-")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(diff)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v: %s\n%s", err, out, diff)
	}
}

func TestTheDiffOfASessionIsAllThatChangedSinceItBegan(t *testing.T) {
	f := newForge(t)
	b := newBed(t, readyHost(t))
	change := `cd "$1" && echo new >new.txt && printf 'a\0b' >bin.dat && echo changed >>a.txt && rm -f gone.txt && mkdir -p d && echo ign >d/x.log && echo '*.log' >.gitignore`
	for what, w := range map[string]Workspace{
		"a whole clone":           {Repo: &Repo{URL: f.url("project.git"), Token: b.token()}},
		"a shallow clone":         {Repo: &Repo{URL: f.url("project.git"), Token: b.token(), Depth: 1}},
		"nothing at all":          {Hooks: Hooks{BeforeRun: "true"}},
		"what after_create makes": {Repo: &Repo{URL: f.url("project.git"), Token: b.token()}, Hooks: Hooks{AfterCreate: "echo made >made.txt; echo g >gone.txt"}},
	} {
		t.Run(what, func(t *testing.T) {
			in := b.inWorkspace("differs-"+strings.ReplaceAll(what[:6], " ", "-"), w)
			out, err := b.prepare(in)
			if err != nil {
				t.Fatal(err)
			}
			before := t.TempDir()
			if err := exec.Command("cp", "-a", out.Layout.WorkDir+"/.", before).Run(); err != nil {
				t.Fatal(err)
			}
			none, err := b.set.Sessions.workDiff(t.Context(), b.placeOf(in, out))
			if err != nil || none.Text != "" {
				t.Errorf("before anything changed: %q, %v", none.Text, err)
			}
			// What somebody who works there may leave to a git that trusts it.
			b.sh(change+`; [ -d .git ] || exit 0; git config core.fsmonitor "touch $1/../pwned"; git config diff.external "touch $1/../pwned"; echo '* filter=evil' >.gitattributes; git config filter.evil.clean "touch $1/../pwned"`, out.Layout.WorkDir)
			d, err := b.set.Sessions.workDiff(t.Context(), b.placeOf(in, out))
			if err != nil {
				t.Fatal(err)
			}
			mustApply(t, before, d.Text)
			if got, err := exec.Command("diff", "-r", "-x", ".git", "-x", "x.log", "-x", "d", out.Layout.WorkDir, before).CombinedOutput(); err != nil {
				t.Errorf("the diff does not make it what it is: %s", got)
			}
			if strings.Contains(d.Text, "x.log") {
				t.Error("what .gitignore leaves out is in it")
			}
			if left := b.sh(`ls "$1/tmp"; ls -d "$1/pwned" 2>/dev/null; :`, out.Layout.Dir); left != "" {
				t.Errorf("left: %s", left)
			}
			b.closes(in, out.Layout)
		})
	}
}

func TestFetchedFilesLieInTheWorkFolderAndHoldNoCredential(t *testing.T) {
	b := newBed(t, readyHost(t))
	in := b.inWorkspace("fetched", Workspace{Hooks: Hooks{AfterCreate: `mkdir -p out/deep && echo report >out/report.md && printf 'a\0b' >out/deep/bin && chmod +x out/deep/bin
ln -s /etc/passwd out/link; ln -s /etc folder; ln -s out/report.md inside`}})
	out, err := b.prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(paths ...string) (string, error) {
		var buf bytes.Buffer
		if err := b.set.Sessions.fetchFiles(t.Context(), b.placeOf(in, out), paths, &buf); err != nil {
			return "", err
		}
		all := ""
		for r := tar.NewReader(&buf); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				return all, nil
			}
			if err != nil {
				return all, err
			}
			data, err := io.ReadAll(r)
			if err != nil {
				return all, err
			}
			all += h.Name + " " + h.FileInfo().Mode().String() + " " + string(data) + ";"
		}
	}
	if got, err := fetch("out", "inside"); err != nil || !strings.Contains(got, "out/report.md -rw-r--r-- report\n;") || !strings.Contains(got, "out/deep/bin -rwxr-xr-x a\x00b;") || strings.Contains(got, "link") {
		t.Errorf("fetched %q, %v", got, err)
	}
	for _, path := range []string{"out/link", "folder/passwd", "/etc/passwd", "../workspace/brought", "out/../../workspace/brought", "nothing"} {
		got, err := fetch(path)
		if p := Told(t.Context(), "fetch", err); err == nil || p.Kind != ErrTypeBadInput && p.Kind != ErrTypeNotThere {
			t.Errorf("%s: %q, %+v", path, got, p)
		}
	}
	b.closes(in, out.Layout)
}

func TestWorkIsPushedOnceWithTheCredentialsItCameWith(t *testing.T) {
	f := newForge(t)
	b := newBed(t, readyHost(t))
	in := b.inWorkspace("pushed", Workspace{Repo: &Repo{URL: f.url("project.git"), Token: b.token()}})
	out, err := b.prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	push := func(id, branch string) (PushWorkspaceResult, error) {
		return b.set.Sessions.push(t.Context(), PushWorkspaceInput{Claim: in.Claim, Layout: out.Layout, Repo: *in.Workspace.Repo, ID: id, Branch: branch, Message: "Mend it", By: "alice"}, gitToken, 1, nil)
	}
	bare := filepath.Join(f.dir, "project.git")
	b.sh(`cd "$1" && echo mended >a.txt && mkdir -p .git/hooks && printf '#!/bin/sh\ntouch %s/pwned\n' "$2" | tee .git/hooks/pre-push .git/hooks/pre-commit >/dev/null && chmod +x .git/hooks/*
git config credential.helper '!f() { cat >>'"$2"'/stolen; }; f'; git config core.sshCommand "touch $2/pwned"`, out.Layout.WorkDir, out.Layout.Dir)
	one, err := push("p1", "codex/mend")
	if err != nil || one.Already || one.Commit != git(t, bare, "rev-parse", "codex/mend") {
		t.Fatalf("%+v, %v", one, err)
	}
	if got := git(t, bare, "log", "-1", "--format=%s|%an|%P", "codex/mend"); got != "Mend it|alice|"+git(t, bare, "rev-parse", "main") {
		t.Errorf("the commit is %s", got)
	}
	if got := git(t, bare, "show", "codex/mend:a.txt"); got != "mended" {
		t.Errorf("a.txt there is %q", got)
	}
	if two, err := push("p2", "codex/mend"); err != nil || !two.Already || two.Commit != one.Commit {
		t.Errorf("pushed again: %+v, %v", two, err)
	}
	b.sh(`cd "$1" && echo more >more.txt`, out.Layout.WorkDir)
	three, err := push("p3", "codex/mend")
	if err != nil || three.Already || git(t, bare, "rev-parse", "codex/mend^") != one.Commit {
		t.Errorf("pushed on: %+v, %v", three, err)
	}
	// Somebody else has pushed to the branch meanwhile.
	if _, err := push("p4", "next"); err == nil || !strings.Contains(Told(t.Context(), "push", err).Hint, "another --branch") {
		t.Errorf("over others' work: %v", err)
	}
	git(t, bare, "rev-parse", "next")
	if left := b.sh(`ls -d "$1/pwned" "$1/stolen" 2>/dev/null; ls "$1/workspace" "$1/proc"; grep -rlaF -e "$2" "$1" || :`, out.Layout.Dir, gitToken); left != out.Layout.Dir+"/proc:\nclone\n\n"+out.Layout.Dir+"/workspace:\nbrought\n" {
		t.Errorf("left: %s", left)
	}
	b.closes(in, out.Layout)
}
