package places

import (
	"context"
	"errors"
	"fmt"
	"path"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/snapshots"
)

type arrival struct {
	layout protocol.Layout
	mark   folder.FolderMark // to be written
	ours   bool              // prepared by this generation before
	marked bool              // the mark is written
	warm   bool              // unchanged since this session was parked here
}

func (a arrival) workState() workspaces.WorkState {
	switch {
	case a.mark.Restored != "":
		return workspaces.WorkRestored
	case a.ours:
		return workspaces.WorkPrepared
	case a.fresh():
		return workspaces.WorkEmpty
	}
	return workspaces.WorkRestored
}

func (a arrival) fresh() bool { return !a.ours && !a.warm }

// arrive finds a folder to work in: the one that this generation has prepared, or the one
// in which the session was parked. Otherwise it clears the place. If cannot is set, nothing
// can be restored: arrive accepts only an existing folder and removes nothing.
func arrive(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, in PrepareSessionInput, cannot error, attempt int32, hide site.Secrets) (arrival, error) {
	a := arrival{layout: l, mark: folder.FolderMark{Generation: in.Claim.Generation, Seed: in.Seed, Brokered: protocol.NoLoginOnHost(in.Credentials)}}
	f, err := folder.LookFolder(ctx, h, l.Dir)
	if err != nil {
		return a, err
	}
	there := f.Layout(l)
	dir := in.Dir
	switch {
	case f.Mark.Generation == in.Claim.Generation && f.Prepared:
		// A parked session may get the same host again.
		a.ours, a.marked = true, !f.Mark.Parked
		a.mark.Restored, a.mark.From, a.mark.Left, dir = f.Mark.Restored, f.Mark.From, f.Mark.Left, f.Mark.Dir
		a.mark.Differs, a.mark.Gateway = f.Mark.Differs, f.Mark.Gateway
		if in.Restore != nil && in.Restore.Warm == in.Claim.Generation {
			a.mark.Restored, a.mark.Differs = folder.RestoredWarm, ""
		}
	case in.Restore != nil && f.ParkedBy(in.Restore.Warm, in.Restore.Snapshot) && f.Mark.SameSecrets(in.Seed):
		if a.warm, err = asLeft(ctx, s, h, there, in.Claim, attempt); err != nil {
			return a, err
		}
		f.Mark.Parked = false // not warm: something ran there since
	}
	switch {
	case a.warm:
		a.mark.Restored, a.mark.From, dir = folder.RestoredWarm, f.Mark.Snapshot, f.Mark.Dir
	case a.ours:
		err = holdAnew(ctx, s, h, there, in, &a, f.Mark, attempt, hide)
	case cannot != nil:
		return a, cannot
	case f.There && f.Mark.Generation == in.Claim.Generation:
		// An earlier attempt did not finish: nothing has run here.
		a.mark.Left = f.Mark.Left
		err = folder.EraseGone(ctx, h, there, folder.FenceOf(in.Claim, l.Dir, attempt))
		if err == nil && f.Mark.From != in.Restore.From() {
			err = undoArrival(ctx, s, h, there, in, attempt)
		}
	case f.There:
		a.mark.Left, err = clearOut(ctx, s, h, there, f.Mark, in, attempt, hide)
		if err == nil && f.Mark.Login() != nil && folder.LoginRotates(in.Seed) && in.Seed.Name == f.Mark.Seed.Name {
			a.mark.Seed, err = newest(ctx, s, in.Claim.Session, in.Seed)
		}
	}
	if err != nil {
		return a, err
	}
	if a.fresh() && in.Restore.From() != "" {
		a.mark.Restored, a.mark.From = folder.RestoredSnapshot, in.Restore.Snapshot
		dir = "" // never over a person's folder
	}
	if dir != "" && dir != in.Dir {
		dir, err = personsDir(ctx, h, dir)
	}
	if !a.fresh() || f.There && f.Mark.Generation == in.Claim.Generation {
		a.layout = there // perhaps as an earlier release made it
	}
	if dir != "" {
		a.layout.WorkDir, a.layout.OwnWork, a.mark.Dir = dir, false, dir
	}
	return a, err
}

// holdAnew saves the login in a folder of ours that was planted under an earlier lease,
// before another one is planted over it.
func holdAnew(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, in PrepareSessionInput, a *arrival, was folder.FolderMark, attempt int32, hide site.Secrets) error {
	login := was.Login()
	if login == nil || a.mark.Brokered || !folder.LoginRotates(in.Seed) || login.Name != in.Seed.Name || login.Epoch == in.Seed.Epoch {
		return nil
	}
	if _, err := asLeft(ctx, s, h, l, in.Claim, attempt); err != nil {
		return err
	}
	if err := saveLogin(ctx, s, h, in.Claim.Session, l, in.Seed, hide, false); err != nil {
		return err
	}
	seed, err := newest(ctx, s, in.Claim.Session, in.Seed)
	a.mark.Seed, a.marked = seed, false
	return err
}

// newest returns the generation of a seed to plant after a login was saved: the refresh
// token of told may be spent.
func newest(ctx context.Context, s *site.Site, session string, told *protocol.SeedRef) (*protocol.SeedRef, error) {
	now, err := s.Desk.Now(ctx, told.Name)
	if err != nil || now.Ref == nil || now.Holders[session] != told.Epoch {
		return told, err
	}
	ref := *now.Ref
	ref.Generation, ref.Epoch = now.Generation, told.Epoch
	return &ref, nil
}

func undoArrival(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, in PrepareSessionInput, attempt int32) error {
	fence := folder.FenceOf(in.Claim, l.Dir, attempt)
	for _, gone := range []struct{ name, dir string }{{"codex-home", l.Seen()}, {"work", l.Seen()}, {folder.MarkFile, l.Dir}} {
		if err := hostexec.RemoveTree(ctx, h, path.Join(gone.dir, gone.name), gone.dir, &fence); err != nil {
			return fmt.Errorf("begin anew: %w", err)
		}
	}
	return nil
}

// asLeft ends the processes in a folder, and reports whether nothing has run there since
// the session was parked.
func asLeft(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, c protocol.Claim, attempt int32) (bool, error) {
	ran, err := anyRuns(ctx, h, l)
	if err != nil {
		return false, err
	}
	if ran {
		_, err = folder.EndEvery(ctx, h, l, c, attempt)
		return false, err
	}
	// Reap also finds a process that begins meanwhile.
	survivors, err := process.Reap(ctx, h, l.Dir, folder.Mark(c.Session, l), folder.FenceOf(c, l.Dir, attempt))
	if err != nil {
		return false, fmt.Errorf("end what codex left behind on %s: %w", h.Name(), err)
	}
	return len(survivors) == 0, nil
}

func anyRuns(ctx context.Context, h hostexec.Host, l protocol.Layout) (bool, error) {
	names, err := process.ListRunning(ctx, h, path.Join(l.Dir, "proc"), folder.ServerName(1))
	return len(names) > 0, err
}

// clearOut removes what another generation left in the session's place. left is the
// snapshot of what was in no snapshot yet.
func clearOut(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, was folder.FolderMark, in PrepareSessionInput, attempt int32, hide site.Secrets) (left string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("what generation %d left in %s on %s stays there: %w", was.Generation, l.Dir, h.Name(), err)
		}
	}()
	was.Seed = orPlanted(was.Seed, in.Seed)
	login := was.Login()
	mine := login != nil && folder.LoginRotates(in.Seed) && in.Seed.Name == login.Name
	var seed *inquiry.SeedNow
	if login != nil && !mine {
		// before the fence is raised: the seed's recovery uses a lower epoch
		if seed, err = seedLeft(ctx, s, in.Claim.Session, login, s.Ask); err == nil {
			err = HeldAnew(ctx, s, h, l, in.Claim.Session, login, seed)
		}
		if err != nil {
			return "", err
		}
	}
	quiet, err := asLeft(ctx, s, h, l, in.Claim, attempt)
	if err != nil {
		return "", err
	}
	if mine {
		err = saveLogin(ctx, s, h, in.Claim.Session, l, in.Seed, hide, false)
	} else {
		_, err = LoginLeft(ctx, s, h, l, in.Claim.Session, login, seed)
	}
	if err != nil {
		return "", err
	}
	l.OwnWork = was.Dir == ""
	if !l.OwnWork {
		l.WorkDir = was.Dir
	}
	if !quiet || !isKept(ctx, s, h, l, was) {
		all, err := hidingLeft(ctx, s, h, l, in.Claim.Session, was.Seed, seed)
		if err != nil {
			return "", err
		}
		err = s.Takes.InTurn(ctx, in.Claim.Host, func() (err error) {
			left, err = keepLeft(ctx, s, h, l, in.Claim, was.Generation, in.Snapshot, all.And(hide))
			return err
		})
		if err != nil {
			return "", err
		}
	}
	fence := folder.FenceOf(in.Claim, l.Dir, attempt)
	if err := seeds.Wipe(ctx, h, l.CodexHome, l.Seen(), &fence); err != nil {
		return left, err
	}
	return left, removeFolder(ctx, s, h, l, fence)
}

// orPlanted returns marked or known: most likely the session has always had that seed.
func orPlanted(marked, known *protocol.SeedRef) *protocol.SeedRef {
	if marked != nil {
		return marked
	}
	return known
}

// isKept reports whether a complete snapshot has all of a parked folder in which nothing
// has run since.
func isKept(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, was folder.FolderMark) bool {
	if !was.Parked || was.Snapshot == "" {
		return false
	}
	m, err := snaps.Manifest(ctx, s, was.Snapshot)
	if err != nil || snaps.Whole(m, was.Dir == "") != nil {
		return false
	}
	if was.Dir != "" || m.Work != protocol.WorkNone {
		return true
	}
	any, _, err := folder.WorthKeeping(ctx, h, l.Dir, l.WorkDir) // l.Dir has no rollouts itself: only the work counts
	return err == nil && !any
}

// removeFolder removes our folder, and what we made in a person's. The credential must have
// been wiped before.
func removeFolder(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, fence hostexec.Fence) error {
	if !l.OwnWork {
		if err := removeMountPoints(ctx, h, l, fence); err != nil {
			return fmt.Errorf("the credential is wiped, %s stays on %s: %w", l.Dir, h.Name(), err)
		}
	}
	if err := folder.Remove(ctx, h, l, fence); err != nil {
		return fmt.Errorf("the credential is wiped, %s stays on %s: %w", l.Dir, h.Name(), err)
	}
	return nil
}

// keepLeft makes a snapshot of what a generation (0 if unknown) left in its folder, the
// same on every attempt, or returns "" if that was nothing.
func keepLeft(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, c protocol.Claim, generation int64, spec *snaps.SnapshotSpec, hide site.Secrets) (string, error) {
	finder := c
	if generation > 0 {
		c.Generation = generation
	}
	in := snaps.Taking{TakeSnapshotInput: snaps.TakeSnapshotInput{Claim: c, Layout: l, SnapshotSpec: lastSpec(spec)}, OwnWork: true, Left: true}
	if l.OwnWork && in.Policy.Work == protocol.WorkNone {
		in.Policy.Work = protocol.WorkFull // the session did not ask for the removal of its work
	}
	for earlier := 0; ; earlier++ {
		in.ID = snaps.LeftID(finder, generation, earlier)
		// Another id is needed if this snapshot lacks something, is of something else, or
		// cannot be read by this version.
		m, err := snaps.Manifest(ctx, s, in.ID)
		if err == nil && (snaps.Whole(m, l.OwnWork) != nil || !snaps.MadeBy(m, in)) || errors.Is(err, snapshots.ErrIncomplete) || errors.Is(err, snapshots.ErrNewer) {
			continue
		}
		got, err := snaps.TakeWhole(ctx, s, h, in, hide)
		if got == nil {
			return "", err
		}
		return got.ID, err
	}
}

// lastSpec takes all work if the policy is not known, because the rest is lost with the
// folder.
func lastSpec(spec *snaps.SnapshotSpec) snaps.SnapshotSpec {
	if spec == nil {
		return snaps.SnapshotSpec{Policy: snaps.SnapshotPolicy{Work: protocol.WorkFull}}
	}
	return *spec
}

// restorable reads the manifest of the snapshot to go on from. It refuses one that the
// host's codex cannot resume.
func restorable(ctx context.Context, s *site.Site, in PrepareSessionInput, version string) (m snapshots.Manifest, err error) {
	if in.Restore.From() == "" {
		return m, nil
	}
	m, err = snaps.Manifest(ctx, s, in.Restore.Snapshot)
	if err != nil {
		return m, fmt.Errorf("go on from snapshot %s: %w", in.Restore.Snapshot, err)
	}
	if m.Session != in.Claim.Session && !in.Restore.Fork {
		return m, kit.BadInput("snapshot %s belongs to session %s: another session can continue from it only as a fork", m.ID, m.Session)
	}
	there, ok := kit.ParseVersion(version)
	made, known := kit.ParseVersion(m.CodexVersion)
	if ok && known && kit.Less(there, made) {
		return m, &kit.TypedError{Kind: protocol.ErrTypeCodexVersion, Hint: "bring codex " + m.CodexVersion + " or newer there with `ctl host provision`, or choose another host",
			Err: fmt.Errorf("snapshot %s was made by codex %s, and %s has codex %s, which would not show all of its history", m.ID, m.CodexVersion, in.Claim.Host.Name, version)}
	}
	return m, nil
}
