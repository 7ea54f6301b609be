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

// TakeSnapshot stores what a session needs to go on elsewhere. Every attempt makes the same
// snapshot, and a complete one is returned as it is. The work folder and codex's rollouts
// do not change; for a git work folder, the session's scratch folder for git does.
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

// Take makes the snapshot; nil if nothing is worth keeping yet.
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
		// The folder of this late attempt was replaced.
		return nil, &kit.TypedError{Kind: protocol.ErrTypeFenced, Err: fmt.Errorf("folder %s on %s now belongs to the newer generation %d of the session", in.Layout.Dir, h.Name(), f.Mark.Generation)}
	}
	in.Layout = f.Layout(in.Layout)
	if err := HidePlanted(ctx, s, h, in.Layout, hide); err != nil {
		return nil, err
	}
	id := SnapshotID(in.Claim.Session, in.At, in.Claim.Generation, in.N)
	return takeUnseen(ctx, s, h, Taking{TakeSnapshotInput: in, ID: id, Lived: true, Progress: p}, hide)
}

// TakenBefore is for a folder that is gone. If no earlier attempt made the snapshot, the
// session has to go on from a former one.
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

// errRefreshed says that codex's new login is not masked.
var errRefreshed = errors.New("the login was refreshed meanwhile")

// takeUnseen repeats a snapshot if codex refreshed its login before the snapshot is
// complete. So a complete snapshot never lacks a mask. Deleting one would be wrong: all
// attempts make the same snapshot, and the workflow may have it from an attempt that the
// server had given up.
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

const maxRefreshed = 3

// HidePlanted adds the secrets of the login that is on the host now; no other activity may
// have seen them.
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

// A Taking is a snapshot to be made.
type Taking struct {
	TakeSnapshotInput
	ID       string
	OwnWork  bool                       // without a person's own work folder, which stays
	Left     bool                       // what a session left on a host
	Lived    bool                       // codex runs or just ran there, so the folders must exist
	sure     func(known []string) error // gets the masked secrets before the snapshot is complete; may be nil
	Progress *kit.Progress
}

// SnapshotID names a generation's n-th snapshot.
func SnapshotID(session string, at time.Time, generation int64, n int) string {
	return IdOf(session, at, fmt.Sprintf("taken %s %d %d", session, generation, n))
}

// LeftID names the snapshot of what a generation left on a host. A generation is about the
// Unix time of its start; if the folder records none (0), the claim's counts. earlier is
// the number of earlier snapshots that lack files or are of something else.
func LeftID(c protocol.Claim, generation int64, earlier int) string {
	of := fmt.Sprintf("left %s %d on %s", c.Session, generation, c.Host.Name)
	if generation <= 0 {
		generation = c.Generation
		of = fmt.Sprintf("left %s unmarked on %s, found for %d", c.Session, c.Host.Name, generation)
	}
	return IdOf(c.Session, time.Unix(max(generation, 0), 0), of+Again(earlier))
}

// Again makes a repeated snapshot's id differ.
func Again(earlier int) string {
	if earlier == 0 {
		return ""
	}
	return fmt.Sprintf(" again %d", earlier)
}

// IdOf returns an id that depends only on its arguments.
func IdOf(session string, at time.Time, of string) string {
	id, sum := snapshots.NewID(session, at), sha256.Sum256([]byte(of))
	mark := hex.EncodeToString(sum[:3])
	return id[:len(id)-len(mark)] + mark
}

// takeOn makes a snapshot and reads every byte back; nil if nothing is worth keeping.
func takeOn(ctx context.Context, s *site.Site, h hostexec.Host, in Taking, hide site.Secrets) (*SnapshotBrief, error) {
	l, own := in.Layout, ""
	if l.OwnWork && in.Policy.Work != protocol.WorkNone {
		own = l.WorkDir // a person's folder is not the session's work
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

// Trees returns the folders to keep. It skips our root folder inside a person's folder.
func (in Taking) Trees() []snapshots.TreeSpec {
	l := in.Layout
	all := []snapshots.TreeSpec{snapshots.RolloutsOf(l.CodexHome)}
	if in.Policy.Work == protocol.WorkNone || in.OwnWork && !l.OwnWork || l.WorkDir == "/" { // the whole machine
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

// MadeBy reports whether in describes m. Equal ids do not prove that: few of their bits
// depend on in.
func MadeBy(m snapshots.Manifest, in Taking) bool {
	return m.Session == in.Claim.Session && m.Host == in.Claim.Host.Name && m.Generation == in.Claim.Generation &&
		m.ThreadID == in.ThreadID && m.Left == in.Left
}

// Manifest returns a complete snapshot's manifest.
func Manifest(ctx context.Context, s *site.Site, id string) (snapshots.Manifest, error) {
	return snapshots.Read(ctx, s.Store, id)
}

// Bring restores a snapshot into folders that do not exist or that an earlier attempt made,
// and returns how the work differs.
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

const (
	maxDiffers    = 10
	maxDifference = 200 // bytes
)

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
