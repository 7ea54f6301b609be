package activities

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/protocol"
)

func (b *bed) placeOf(in places.PrepareSessionInput, out places.PrepareSessionResult) workspaces.Place {
	p := workspaces.Place{Claim: in.Claim, Layout: out.Layout, Workspace: in.Workspace}
	if out.Brought != nil {
		p.Commit = out.Brought.Commit
	}
	return p
}

// looking returns Workfolders for a session that is at these places, one after
// another. The last one repeats.
func (b *bed) looking(at ...workspaces.Place) *workspaces.Workfolders {
	return &workspaces.Workfolders{Site: b.set.site, Where: func(context.Context, string) (workspaces.Place, error) {
		p := at[0]
		if len(at) > 1 {
			at = at[1:]
		}
		return p, nil
	}}
}

// The content of several files is of one moment, or it is not returned. It is not
// returned while a turn writes there, nor if a turn began before all files were read.
func TestSeveralFilesAreOfOneMoment(t *testing.T) {
	b := newBed(t, readyHost(t))
	in := b.inWorkspace("one-moment", workspaces.Workspace{Hooks: workspaces.Hooks{AfterCreate: `echo 1 >one; echo 2 >two`}})
	out, err := b.prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	quiet := b.placeOf(in, out)
	quiet.Turn = 1
	busy, next, moved := quiet, quiet, quiet
	busy.Busy, next.Turn = true, 2
	moved.Claim.Generation++
	for _, c := range []struct {
		what   string
		at     []workspaces.Place
		moving bool
		files  []string
		says   string // in the refusal
	}{
		{"between turns", []workspaces.Place{quiet}, false, []string{"."}, ""},
		{"while one runs", []workspaces.Place{busy}, false, []string{"."}, "turn 1 of session one-moment may still change the work folder"},
		{"while one runs, asked for so", []workspaces.Place{busy}, true, []string{"."}, ""},
		{"one file while one runs", []workspaces.Place{busy}, false, []string{"one"}, ""},
		{"two while one runs", []workspaces.Place{busy}, false, []string{"one", "two"}, "turn 1 of session one-moment may still change the work folder"},
		{"one begins meanwhile", []workspaces.Place{quiet, busy}, false, []string{"."}, "began while the files were read"},
		{"one began and ended meanwhile", []workspaces.Place{quiet, next}, false, []string{"."}, "began while the files were read"},
		{"it went elsewhere meanwhile", []workspaces.Place{quiet, moved}, false, []string{"."}, "began while the files were read"},
	} {
		_, derr := b.looking(c.at...).WorkDiff(t.Context(), "one-moment", c.moving)
		ferr := b.looking(c.at...).FetchFiles(t.Context(), "one-moment", c.files, c.moving, io.Discard)
		if len(c.files) == 1 && c.files[0] == "one" {
			derr = ferr
		}
		for look, err := range map[string]error{"diff": derr, "fetch": ferr} {
			if err == nil {
				if c.says != "" {
					t.Errorf("%s, %s: it was given", look, c.what)
				}
				continue
			}
			if p := workspaces.Told(t.Context(), look, err); c.says == "" || (p.Kind != protocol.ErrTypeTurnRuns || !strings.Contains(p.Message, c.says) || !strings.Contains(p.Hint, "--while-running")) {
				t.Errorf("%s, %s: %+v", look, c.what, p)
			}
		}
	}
	b.closes(in, out.Layout)
}

// mustApply checks that a diff applies to a folder.
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
	for what, w := range map[string]workspaces.Workspace{
		"a whole clone":           {Repo: &workspaces.Repo{URL: f.url("project.git"), Token: b.token(f)}},
		"a shallow clone":         {Repo: &workspaces.Repo{URL: f.url("project.git"), Token: b.token(f), Depth: 1}},
		"nothing at all":          {Hooks: workspaces.Hooks{BeforeRun: "true"}},
		"what after_create makes": {Repo: &workspaces.Repo{URL: f.url("project.git"), Token: b.token(f)}, Hooks: workspaces.Hooks{AfterCreate: "echo made >made.txt; echo g >gone.txt"}},
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
			none, err := workspaces.WorkDiff(t.Context(), b.set.site, b.placeOf(in, out))
			if err != nil || none.Text != "" {
				t.Errorf("before anything changed: %q, %v", none.Text, err)
			}
			// This is a configuration with which somebody who works there could attack
			// a git that trusts the folder.
			b.sh(change+`; [ -d .git ] || exit 0; git config core.fsmonitor "touch $1/../pwned"; git config diff.external "touch $1/../pwned"; echo '* filter=evil' >.gitattributes; git config filter.evil.clean "touch $1/../pwned"`, out.Layout.WorkDir)
			d, err := workspaces.WorkDiff(t.Context(), b.set.site, b.placeOf(in, out))
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
	in := b.inWorkspace("fetched", workspaces.Workspace{Hooks: workspaces.Hooks{AfterCreate: `mkdir -p out/deep && echo report >out/report.md && printf 'a\0b' >out/deep/bin && chmod +x out/deep/bin
ln -s /etc/passwd out/link; ln -s /etc folder; ln -s out/report.md inside`}})
	out, err := b.prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(paths ...string) (string, error) {
		var buf bytes.Buffer
		if err := b.looking(b.placeOf(in, out)).FetchFiles(t.Context(), in.Claim.Session, paths, false, &buf); err != nil {
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
	if got, err := fetch("out", "inside"); err != nil || !strings.Contains(got, "out/report.md -rw-r--r-- report\n;") || !strings.Contains(got, "out/deep/bin -rwxr-xr-x a\x00b;") || !strings.Contains(got, "inside -rw-r--r-- report\n;") || strings.Contains(got, "link") {
		t.Errorf("fetched %q, %v", got, err)
	}
	for _, path := range []string{"out/link", "folder/passwd", "/etc/passwd", "../workspace/brought", "out/../../workspace/brought", "nothing"} {
		got, err := fetch(path)
		if p := workspaces.Told(t.Context(), "fetch", err); err == nil || p.Kind != protocol.ErrTypeBadInput && p.Kind != protocol.ErrTypeNotThere {
			t.Errorf("%s: %q, %+v", path, got, p)
		}
	}
	b.closes(in, out.Layout)
}

func TestWorkIsPushedOnceWithTheCredentialsItCameWith(t *testing.T) {
	if testing.Short() {
		t.Skip("runs git some hundred times")
	}
	f := newForge(t)
	b := newBed(t, readyHost(t))
	in := b.inWorkspace("pushed", workspaces.Workspace{Repo: &workspaces.Repo{URL: f.url("project.git"), Token: b.token(f)}})
	out, err := b.prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	push := func(id, branch string) (workspaces.PushWorkspaceResult, error) {
		return workspaces.PushWork(t.Context(), b.set.Workspace.Site, workspaces.PushWorkspaceInput{Claim: in.Claim, Layout: out.Layout, Repo: *in.Workspace.Repo, ID: id, Branch: branch, Message: "Mend it", By: "alice"}, theToken, 1, nil)
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
	if _, err := push("p4", "next"); err == nil || !strings.Contains(workspaces.Told(t.Context(), "push", err).Hint, "another --branch") {
		t.Errorf("over others' work: %v", err)
	}
	git(t, bare, "rev-parse", "next")
	if left := b.sh(`ls -d "$1/pwned" "$1/stolen" 2>/dev/null; ls "$1/workspace" "$1/proc"; grep -rlaF -e "$2" "$1" || :`, out.Layout.Dir, theToken); left != out.Layout.Dir+"/proc:\nclone\n\n"+out.Layout.Dir+"/workspace:\nbrought\n" {
		t.Errorf("left: %s", left)
	}
	b.closes(in, out.Layout)
}

// After a push is cancelled, git does not push later.
func TestAPushThatIsCalledBackLeavesNoGit(t *testing.T) {
	f := newForge(t)
	b := newBed(t, readyHost(t))
	in := b.inWorkspace("called-back", workspaces.Workspace{Repo: &workspaces.Repo{URL: f.url("project.git"), Token: b.token(f)}})
	out, err := b.prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	f.gate = make(chan struct{})
	before := f.asked.Load()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := workspaces.PushWork(ctx, b.set.Workspace.Site, workspaces.PushWorkspaceInput{Claim: in.Claim, Layout: out.Layout, Repo: *in.Workspace.Repo, ID: "p1", Branch: "codex/mend"}, theToken, 1, nil)
		ended <- err
	}()
	until(t, func() bool { return f.asked.Load() > before }) // git is at work
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the push: %v", err)
	}
	left, err := hosttest.Leftovers(path.Join(out.Layout.Dir, "proc", "push.p1"), folder.Mark("called-back", out.Layout)+"/push.p1")
	if err != nil || len(left) > 0 {
		t.Errorf("git goes on: %v, %v", left, err)
	}
	close(f.gate)
	b.closes(in, out.Layout)
}
