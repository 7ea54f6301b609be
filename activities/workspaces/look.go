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

// A Place is where a session is now.
type Place struct {
	Claim     protocol.Claim    `json:"claim"`
	Layout    protocol.Layout   `json:"layout"`
	Seed      *protocol.SeedRef `json:"seed,omitempty"`
	Workspace *Workspace        `json:"workspace,omitempty"`
	Commit    string            `json:"commit,omitempty"`
	Turn      int               `json:"turn,omitempty"` // the newest begun
	// Busy says that a turn, or processes that it left, may still write.
	Busy bool `json:"busy,omitempty"`
}

func (p Place) still(waitFor string) error {
	if !p.Busy {
		return nil
	}
	return &kit.TypedError{Kind: protocol.ErrTypeTurnRuns, Err: fmt.Errorf("turn %d of session %s may still change the work folder, so the files would not be from one point in time", p.Turn, p.Claim.Session), Hint: waitFor}
}

func (p Place) unchanged(now Place, waitFor string) error {
	if now.Turn == p.Turn && !now.Busy && now.Claim.Generation == p.Claim.Generation {
		return nil
	}
	return &kit.TypedError{Kind: protocol.ErrTypeTurnRuns, Err: fmt.Errorf("a turn of session %s began while the files were read, so they may not be from one point in time", p.Claim.Session), Hint: waitFor}
}

// QueryPlace asks a session's workflow for its Place.
const QueryPlace = "place"

// ErrNoPlace says that the session is on no host.
var ErrNoPlace = errors.New("the session is on no host now")

const maxWorkDiff = 32 << 20

// WorkPlaceOf asks a session's workflow for its Place.
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

// Workfolders reads sessions' work folders for the worker's API.
type Workfolders struct {
	Site  *site.Site
	Where func(ctx context.Context, session string) (Place, error)
}

// NewWorkfolders makes Workfolders.
func NewWorkfolders(s *site.Site) *Workfolders {
	return &Workfolders{s, func(ctx context.Context, session string) (Place, error) { return WorkPlaceOf(ctx, s, session) }}
}

// WorkDiff compares a session's work folder with its first content, with known secrets
// overwritten. Unless moving is set, it fails if a turn runs or began meanwhile.
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
	w.Site.IfFlood(ctx, err)
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

// WorkDiff compares the work folder at a known place.
func WorkDiff(ctx context.Context, s *site.Site, p Place) (protocol.WorkDiff, error) {
	out := protocol.WorkDiff{Session: p.Claim.Session}
	hide, err := site.HidingIn(ctx, s, p.Claim, p.Seed)
	if err != nil {
		return out, err
	}
	if !p.Layout.OwnWork {
		return out, &kit.TypedError{Kind: protocol.ErrTypeBadInput, Err: fmt.Errorf("cannot compare %s: it is your own folder (--dir), and its content at the start of the session was not recorded", p.Layout.WorkDir),
			Hint: "use git there, or --turn"}
	}
	h, err := s.Host(p.Claim.Host)
	if err != nil {
		return out, err
	}
	base, start, err := startOf(ctx, s, h, p)
	if err != nil {
		return out, err
	}
	// Not in the session's tmp, where codex's commands write.
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

// startOf returns the commit or tree of the first content and the folder of its git
// objects: "" is the work folder, "snapshot" says that the tree must be made of a snapshot.
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
	return "", "", nil // it began empty
}

func startDir(l protocol.Layout) string { return path.Join(workspaceDir(l), "start") }

func startTree(ctx context.Context, s *site.Site, h hostexec.Host, p Place, at string) (tree, objects string, err error) {
	files := at + "/files"
	_, err = h.Run(ctx, hostexec.Command{Script: `umask 077; mkdir -p -- "${1%/*}" && mkdir -- "$1"`, Args: []string{at}})
	if err == nil {
		_, err = snapshots.Restore(ctx, h, s.Chunks, p.Workspace.Snapshot, snapshots.RestoreSpec{Dirs: map[string]string{snapshots.Work: files}, Logger: s.Logger})
	}
	if err != nil {
		removeScratch(ctx, s, h, p.Layout, at)
		return "", "", fmt.Errorf("restore the first content of the work folder: %w", err)
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
