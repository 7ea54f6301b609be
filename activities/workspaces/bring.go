package workspaces

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// Brought describes the first content of a work folder. The host records it once the
// content is complete, so that every attempt returns the same.
type Brought struct {
	// Commit is empty for an empty repository.
	Commit string `json:"commit,omitempty"`
	// Refused is what the host asked a lent agent for in vain.
	Refused []string `json:"refused,omitempty"`
	// Files and Bytes count restored files.
	Files int64 `json:"files,omitempty"`
	Bytes int64 `json:"bytes,omitempty"`
	// Created is the run of after_create, Tree the git tree after it, empty without git.
	Created *HookRun `json:"created,omitempty"`
	Tree    string   `json:"tree,omitempty"`
}

func broughtFile(l protocol.Layout) string { return path.Join(workspaceDir(l), "brought") }

// bringWork brings the first content and runs after_create, or returns the record of that.
func bringWork(ctx context.Context, s *site.Site, j Job, w *Workspace, token string, hide site.Secrets, p *kit.Progress) (b Brought, err error) {
	if b, done, err := readBrought(ctx, j); err != nil || done {
		return b, err
	}
	switch {
	case w.Repo != nil:
		p.Step("cloning")
		j.limit = cmp.Or(w.Timeout, CloneTimeout)
		b.Commit, b.Refused, err = clone(ctx, s, j, *w.Repo, token)
	case w.Snapshot != "":
		p.Step("restoring")
		b.Files, b.Bytes, err = bringSnapshotWork(ctx, s, j, w.Snapshot, p)
	}
	if err != nil {
		return b, err
	}
	if err := hostexec.RemoveTree(ctx, j.Host, path.Join(workspaceDir(j.Layout), "agent"), j.Layout.Dir, &j.fence); err != nil {
		return b, err
	}
	if strings.TrimSpace(w.Hooks.AfterCreate) != "" {
		p.Step("after_create")
		run, err := RunHook(ctx, s, j, *w, HookAfterCreate, w.Hooks.AfterCreate, "", hide.All)
		if err == nil {
			err = run.err(j.Host.Name(), w.Hooks.Timeout)
		}
		if err != nil {
			return b, err
		}
		b.Created = &run
		if b.Tree, err = keepStart(ctx, s, j); err != nil {
			return b, err
		}
	}
	return b, writeBrought(ctx, j, b)
}

// keepStart makes a git tree, because a hook may have changed the content.
func keepStart(ctx context.Context, s *site.Site, j Job) (string, error) {
	work, err := realPath(ctx, j.Host, j.Layout.WorkDir)
	if err != nil {
		return "", err
	}
	text, err := gitText(ctx, j.Host, "keep", work, startDir(j.Layout), "", "")
	if typed := (*kit.TypedError)(nil); errors.As(err, &typed) {
		s.Logger.Info("the start of a session is not kept", "session", j.claim.Session, "error", err)
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

func bringSnapshotWork(ctx context.Context, s *site.Site, j Job, id string, p *kit.Progress) (files, bytes int64, err error) {
	got, err := snapshots.Restore(ctx, j.Host, s.Chunks, id, snapshots.RestoreSpec{
		Dirs: map[string]string{snapshots.Work: j.Layout.WorkDir}, Fence: &j.fence, Logger: s.Logger,
		Progress: func(now snapshots.Progress) {
			p.Set(kit.SnapshotProgress{Step: "restoring", Entries: now.Entries, Files: now.ReadFiles, Bytes: now.ReadBytes})
		},
	})
	return got.Files, got.Bytes, err
}

func readBrought(ctx context.Context, j Job) (b Brought, done bool, err error) {
	data, err := hostexec.ReadFile(ctx, j.Host, broughtFile(j.Layout), 64<<10)
	if errors.Is(err, hostexec.ErrNotExist) {
		return b, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &b)
	}
	if err != nil {
		return b, false, fmt.Errorf("look what is in the work folder: %w", err)
	}
	return b, true, nil
}

func writeBrought(ctx context.Context, j Job, b Brought) error {
	data, err := json.Marshal(b)
	if err == nil {
		err = hostexec.WriteFile(ctx, j.Host, broughtFile(j.Layout), data, 0o600, &j.fence)
	}
	if err != nil {
		return fmt.Errorf("note what is in the work folder: %w", err)
	}
	return nil
}

// inPlaceScript fails if a symbolic link took the place of one of a session's folders, or if the
// link $1 to the work folder $2 leads elsewhere. $1 may be empty. $3 is a folder, $4 a path below
// it, and so on.
const inPlaceScript = `if [ -n "$1" ]; then
	here=$(cd -P -- "$1" && pwd -P) && work=$(cd -P -- "$2" && pwd -P) || exit 1
	[ "$here" = "$work" ] || { echo "$1 leads to $here" >&2; exit 4; }
fi
shift 2
while [ $# -gt 1 ]; do
	at=$(cd -P -- "$1" && pwd -P) && here=$(cd -P -- "$1/$2" && pwd -P) || exit 1
	[ "$here" = "$at/$2" ] || { echo "$1/$2 leads to $here" >&2; exit 4; }
	shift 2
done`

func inPlace(ctx context.Context, h hostexec.Host, l protocol.Layout) error {
	sessions := path.Join(l.Root, "sessions")
	link, holder := "", sessions
	if l.Room != "" && l.OwnWork {
		link = path.Join(l.Dir, "work")
	}
	args := []string{link, l.WorkDir, sessions, path.Base(l.Dir)}
	if l.Room != "" {
		holder = l.Rooms()
		args = append(args, holder, path.Join(l.Room, "room"))
	}
	if l.OwnWork {
		args = append(args, holder, strings.TrimPrefix(l.WorkDir, holder+"/"))
	}
	_, err := h.Run(ctx, hostexec.Command{Script: inPlaceScript, Args: args})
	var exit *hostexec.ExitError
	if errors.As(err, &exit) && exit.Code == 4 {
		return &kit.TypedError{Kind: protocol.ErrTypeWorkspace, Hint: "somebody has put a symbolic link in the place of the session's folder; look what it is, and remove it",
			Err: fmt.Errorf("work in %s on %s: %s", l.WorkDir, h.Name(), strings.TrimSpace(string(exit.Stderr)))}
	}
	if err != nil {
		return fmt.Errorf("resolve the path of %s on %s: %w", l.Dir, h.Name(), err)
	}
	return nil
}

// A WorkState is what lies in a work folder before codex begins.
type WorkState int

const (
	WorkRestored WorkState = iota // earlier work of the session
	WorkPrepared                  // by an earlier attempt of this preparation
	WorkEmpty
)

// WorkIn brings the first content if there is none, and runs before_run.
func WorkIn(ctx context.Context, s *site.Site, j Job, w *Workspace, state WorkState, hide site.Secrets, p *kit.Progress) (brought *Brought, before *HookRun, err error) {
	if err := inPlace(ctx, j.Host, j.Layout); err != nil {
		return nil, nil, err
	}
	if w == nil {
		return nil, nil, nil
	}
	token, err := gitToken(ctx, s, j.claim.Session, w.Repo)
	if err != nil {
		return nil, nil, err
	}
	hide = hide.Knowing(token)
	hidden := func(err error) error {
		if typed := (*kit.TypedError)(nil); errors.As(err, &typed) && typed.Kind == protocol.ErrTypeWorkspace {
			typed.Err = errors.New(hide.All.String(typed.Err.Error()))
		}
		return err
	}
	switch state {
	case WorkPrepared: // the earlier attempt's answer may be lost
		if b, done, err := readBrought(ctx, j); err != nil {
			return nil, nil, err
		} else if done {
			brought = &b
		}
	case WorkEmpty:
		b, err := bringWork(ctx, s, j, w, token, hide, p)
		if err != nil {
			return nil, nil, hidden(err)
		}
		brought = &b
	}
	if strings.TrimSpace(w.Hooks.BeforeRun) == "" {
		return brought, nil, nil
	}
	p.Step(HookBeforeRun)
	run, err := RunHook(ctx, s, j, *w, HookBeforeRun, w.Hooks.BeforeRun, fmt.Sprintf("%d.%d", j.claim.Generation, j.claim.Pump), hide.All)
	if err == nil {
		err = run.err(j.Host.Name(), w.Hooks.Timeout)
	}
	return brought, &run, hidden(err)
}

// WorkspaceJob returns a job with the common fields.
func WorkspaceJob(s *site.Site, h hostexec.Host, l protocol.Layout, c protocol.Claim, attempt int32, stop <-chan struct{}) Job {
	return Job{Site: s, Host: h, Layout: l, claim: c, fence: folder.FenceOf(c, l.Dir, attempt), stop: stop}
}
