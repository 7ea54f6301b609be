package activities

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// TakeSnapshot stores what a session needs to go on elsewhere. Every attempt makes the
// same snapshot, and a complete one is returned as it is. The work folder and codex's
// rollouts do not change. For a git work folder, the session's scratch folder for git
// on the host is written.
func (s *SnapActs) TakeSnapshot(ctx context.Context, in TakeSnapshotInput) (TakeSnapshotResult, error) {
	f := failing{epoch: epochOf(in.Claim, activity.GetInfo(ctx).Attempt)}
	what := "take a snapshot of session " + in.Claim.Session
	hide, err := hidingIn(ctx, s.site, in.Claim, in.Seed)
	if err != nil {
		return TakeSnapshotResult{}, f.failure(ctx, what, err)
	}
	f.hide = hide.all
	p, quiet := reportProgress(ctx)
	defer quiet()
	got, err := take(ctx, s.site, in, hide, p)
	return TakeSnapshotResult{Snapshot: got}, f.failure(ctx, what, err)
}

// take makes the snapshot; nil if there is nothing worth keeping yet.
func take(ctx context.Context, s *site, in TakeSnapshotInput, hide secrets, p *progress) (*SnapshotBrief, error) {
	if err := checkLayout(in.Layout, in.Claim.Session); err != nil {
		return nil, err
	}
	h, err := s.host(in.Claim.Host)
	if err != nil {
		return nil, err
	}
	done, err := s.takes.enter(ctx, in.Claim.Host)
	if err != nil {
		return nil, err
	}
	defer done()
	f, err := lookSession(ctx, s, h, in.Claim, in.Layout, true)
	switch {
	case err != nil:
		return nil, err
	case !f.there:
		return takenBefore(ctx, s, h, in)
	case f.mark.Generation > in.Claim.Generation:
		// This is a late attempt: the folder of its generation was replaced.
		return nil, &typedError{kind: protocol.ErrTypeFenced, err: fmt.Errorf("%s on %s is that of generation %d by now", in.Layout.Dir, h.Name(), f.mark.Generation)}
	}
	if err := hidePlanted(ctx, s, h, in.Layout, hide); err != nil {
		return nil, err
	}
	id := snapshotID(in.Claim.Session, in.At, in.Claim.Generation, in.N)
	return takeUnseen(ctx, s, h, taking{TakeSnapshotInput: in, id: id, lived: true, progress: p}, hide)
}

// takenBefore handles a folder that is gone. An earlier attempt may have made the
// snapshot before somebody removed the folder. If not, the session has to go on from a
// former snapshot.
func takenBefore(ctx context.Context, s *site, h hostexec.Host, in TakeSnapshotInput) (*SnapshotBrief, error) {
	m, err := manifest(ctx, s, snapshotID(in.Claim.Session, in.At, in.Claim.Generation, in.N))
	switch {
	case err == nil:
		return briefOf(m), nil
	case errors.Is(err, snapshots.ErrNotFound), errors.Is(err, snapshots.ErrIncomplete):
		return nil, folderGone(h, in.Layout.Dir, in.Claim.Session)
	}
	return nil, err
}

func folderGone(h hostexec.Host, dir, session string) error {
	return &typedError{kind: protocol.ErrTypeFolderGone, hint: "bring it back, or go on from a former snapshot: `ctl snapshot list " + session + "`",
		err: fmt.Errorf("%s is not on %s any more: somebody removed it", dir, h.Name())}
}

// errRefreshed means that codex has a new login whose secrets are not masked in the
// snapshot.
var errRefreshed = errors.New("the login was refreshed meanwhile")

// takeUnseen takes a snapshot while codex may refresh its login. Before it completes the
// snapshot, it checks whether the login was refreshed; if so, it takes the snapshot
// again. So no complete snapshot lacks a mask, and none has to be deleted. To delete one
// would be wrong: all attempts make the same snapshot, and the workflow may have it from
// an attempt that went on although the server had given it up.
func takeUnseen(ctx context.Context, s *site, h hostexec.Host, in taking, hide secrets) (*SnapshotBrief, error) {
	in.sure = func(known []string) error {
		if hide.auth == nil {
			return nil
		}
		if err := hidePlanted(ctx, s, h, in.Layout, hide); err != nil {
			return err
		}
		now, err := hide.fingerprints(s.Store)
		if err == nil && slices.ContainsFunc(now, func(f string) bool { return !slices.Contains(known, f) }) {
			err = errRefreshed
		}
		return err
	}
	for range maxRefreshed {
		got, err := takeOn(ctx, s, h, in, hide)
		if !errors.Is(err, errRefreshed) {
			return got, err
		}
		s.Logger.Info("snapshot is taken again: the login was refreshed meanwhile", "session", in.Claim.Session, "snapshot", in.id)
	}
	return nil, fmt.Errorf("the login of session %s is refreshed faster than a snapshot can be taken", in.Claim.Session)
}

// maxRefreshed is how often a snapshot is tried while the login changes.
const maxRefreshed = 3

// hidePlanted adds the secrets of the login that is on the host now. Codex may have
// just made it, and perhaps no other activity has seen it yet.
func hidePlanted(ctx context.Context, s *site, h hostexec.Host, l protocol.Layout, hide secrets) error {
	if hide.auth == nil {
		return nil
	}
	auth, _, err := readAuth(ctx, h, path.Join(l.CodexHome, "auth.json"), "")
	if err != nil {
		return fmt.Errorf("look for what is to be masked: %w", err)
	}
	hide.add(auth)
	return nil
}

// A taking describes one snapshot to be made.
type taking struct {
	TakeSnapshotInput
	id       string
	ownWork  bool                       // keep the work only if its folder is ours; a person's folder stays where it is
	left     bool                       // it is a snapshot of what a session left on a host
	lived    bool                       // codex runs in the folders, or has just run there, so they must exist
	sure     func(known []string) error // called with the masked secrets before the snapshot is complete; may be nil
	progress *progress
}

// snapshotID names the n-th snapshot of a session's generation.
func snapshotID(session string, at time.Time, generation int64, n int) string {
	return idOf(session, at, fmt.Sprintf("taken %s %d %d", session, generation, n))
}

// leftID names the snapshot of a folder that a generation of a session left on a host.
// If generation is 0, the folder records none, and the id has the generation of the
// claim for which the folder was found. The number of a generation is about the Unix
// time of its start. earlier is the number of earlier snapshots that lack what could not
// be read, or are of something else.
func leftID(c protocol.Claim, generation int64, earlier int) string {
	of := fmt.Sprintf("left %s %d on %s", c.Session, generation, c.Host.Name)
	if generation <= 0 {
		generation = c.Generation
		of = fmt.Sprintf("left %s unmarked on %s, found for %d", c.Session, c.Host.Name, generation)
	}
	return idOf(c.Session, time.Unix(max(generation, 0), 0), of+again(earlier))
}

// again returns a text that makes the id of a repeated snapshot differ from the earlier
// ones.
func again(earlier int) string {
	if earlier == 0 {
		return ""
	}
	return fmt.Sprintf(" again %d", earlier)
}

// idOf returns a snapshot id that depends only on its arguments.
func idOf(session string, at time.Time, of string) string {
	id, sum := snapshots.NewID(session, at), sha256.Sum256([]byte(of))
	mark := hex.EncodeToString(sum[:3])
	return id[:len(id)-len(mark)] + mark
}

// takeOn makes a snapshot of a session's folder; nil if there is nothing worth keeping.
// Before it returns, it reads every byte back from the store.
func takeOn(ctx context.Context, s *site, h hostexec.Host, in taking, hide secrets) (*SnapshotBrief, error) {
	l, own := in.Layout, ""
	if l.OwnWork && in.Policy.Work != protocol.WorkNone {
		own = l.WorkDir // a person's own folder does not count as the session's work
	}
	in.progress.step("looking")
	var must []string
	if in.lived {
		for _, tree := range in.trees() {
			must = append(must, tree.Dir)
		}
	}
	any, gone, err := worthKeeping(ctx, h, l.CodexHome, own, must...)
	if gone != "" {
		return nil, folderGone(h, gone, in.Claim.Session)
	}
	if err != nil || !any {
		return nil, err
	}
	spec := snapshots.TakeSpec{
		ID: in.id, Session: in.Claim.Session, Parent: in.Parent, At: in.At, Facts: in.facts(), Trees: in.trees(),
		Mask: hide.masker(), MaxBytes: cmp.Or(in.Policy.MaxBytes, s.Snapshots.MaxBytes), Logger: s.Logger,
		Progress: func(p snapshots.Progress) {
			in.progress.set(SnapshotProgress{Step: "taking", Entries: p.Entries, Files: p.ReadFiles, Bytes: p.ReadBytes})
		},
	}
	if spec.Secrets, err = hide.fingerprints(s.Store); err != nil {
		return nil, err
	}
	if in.sure != nil {
		spec.Sure = func() error { return in.sure(spec.Secrets) }
	}
	m, err := snapshots.Take(ctx, h, s.Chunks, spec)
	if err != nil {
		return nil, fmt.Errorf("keep its work and conversation: %w", err)
	}
	return briefOf(m), nil
}

// trees returns the folders to keep. If our root folder, with the files of all
// sessions, lies in a person's folder, it is skipped.
func (in taking) trees() []snapshots.TreeSpec {
	l := in.Layout
	all := []snapshots.TreeSpec{snapshots.RolloutsOf(l.CodexHome)}
	if in.Policy.Work == protocol.WorkNone || in.ownWork && !l.OwnWork || l.WorkDir == "/" { // / would be the whole machine
		return all
	}
	work := snapshots.WorkOf(l.WorkDir, in.Policy.Work, in.Policy.Exclude)
	work.Hollow = mountPoints
	if ours, inside := strings.CutPrefix(l.Root, strings.TrimSuffix(l.WorkDir, "/")+"/"); inside {
		work.Skip = func(p string) bool { return p == ours }
	}
	return append(all, work)
}

func (in taking) facts() snapshots.Facts {
	t := in.Thread
	return snapshots.Facts{
		ThreadID: in.ThreadID, Turn: in.Turn, Running: in.Running, CWD: cmp.Or(t.CWD, in.Layout.WorkDir),
		Sandbox: t.Sandbox, Permissions: t.Permissions, ApprovalPolicy: t.ApprovalPolicy, Model: t.Model, Effort: t.Effort,
		CodexVersion: in.CodexVersion, Host: in.Claim.Host.Name, Labels: in.Labels,
		Incarnation: in.Cursor.Incarnation, Offset: in.Cursor.Offset, Generation: in.Claim.Generation,
		Work: in.Policy.Work, Exclude: in.Policy.Exclude, Left: in.left,
		Policy: in.PolicyDigest, Confine: in.Confine, Budget: in.Budget,
	}
}

func briefOf(m snapshots.Manifest) *SnapshotBrief {
	b := &SnapshotBrief{ID: m.ID, Turn: m.Turn, At: m.CreatedAt, Files: m.Files, Bytes: m.Bytes, Added: m.AddedBytes}
	b.Unreadable, b.Unread = m.Unread(maxUnread, snapshots.Rollouts, snapshots.Work)
	return b
}

// madeBy reports whether a snapshot is the one that in describes. An equal id does not
// prove this, because only few bits of an id depend on the content of in.
func madeBy(m snapshots.Manifest, in taking) bool {
	return m.Session == in.Claim.Session && m.Host == in.Claim.Host.Name && m.Generation == in.Claim.Generation &&
		m.ThreadID == in.ThreadID && m.Left == in.left
}

// manifest reads the manifest of a complete snapshot.
func manifest(ctx context.Context, s *site, id string) (snapshots.Manifest, error) {
	return snapshots.Read(ctx, s.Store, id)
}

// bring restores a snapshot into folders that do not exist yet, or were made by an
// earlier attempt to restore it. It returns how the work differs from the kept work.
func bring(ctx context.Context, s *site, h hostexec.Host, l protocol.Layout, spec protocol.HostSpec, id string, fence hostexec.Fence, p *progress) (differs string, err error) {
	done, err := s.brings.enter(ctx, spec)
	if err != nil {
		return "", err
	}
	defer done()
	p.step("restoring")
	if err := snapshots.CheckLineage(ctx, s.Chunks, id); err != nil {
		return "", err
	}
	got, err := snapshots.Restore(ctx, h, s.Chunks, id, snapshots.RestoreSpec{
		Dirs:  map[string]string{snapshots.Rollouts: l.CodexHome, snapshots.Work: l.WorkDir},
		Fence: &fence, Logger: s.Logger,
		Progress: func(now snapshots.Progress) {
			p.set(SnapshotProgress{Step: "restoring", Entries: now.Entries, Files: now.ReadFiles, Bytes: now.ReadBytes})
		},
	})
	p.step("planting")
	return differsText(got.Differs), err
}

// Limits of the text that says how a restored work folder differs.
const (
	maxDiffers    = 10
	maxDifference = 200 // bytes of one difference
)

// differsText joins the first differences into one line.
func differsText(differs []string) string {
	var out []string
	for _, d := range differs[:min(len(differs), maxDiffers)] {
		if len(d) > maxDifference {
			d = d[:maxDifference] + "…"
		}
		out = append(out, strings.Join(strings.Fields(strings.ToValidUTF8(d, "?")), " "))
	}
	if more := len(differs) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}
