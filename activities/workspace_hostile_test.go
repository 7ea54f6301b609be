package activities

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/internal/protocol"
)

// A canary is a program that an agent or a person in a session has planted. It
// records that it ran, and what it could read of a git token.
type canary struct{ program, sign string }

// newCanary makes a canary that the host's user can run.
func (b *bed) newCanary() canary {
	b.t.Helper()
	dir := strings.TrimSpace(b.sh(`mktemp -d`))
	b.t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			b.t.Error(err)
		}
	})
	c := canary{filepath.Join(dir, "program"), filepath.Join(dir, "sign")}
	b.sh(`printf '#!/bin/sh\necho ran >>%s\n{ head -n 1 <&7 >>%s; } 2>/dev/null\nexit 1\n' "$2" "$2" >"$1" && chmod 755 "$1"`, c.program, c.sign)
	return c
}

func (c canary) mustBeSilent(t *testing.T, what string) {
	t.Helper()
	if sign, err := os.ReadFile(c.sign); err == nil {
		t.Errorf("%s ran what was planted; it had: %q", what, sign)
	}
}

// ownPart makes the submodule's .git a folder and adds to its configuration. Somebody
// who may not write into the top .git can do this.
const ownPart = `cd "$1" && cp -R .git/modules/part part.git && rm part/.git && mv part.git part/.git && cd part && sed -i /worktree/d .git/config
while [ $# -gt 2 ]; do git config "$2" "$3"; shift 2; done`

func (b *bed) pushes(in places.PrepareSessionInput, l protocol.Layout, id string) (workspaces.PushWorkspaceResult, error) {
	return workspaces.PushWork(b.t.Context(), b.set.Workspace.Site, workspaces.PushWorkspaceInput{Claim: in.Claim, Layout: l, Repo: *in.Workspace.Repo, ID: id, Branch: "codex/" + in.Claim.Session, By: "alice"}, theToken, 1, nil)
}

func (b *bed) cloned(f *forge, id string) (places.PrepareSessionInput, places.PrepareSessionResult) {
	b.t.Helper()
	in := b.inWorkspace(id, workspaces.Workspace{Repo: &workspaces.Repo{URL: f.url("project.git"), Token: b.token(f)}})
	out, err := b.prepare(in)
	if err != nil {
		b.t.Fatal(err)
	}
	return in, out
}

func TestADiffRunsNothingOfASubmodulesOwnConfiguration(t *testing.T) {
	f := newForge(t)
	b := newBed(t, readyHost(t))
	in, out := b.cloned(f, "sub-diffs")
	diff := func() string {
		t.Helper()
		d, err := workspaces.WorkDiff(t.Context(), b.set.site, b.placeOf(in, out))
		if err != nil {
			t.Fatal(err)
		}
		return d.Text
	}
	c := b.newCanary()
	b.sh(ownPart, out.Layout.WorkDir, "core.fsmonitor", c.program)
	if got := diff(); got != "" {
		t.Errorf("nothing has changed: %s", got)
	}
	b.sh(`cd "$1/part" && echo more >>part.txt && git -c core.fsmonitor=false -c user.name=a -c user.email=a@example.com commit -qam more`, out.Layout.WorkDir)
	if got := diff(); !strings.Contains(got, "+Subproject commit") || strings.Contains(got, "deleted") {
		t.Errorf("a commit in the submodule: %s", got)
	}
	b.sh(`cd "$1" && rm -rf part && mkdir part`, out.Layout.WorkDir)
	if got := diff(); got != "" {
		t.Errorf("a submodule that is not there, as in a clone without it: %s", got)
	}
	b.sh(`cd "$1" && rmdir part`, out.Layout.WorkDir)
	if got := diff(); !strings.Contains(got, "-Subproject commit") {
		t.Errorf("a submodule that was removed: %s", got)
	}
	b.sh(`cd "$1" && mkdir part && echo own >part/own.txt`, out.Layout.WorkDir)
	if got := diff(); !strings.Contains(got, "-Subproject commit") || !strings.Contains(got, "part/own.txt") {
		t.Errorf("a submodule that has become files: %s", got)
	}
	c.mustBeSilent(t, "the diff")
	b.closes(in, out.Layout)
}

func TestADiffIsMadeWhereNobodyHasLeftAConfiguration(t *testing.T) {
	f := newForge(t)
	b := newBed(t, readyHost(t))
	deps := b.set.site.Deps
	now := time.Now()
	deps.Now, deps.Chunks = func() time.Time { return now }, nil
	b.set = New(deps)
	in, out := b.cloned(f, "early")
	c := b.newCanary()
	b.sh(`d="$1/tmp/$2/git"; git init -q --bare "$d" && git --git-dir="$d" config core.fsmonitor "$3" && echo new >"$1/work/new.txt"`,
		out.Layout.Dir, fmt.Sprintf("diff-%d", now.UnixNano()), c.program)
	if d, err := workspaces.WorkDiff(t.Context(), b.set.site, b.placeOf(in, out)); err != nil || !strings.Contains(d.Text, "new.txt") {
		t.Errorf("%+v, %v", d, err)
	}
	c.mustBeSilent(t, "the diff")
	b.closes(in, out.Layout)
}

func TestAPushRunsNothingOfASubmodulesOwnConfiguration(t *testing.T) {
	f := newForge(t)
	b := newBed(t, readyHost(t))
	in, out := b.cloned(f, "sub-pushes")
	c := b.newCanary()
	b.sh(ownPart+`
echo 1111111111111111111111111111111111111111 >.git/HEAD`, out.Layout.WorkDir,
		"core.fsmonitor", c.program, "remote.origin.uploadpack", c.program, "remote.origin.url", out.Layout.WorkDir, "protocol.file.allow", "always")
	for i, text := range []string{"one", "two"} {
		b.sh(`cd "$1" && echo "$2" >a.txt`, out.Layout.WorkDir, text)
		if got, err := b.pushes(in, out.Layout, fmt.Sprint("p", i)); err != nil || got.Already {
			t.Errorf("push %s: %+v, %v", text, got, err)
		}
	}
	if got := git(t, filepath.Join(f.dir, "project.git"), "ls-tree", "codex/sub-pushes", "part"); !strings.Contains(got, "111111111") {
		t.Errorf("the submodule is at %s", got)
	}
	c.mustBeSilent(t, "the push")
	b.closes(in, out.Layout)
}

// promised configures a folder so that git gets missing objects from a program.
const promised = `cd "$1" && git config extensions.partialClone origin && git config remote.origin.promisor true && git config remote.origin.url "ext::$2" && git config protocol.ext.allow always && git config core.repositoryformatversion 1`

func TestAPushRunsNothingOfTheWorkFoldersOwnConfiguration(t *testing.T) {
	f := newForge(t)
	b := newBed(t, readyHost(t))
	for what, plant := range map[string]string{
		"head":  `echo 1111111111111111111111111111111111111111 >.git/HEAD`,
		"refs":  `echo 1111111111111111111111111111111111111111 >.git/refs/heads/lacking`,
		"loose": `printf 'ref: refs/heads/../../../escape\n' >.git/HEAD`,
	} {
		t.Run(what, func(t *testing.T) {
			in, out := b.cloned(f, "own-"+what)
			c := b.newCanary()
			// The push has a branch to fetch, too.
			b.sh(`cd "$1" && echo one >a.txt`, out.Layout.WorkDir)
			if _, err := b.pushes(in, out.Layout, "p1"); err != nil {
				t.Fatal(err)
			}
			b.sh(promised+` && echo two >a.txt
`+plant, out.Layout.WorkDir, c.program)
			if got, err := b.pushes(in, out.Layout, "p2"); err != nil || got.Already {
				t.Errorf("%+v, %v", got, err)
			}
			c.mustBeSilent(t, "the push")
			b.closes(in, out.Layout)
		})
	}
}

func TestAPushGoesOnWhereHeadIs(t *testing.T) {
	if testing.Short() {
		t.Skip("runs git some hundred times")
	}
	f := newForge(t)
	b := newBed(t, readyHost(t))
	bare := filepath.Join(f.dir, "project.git")
	for what, at := range map[string]string{"packed": `git pack-refs --all`, "detached": `git checkout -q --detach`, "branch": `git checkout -q -b work/mine`} {
		t.Run(what, func(t *testing.T) {
			in, out := b.cloned(f, "head-"+what)
			b.sh(`cd "$1" && echo mine >a.txt && git -c user.name=a -c user.email=a@example.com commit -qam mine && `+at, out.Layout.WorkDir)
			head := strings.TrimSpace(b.sh(`git -C "$1" rev-parse HEAD`, out.Layout.WorkDir))
			if got, err := b.pushes(in, out.Layout, "p1"); err != nil || got.Commit != head || git(t, bare, "rev-parse", "codex/head-"+what) != head {
				t.Errorf("%+v, %v; HEAD is %s", got, err, head)
			}
			b.closes(in, out.Layout)
		})
	}
}

func TestTheUserOfATokenIsWhoHeIsSaidToBe(t *testing.T) {
	f := newForge(t)
	b := newBed(t, readyHost(t))
	c := b.newCanary()
	f.user = "robot$ci$(" + c.program + ")"
	in := b.inWorkspace("robot", workspaces.Workspace{Repo: &workspaces.Repo{URL: f.url("project.git"), Token: b.token(f), User: f.user}})
	out, err := b.prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	b.sh(`echo more >"$1/more.txt"`, out.Layout.WorkDir)
	if _, err := b.pushes(in, out.Layout, "p1"); err != nil {
		t.Error(err)
	}
	c.mustBeSilent(t, "git")
	b.closes(in, out.Layout)
}
