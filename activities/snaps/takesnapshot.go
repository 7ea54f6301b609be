package snaps

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

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// TakeSnapshot stores what a session needs to go on elsewhere. Every attempt makes the
// same snapshot, and a complete one is returned as it is. The work folder and codex's
// rollouts do not change. For a git work folder, the session's scratch folder for git
// on the host is written.
func (s *Activities) TakeSnapshot(ctx context.Context, in TakeSnapshotInput) (TakeSnapshotResult, error) {
	f := kit.Failing{Epoch: folder.EpochOf(in.Claim, activity.GetInfo(ctx).Attempt)}
	what := "take a snapshot of session " + in.Claim.Session
	hide, err := site.HidingIn(ctx, s.Site, in.Claim, in.Seed)
	if err != nil {
		return TakeSnapshotResult{}, f.Failure(ctx, what, err)
	}
	f.Hide = hide.All
	p, quiet := kit.ReportProgress(ctx)
	defer quiet()
	got, err := Take(ctx, s.Site, in, hide, p)
	return TakeSnapshotResult{Snapshot: got}, f.Failure(ctx, what, err)
}

// Take makes the snapshot; nil if there is nothing worth keeping yet.
func Take(ctx context.Context, s *site.Site, in TakeSnapshotInput, hide site.Secrets, p *kit.Progress) (*SnapshotBrief, error) {
	if err := folder.CheckLayout(in.Layout, in.Claim.Session); err != nil {
		return nil, err
	}
	h, err := s.Host(in.Claim.Host)
	if err != nil {
		return nil, err
	}
	done, err := s.Takes.Enter(ctx, in.Claim.Host)
	if err != nil {
		return nil, err
	}
	defer done()
	f, err := hosts.LookSession(ctx, s, h, in.Claim, in.Layout, true)
	switch {
	case err != nil:
		return nil, err
	case !f.There:
		return TakenBefore(ctx, s, h, in)
	case f.Mark.Generation > in.Claim.Generation:
		// This is a late attempt: the folder of its generation was replaced.
		return nil, &kit.TypedError{Kind: protocol.ErrTypeFenced, Err: fmt.Errorf("%s on %s is that of generation %d by now", in.Layout.Dir, h.Name(), f.Mark.Generation)}
	}
	if err := HidePlanted(ctx, s, h, in.Layout, hide); err != nil {
		return nil, err
	}
	id := SnapshotID(in.Claim.Session, in.At, in.Claim.Generation, in.N)
	return takeUnseen(ctx, s, h, Taking{TakeSnapshotInput: in, ID: id, Lived: true, Progress: p}, hide)
}

// TakenBefore handles a folder that is gone. An earlier attempt may have made the
// snapshot before somebody removed the folder. If not, the session has to go on from a
// former snapshot.
func TakenBefore(ctx context.Context, s *site.Site, h hostexec.Host, in TakeSnapshotInput) (*SnapshotBrief, error) {
	m, err := Manifest(ctx, s, SnapshotID(in.Claim.Session, in.At, in.Claim.Generation, in.N))
	switch {
	case err == nil:
		return briefOf(m), nil
	case errors.Is(err, snapshots.ErrNotFound), errors.Is(err, snapshots.ErrIncomplete):
		return nil, folderGone(h, in.Layout.Dir, in.Claim.Session)
	}
	return nil, err
}

func folderGone(h hostexec.Host, dir, session string) error {
	return &kit.TypedError{Kind: protocol.ErrTypeFolderGone, Hint: "bring it back, or go on from a former snapshot: `ctl snapshot list " + session + "`",
		Err: fmt.Errorf("%s is not on %s any more: somebody removed it", dir, h.Name())}
}

// errRefreshed means that codex has a new login whose secrets are not masked in the
// snapshot.
var errRefreshed = errors.New("the login was refreshed meanwhile")

// takeUnseen takes a snapshot while codex may refresh its login. Before it completes the
// snapshot, it checks whether the login was refreshed; if so, it takes the snapshot
// again. So no complete snapshot lacks a mask, and none has to be deleted. To delete one
// would be wrong: all attempts make the same snapshot, and the workflow may have it from
// an attempt that went on although the server had given it up.
func takeUnseen(ctx context.Context, s *site.Site, h hostexec.Host, in Taking, hide site.Secrets) (*SnapshotBrief, error) {
	in.sure = func(known []string) error {
		if hide.Auth == nil {
			return nil
		}
		if err := HidePlanted(ctx, s, h, in.Layout, hide); err != nil {
			return err
		}
		now, err := hide.Fingerprints(s.Store)
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
		s.Logger.Info("snapshot is taken again: the login was refreshed meanwhile", "session", in.Claim.Session, "snapshot", in.ID)
	}
	return nil, fmt.Errorf("the login of session %s is refreshed faster than a snapshot can be taken", in.Claim.Session)
}

// maxRefreshed is how often a snapshot is tried while the login changes.
const maxRefreshed = 3

// HidePlanted adds the secrets of the login that is on the host now. Codex may have
// just made it, and perhaps no other activity has seen it yet.
func HidePlanted(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, hide site.Secrets) error {
	if hide.Auth == nil {
		return nil
	}
	auth, _, err := kit.ReadAuth(ctx, h, path.Join(l.CodexHome, "auth.json"), "")
	if err != nil {
		return fmt.Errorf("look for what is to be masked: %w", err)
	}
	hide.Add(auth)
	return nil
}

// A Taking describes one snapshot to be made.
type Taking struct {
	TakeSnapshotInput
	ID       string
	OwnWork  bool                       // keep the work only if its folder is ours; a person's folder stays where it is
	Left     bool                       // it is a snapshot of what a session left on a host
	Lived    bool                       // codex runs in the folders, or has just run there, so they must exist
	sure     func(known []string) error // called with the masked secrets before the snapshot is complete; may be nil
	Progress *kit.Progress
}

// SnapshotID names the n-th snapshot of a session's generation.
func SnapshotID(session string, at time.Time, generation int64, n int) string {
	return IdOf(session, at, fmt.Sprintf("taken %s %d %d", session, generation, n))
}

// LeftID names the snapshot of a folder that a generation of a session left on a host.
// If generation is 0, the folder records none, and the id has the generation of the
// claim for which the folder was found. The number of a generation is about the Unix
// time of its start. earlier is the number of earlier snapshots that lack what could not
// be read, or are of something else.
func LeftID(c protocol.Claim, generation int64, earlier int) string {
	of := fmt.Sprintf("left %s %d on %s", c.Session, generation, c.Host.Name)
	if generation <= 0 {
		generation = c.Generation
		of = fmt.Sprintf("left %s unmarked on %s, found for %d", c.Session, c.Host.Name, generation)
	}
	return IdOf(c.Session, time.Unix(max(generation, 0), 0), of+Again(earlier))
}

// Again returns a text that makes the id of a repeated snapshot differ from the earlier
// ones.
func Again(earlier int) string {
	if earlier == 0 {
		return ""
	}
	return fmt.Sprintf(" again %d", earlier)
}

// IdOf returns a snapshot id that depends only on its arguments.
func IdOf(session string, at time.Time, of string) string {
	id, sum := snapshots.NewID(session, at), sha256.Sum256([]byte(of))
	mark := hex.EncodeToString(sum[:3])
	return id[:len(id)-len(mark)] + mark
}

// takeOn makes a snapshot of a session's folder; nil if there is nothing worth keeping.
// Before it returns, it reads every byte back from the store.
func takeOn(ctx context.Context, s *site.Site, h hostexec.Host, in Taking, hide site.Secrets) (*SnapshotBrief, error) {
	l, own := in.Layout, ""
	if l.OwnWork && in.Policy.Work != protocol.WorkNone {
		own = l.WorkDir // a person's own folder does not count as the session's work
	}
	in.Progress.Step("looking")
	var must []string
	if in.Lived {
		for _, tree := range in.Trees() {
			must = append(must, tree.Dir)
		}
	}
	any, gone, err := folder.WorthKeeping(ctx, h, l.CodexHome, own, must...)
	if gone != "" {
		return nil, folderGone(h, gone, in.Claim.Session)
	}
	if err != nil || !any {
		return nil, err
	}
	spec := snapshots.TakeSpec{
		ID: in.ID, Session: in.Claim.Session, Parent: in.Parent, At: in.At, Facts: in.facts(), Trees: in.Trees(),
		Mask: hide.Masker(), MaxBytes: cmp.Or(in.Policy.MaxBytes, s.Snapshots.MaxBytes), Logger: s.Logger,
		Progress: func(p snapshots.Progress) {
			in.Progress.Set(kit.SnapshotProgress{Step: "taking", Entries: p.Entries, Files: p.ReadFiles, Bytes: p.ReadBytes})
		},
	}
	if spec.Secrets, err = hide.Fingerprints(s.Store); err != nil {
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

// Trees returns the folders to keep. If our root folder, with the files of all
// sessions, lies in a person's folder, it is skipped.
func (in Taking) Trees() []snapshots.TreeSpec {
	l := in.Layout
	all := []snapshots.TreeSpec{snapshots.RolloutsOf(l.CodexHome)}
	if in.Policy.Work == protocol.WorkNone || in.OwnWork && !l.OwnWork || l.WorkDir == "/" { // / would be the whole machine
		return all
	}
	work := snapshots.WorkOf(l.WorkDir, in.Policy.Work, in.Policy.Exclude)
	work.Hollow = folder.MountPoints
	if ours, inside := strings.CutPrefix(l.Root, strings.TrimSuffix(l.WorkDir, "/")+"/"); inside {
		work.Skip = func(p string) bool { return p == ours }
	}
	return append(all, work)
}

func (in Taking) facts() snapshots.Facts {
	t := in.Thread
	return snapshots.Facts{
		ThreadID: in.ThreadID, Turn: in.Turn, Running: in.Running, CWD: cmp.Or(t.CWD, in.Layout.WorkDir),
		Sandbox: t.Sandbox, Permissions: t.Permissions, ApprovalPolicy: t.ApprovalPolicy, Model: t.Model, Effort: t.Effort,
		CodexVersion: in.CodexVersion, Host: in.Claim.Host.Name, Labels: in.Labels,
		Incarnation: in.Cursor.Incarnation, Offset: in.Cursor.Offset, Generation: in.Claim.Generation,
		Work: in.Policy.Work, Exclude: in.Policy.Exclude, Left: in.Left,
		Policy: in.PolicyDigest, Confine: in.Confine, Budget: in.Budget,
	}
}

func briefOf(m snapshots.Manifest) *SnapshotBrief {
	b := &SnapshotBrief{ID: m.ID, Turn: m.Turn, At: m.CreatedAt, Files: m.Files, Bytes: m.Bytes, Added: m.AddedBytes}
	b.Unreadable, b.Unread = m.Unread(maxUnread, snapshots.Rollouts, snapshots.Work)
	return b
}

// MadeBy reports whether a snapshot is the one that in describes. An equal id does not
// prove this, because only few bits of an id depend on the content of in.
func MadeBy(m snapshots.Manifest, in Taking) bool {
	return m.Session == in.Claim.Session && m.Host == in.Claim.Host.Name && m.Generation == in.Claim.Generation &&
		m.ThreadID == in.ThreadID && m.Left == in.Left
}

// Manifest reads the manifest of a complete snapshot.
func Manifest(ctx context.Context, s *site.Site, id string) (snapshots.Manifest, error) {
	return snapshots.Read(ctx, s.Store, id)
}

// Bring restores a snapshot into folders that do not exist yet, or were made by an
// earlier attempt to restore it. It returns how the work differs from the kept work.
func Bring(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, spec protocol.HostSpec, id string, fence hostexec.Fence, p *kit.Progress) (differs string, err error) {
	done, err := s.Brings.Enter(ctx, spec)
	if err != nil {
		return "", err
	}
	defer done()
	p.Step("restoring")
	if err := snapshots.CheckLineage(ctx, s.Chunks, id); err != nil {
		return "", err
	}
	got, err := snapshots.Restore(ctx, h, s.Chunks, id, snapshots.RestoreSpec{
		Dirs:  map[string]string{snapshots.Rollouts: l.CodexHome, snapshots.Work: l.WorkDir},
		Fence: &fence, Logger: s.Logger,
		Progress: func(now snapshots.Progress) {
			p.Set(kit.SnapshotProgress{Step: "restoring", Entries: now.Entries, Files: now.ReadFiles, Bytes: now.ReadBytes})
		},
	})
	p.Step("planting")
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
