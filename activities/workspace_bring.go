package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// Brought describes the first content of a session's work folder. It is recorded beside
// the work folder when the content is complete, so that every attempt returns the same.
type Brought struct {
	// Commit is the commit that was checked out; empty for an empty repository.
	Commit string `json:"commit,omitempty"`
	// Files and Bytes count what was restored from a snapshot.
	Files int64 `json:"files,omitempty"`
	Bytes int64 `json:"bytes,omitempty"`
	// Created is the run of the hook after_create. Tree is the git tree of the folder
	// after that hook; empty if the host has no git.
	Created *HookRun `json:"created,omitempty"`
	Tree    string   `json:"tree,omitempty"`
}

func broughtFile(l protocol.Layout) string { return path.Join(workspaceDir(l), "brought") }

// bringWork puts the first content into an empty work folder, and runs after_create. If
// an earlier attempt has done this, it only returns the record.
func bringWork(ctx context.Context, s *site, j job, w *Workspace, token string, hide secrets, p *progress) (b Brought, err error) {
	if b, done, err := readBrought(ctx, j); err != nil || done {
		return b, err
	}
	switch {
	case w.Repo != nil:
		p.step("cloning")
		j.limit = cmp.Or(w.Timeout, CloneTimeout)
		b.Commit, err = clone(ctx, s, j, *w.Repo, token)
	case w.Snapshot != "":
		p.step("restoring")
		b.Files, b.Bytes, err = bringSnapshotWork(ctx, s, j, w.Snapshot, p)
	}
	if err != nil {
		return b, err
	}
	if err := hostexec.RemoveTree(ctx, j.host, path.Join(workspaceDir(j.layout), "agent"), j.layout.Dir, &j.fence); err != nil {
		return b, err
	}
	if strings.TrimSpace(w.Hooks.AfterCreate) != "" {
		p.step("after_create")
		run, err := runHook(ctx, s, j, *w, HookAfterCreate, w.Hooks.AfterCreate, "", hide.all)
		if err == nil {
			err = run.err(j.host.Name(), w.Hooks.Timeout)
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

// keepStart makes a git tree of the work folder, in case a hook has changed the first
// content.
func keepStart(ctx context.Context, s *site, j job) (string, error) {
	work, err := realPath(ctx, j.host, j.layout.WorkDir)
	if err != nil {
		return "", err
	}
	text, err := gitText(ctx, j.host, "keep", work, startDir(j.layout), "", "")
	if typed := (*typedError)(nil); errors.As(err, &typed) {
		s.Logger.Info("the start of a session is not kept", "session", j.claim.Session, "error", err)
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// bringSnapshotWork restores only the work of a snapshot.
func bringSnapshotWork(ctx context.Context, s *site, j job, id string, p *progress) (files, bytes int64, err error) {
	got, err := snapshots.Restore(ctx, j.host, s.Chunks, id, snapshots.RestoreSpec{
		Dirs: map[string]string{snapshots.Work: j.layout.WorkDir}, Fence: &j.fence, Logger: s.Logger,
		Progress: func(now snapshots.Progress) {
			p.set(SnapshotProgress{Step: "restoring", Entries: now.Entries, Files: now.ReadFiles, Bytes: now.ReadBytes})
		},
	})
	return got.Files, got.Bytes, err
}

func readBrought(ctx context.Context, j job) (b Brought, done bool, err error) {
	data, err := hostexec.ReadFile(ctx, j.host, broughtFile(j.layout), 64<<10)
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

func writeBrought(ctx context.Context, j job, b Brought) error {
	data, err := json.Marshal(b)
	if err == nil {
		err = hostexec.WriteFile(ctx, j.host, broughtFile(j.layout), data, 0o600, &j.fence)
	}
	if err != nil {
		return fmt.Errorf("note what is in the work folder: %w", err)
	}
	return nil
}

// inPlaceScript fails if a session's folder is really somewhere else: a process that
// worked here may have put a symbolic link in its place.
const inPlaceScript = `at=$(cd -P -- "$1" && pwd -P) || exit 1
for d in "$2" "$3"; do
	[ -n "$d" ] || continue
	here=$(cd -P -- "$1/$d" && pwd -P) || exit 1
	[ "$here" = "$at/$d" ] || { echo "$1/$d leads to $here" >&2; exit 4; }
done`

// inPlace returns an error if a session's folder, or its own work folder, is not really
// at its path.
func inPlace(ctx context.Context, h hostexec.Host, l protocol.Layout) error {
	at := path.Join(l.Root, "sessions")
	session := path.Base(l.Dir)
	work := ""
	if l.OwnWork {
		work = path.Join(session, "work")
	}
	_, err := h.Run(ctx, hostexec.Command{Script: inPlaceScript, Args: []string{at, session, work}})
	var exit *hostexec.ExitError
	if errors.As(err, &exit) && exit.Code == 4 {
		return &typedError{kind: protocol.ErrTypeWorkspace, hint: "somebody has put a symbolic link in the place of the session's folder; look what it is, and remove it",
			err: fmt.Errorf("work in %s on %s: %s", l.WorkDir, h.Name(), strings.TrimSpace(string(exit.Stderr)))}
	}
	if err != nil {
		return fmt.Errorf("look where %s on %s is: %w", l.Dir, h.Name(), err)
	}
	return nil
}

// A workState says what lies in a work folder before codex begins there.
type workState int

const (
	workRestored workState = iota // the session's earlier work
	workPrepared                  // what an earlier attempt of this preparation brought
	workEmpty                     // nothing
)

// workIn makes the work folder ready for codex. If the session begins here, workIn puts
// the first content there. Then it runs the hook before_run.
func workIn(ctx context.Context, s *site, j job, w *Workspace, state workState, hide secrets, p *progress) (brought *Brought, before *HookRun, err error) {
	if err := inPlace(ctx, j.host, j.layout); err != nil {
		return nil, nil, err
	}
	if w == nil {
		return nil, nil, nil
	}
	token, err := gitToken(ctx, s, j.claim.Session, w.Repo)
	if err != nil {
		return nil, nil, err
	}
	hide = hide.knowing(token)
	hidden := func(err error) error {
		if typed := (*typedError)(nil); errors.As(err, &typed) && typed.kind == protocol.ErrTypeWorkspace {
			typed.err = errors.New(hide.all.String(typed.err.Error()))
		}
		return err
	}
	switch state {
	case workPrepared: // an earlier attempt brought the content, and its answer may be lost
		if b, done, err := readBrought(ctx, j); err != nil {
			return nil, nil, err
		} else if done {
			brought = &b
		}
	case workEmpty:
		b, err := bringWork(ctx, s, j, w, token, hide, p)
		if err != nil {
			return nil, nil, hidden(err)
		}
		brought = &b
	}
	if strings.TrimSpace(w.Hooks.BeforeRun) == "" {
		return brought, nil, nil
	}
	p.step(HookBeforeRun)
	run, err := runHook(ctx, s, j, *w, HookBeforeRun, w.Hooks.BeforeRun, fmt.Sprintf("%d.%d", j.claim.Generation, j.claim.Pump), hide.all)
	if err == nil {
		err = run.err(j.host.Name(), w.Hooks.Timeout)
	}
	return brought, &run, hidden(err)
}

// workspaceJob returns a job with the fields that all jobs of a session's workspace
// share.
func workspaceJob(s *site, h hostexec.Host, l protocol.Layout, c protocol.Claim, attempt int32, stop <-chan struct{}) job {
	return job{site: s, host: h, layout: l, claim: c, fence: fenceOf(c, l.Dir, attempt), stop: stop}
}
