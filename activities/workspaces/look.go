package workspaces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"go.temporal.io/api/serviceerror"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// A Place has the folders and the host of a session now, for callers that only read.
type Place struct {
	Claim     protocol.Claim    `json:"claim"`
	Layout    protocol.Layout   `json:"layout"`
	Seed      *protocol.SeedRef `json:"seed,omitempty"`
	Workspace *Workspace        `json:"workspace,omitempty"`
	Commit    string            `json:"commit,omitempty"`
	Turn      int               `json:"turn,omitempty"` // the newest turn that has begun
	// Busy says that a turn runs, or that processes which a turn left behind are being
	// ended.
	Busy bool `json:"busy,omitempty"`
}

// still returns an error if several files cannot be read as of one moment.
func (p Place) still(waitFor string) error {
	if !p.Busy {
		return nil
	}
	return &kit.TypedError{Kind: protocol.ErrTypeTurnRuns, Err: fmt.Errorf("turn %d of session %s writes there: what one gets would be of no one moment", p.Turn, p.Claim.Session), Hint: waitFor}
}

// unchanged returns an error if files that were read since p may not be of one moment.
func (p Place) unchanged(now Place, waitFor string) error {
	if now.Turn == p.Turn && !now.Busy && now.Claim.Generation == p.Claim.Generation {
		return nil
	}
	return &kit.TypedError{Kind: protocol.ErrTypeTurnRuns, Err: fmt.Errorf("a turn of session %s began meanwhile: what was read would be of no one moment", p.Claim.Session), Hint: waitFor}
}

// QueryPlace asks a session's workflow for its Place.
const QueryPlace = "place"

// ErrNoPlace says that the session is on no host now.
var ErrNoPlace = errors.New("the session is on no host now")

// maxWorkDiff is the largest size of a diff of a work folder, in bytes.
const maxWorkDiff = 32 << 20

// WorkPlaceOf asks a session where its work folder is.
func WorkPlaceOf(ctx context.Context, s *site.Site, session string) (p Place, err error) {
	if err := kit.CheckID("session", session); err != nil {
		return p, err
	}
	v, err := s.Temporal.QueryWorkflow(ctx, protocol.SessionID(session), "", QueryPlace)
	if err == nil {
		err = v.Get(&p)
	}
	if gone := (*serviceerror.NotFound)(nil); errors.As(err, &gone) {
		return p, &kit.TypedError{Kind: protocol.ErrTypeNotThere, Err: fmt.Errorf("there is no session %s", session), Hint: "`ctl session list` shows what there is"}
	}
	if err != nil {
		return p, fmt.Errorf("ask where session %s is: %w", session, err)
	}
	if p.Layout == (protocol.Layout{}) {
		return p, ErrNoPlace
	}
	return p, folder.CheckLayout(p.Layout, session)
}

// Workfolders reads the work folders of sessions for the worker's API.
type Workfolders struct {
	Site  *site.Site
	Where func(ctx context.Context, session string) (Place, error)
}

// NewWorkfolders returns the Workfolders of a site.
func NewWorkfolders(s *site.Site) *Workfolders {
	return &Workfolders{s, func(ctx context.Context, session string) (Place, error) { return WorkPlaceOf(ctx, s, session) }}
}

// WorkDiff compares a session's work folder with its first content. Known secrets are
// overwritten. It fails while a turn runs, or if a turn began meanwhile, unless moving is
// set.
func (w *Workfolders) WorkDiff(ctx context.Context, session string, moving bool) (protocol.WorkDiff, error) {
	const waitFor = "wait for its end; --while-running gives what is there all the same, --turn what codex says of its own edits"
	p, err := w.Where(ctx, session)
	if err == nil && !moving {
		err = p.still(waitFor)
	}
	if err != nil {
		return protocol.WorkDiff{}, err
	}
	d, err := WorkDiff(ctx, w.Site, p)
	if err == nil && !moving {
		err = w.unchanged(ctx, p, waitFor)
	}
	if err != nil {
		return protocol.WorkDiff{}, err
	}
	return d, nil
}

func (w *Workfolders) unchanged(ctx context.Context, p Place, waitFor string) error {
	now, err := w.Where(ctx, p.Claim.Session)
	if err != nil {
		return err
	}
	return p.unchanged(now, waitFor)
}

// WorkDiff does the work of the method of that name, at a known place.
func WorkDiff(ctx context.Context, s *site.Site, p Place) (protocol.WorkDiff, error) {
	out := protocol.WorkDiff{Session: p.Claim.Session}
	hide, err := site.HidingIn(ctx, s, p.Claim, p.Seed)
	if err != nil {
		return out, err
	}
	if !p.Layout.OwnWork {
		return out, &kit.TypedError{Kind: protocol.ErrTypeBadInput, Err: fmt.Errorf("nobody kept what %s was like when the session began", p.Layout.WorkDir),
			Hint: "--dir is your own folder: use git there, or --turn"}
	}
	h, err := s.Host(p.Claim.Host)
	if err != nil {
		return out, err
	}
	base, start, err := startOf(ctx, s, h, p)
	if err != nil {
		return out, err
	}
	// The folder is not in the session's tmp, because codex's commands write there.
	own := path.Join(workspaceDir(p.Layout), "diff-"+fmt.Sprint(s.Now().UnixNano()))
	if start == "snapshot" {
		base, start, err = startTree(ctx, s, h, p, own+".start")
		if err != nil {
			return out, err
		}
		defer removeScratch(ctx, s, h, p.Layout, own+".start")
	}
	work, err := realPath(ctx, h, p.Layout.WorkDir)
	if err != nil {
		return out, err
	}
	text, err := gitText(ctx, h, "diff", work, own, base, start)
	if err != nil {
		return out, err
	}
	if out.Cut = len(text) > maxWorkDiff; out.Cut {
		text = text[:bytes.LastIndexByte(text[:maxWorkDiff], '\n')+1]
	}
	out.Text = hide.All.String(strings.ToValidUTF8(string(text), "?"))
	return out, nil
}

// startOf returns the commit or tree of the first content of a session's work folder.
// objects is the folder of its git objects, or "" if they are in the work folder. If
// objects is "snapshot", the tree has to be made of a snapshot.
func startOf(ctx context.Context, s *site.Site, h hostexec.Host, p Place) (base, objects string, err error) {
	b, done, err := readBrought(ctx, Job{Host: h, Layout: p.Layout})
	switch {
	case err != nil:
		return "", "", err
	case done && b.Tree != "":
		return b.Tree, startDir(p.Layout), nil
	case p.Workspace != nil && p.Workspace.Snapshot != "":
		return "", "snapshot", nil
	case p.Commit != "" && p.Commit != "none":
		return p.Commit, "", nil
	}
	return "", "", nil // the work folder began empty
}

func startDir(l protocol.Layout) string { return path.Join(workspaceDir(l), "start") }

// startTree makes a git tree of the work in the snapshot with which a session began.
func startTree(ctx context.Context, s *site.Site, h hostexec.Host, p Place, at string) (tree, objects string, err error) {
	files := at + "/files"
	_, err = h.Run(ctx, hostexec.Command{Script: `umask 077; mkdir -p -- "${1%/*}" && mkdir -- "$1"`, Args: []string{at}})
	if err == nil {
		_, err = snapshots.Restore(ctx, h, s.Chunks, p.Workspace.Snapshot, snapshots.RestoreSpec{Dirs: map[string]string{snapshots.Work: files}, Logger: s.Logger})
	}
	if err != nil {
		removeScratch(ctx, s, h, p.Layout, at)
		return "", "", fmt.Errorf("make the start anew: %w", err)
	}
	text, err := gitText(ctx, h, "keep", files, at+"/objects", "", "")
	return strings.TrimSpace(string(text)), at + "/objects", err
}

func removeScratch(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, dir string) {
	ctx, cancel := kit.Afterwards(ctx)
	defer cancel()
	if err := hostexec.RemoveTree(ctx, h, dir, l.Dir, nil); err != nil {
		s.Logger.Warn("a scratch folder stays until its session closes", "host", h.Name(), "dir", dir, "error", err)
	}
}

// gitText runs gitScript for a work folder, and returns its output.
func gitText(ctx context.Context, h hostexec.Host, args ...string) ([]byte, error) {
	st, err := h.Start(ctx, hostexec.Command{Script: gitScript, Args: args, Bulk: true})
	if err != nil {
		return nil, err
	}
	defer st.Close()
	if err := st.CloseWrite(); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(st, maxWorkDiff+1))
	if err != nil || len(text) > maxWorkDiff {
		return text, err
	}
	err = st.Wait()
	var exit *hostexec.ExitError
	if errors.As(err, &exit) {
		why := lastLines(string(exit.Stderr), 1<<10)
		hint := "use --turn, which needs no git on the host"
		if exit.Code == repoNoGit {
			hint = "install git on the host, or " + hint
		}
		return nil, &kit.TypedError{Kind: protocol.ErrTypeWorkspace, Err: fmt.Errorf("look with git at the work folder on %s: %s", h.Name(), strings.TrimPrefix(why, "fairlead: ")), Hint: hint}
	}
	return text, err
}
