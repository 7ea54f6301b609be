package activities

import (
	"context"
	"errors"
	"fmt"
	"path"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/snapshots"
)

// An arrival is the folder that a PrepareSession works in.
type arrival struct {
	layout Layout
	mark   folderMark // what it says in the end
	ours   bool       // prepared before, by this generation
	marked bool       // the folder says so already
	warm   bool       // as this session left it when it was parked
}

// fresh says that there was nothing before that could be worked in.
func (a arrival) fresh() bool { return !a.ours && !a.warm }

// arrive finds a folder to work in: the one that this generation has prepared
// before, the one in which the session was parked, or none, after what lies in
// its place was ended, kept and removed. With cannot, which says why nothing can
// be restored, only what is there will do, and stays as it is otherwise.
func (s *Sessions) arrive(ctx context.Context, h hostexec.Host, l Layout, in PrepareSessionInput, cannot error, attempt int32, hide secrets) (arrival, error) {
	a := arrival{layout: l, mark: folderMark{Generation: in.Claim.Generation, Seed: in.Seed, Brokered: in.Credentials == CredentialsBroker}}
	f, err := lookFolder(ctx, h, l.Dir)
	if err != nil {
		return a, err
	}
	dir := in.Dir
	switch {
	case f.mark.Generation == in.Claim.Generation && f.prepared:
		// Parked, and then not given back: it is at work again.
		a.ours, a.marked = true, !f.mark.Parked
		a.mark.Restored, a.mark.From, a.mark.Left, dir = f.mark.Restored, f.mark.From, f.mark.Left, f.mark.Dir
		a.mark.Differs = f.mark.Differs
		if in.Restore != nil && in.Restore.Warm == in.Claim.Generation {
			a.mark.Restored, a.mark.Differs = RestoredWarm, ""
		}
	case in.Restore != nil && f.parkedBy(in.Restore.Warm, in.Restore.Snapshot) && f.mark.sameSecrets(in.Seed):
		if a.warm, err = s.asLeft(ctx, h, l, in.Claim, attempt); err != nil {
			return a, err
		}
		f.mark.Parked = false // where somebody was at work
	}
	switch {
	case a.warm:
		a.mark.Restored, a.mark.From, dir = RestoredWarm, f.mark.Snapshot, f.mark.Dir
	case a.ours:
	case cannot != nil:
		return a, cannot
	case f.there && f.mark.Generation == in.Claim.Generation:
		// Begun by an attempt that did not come to its end: nothing has run here.
		a.mark.Left = f.mark.Left
		if f.mark.From != in.Restore.from() {
			err = s.undo(ctx, h, l, in, attempt)
		}
	case f.there:
		a.mark.Left, err = s.clearOut(ctx, h, l, f.mark, in, attempt, hide)
		if err == nil && f.mark.login() != nil && in.Seed.rotates() && in.Seed.Name == f.mark.Seed.Name {
			a.mark.Seed, err = s.newest(ctx, in.Claim.Session, in.Seed)
		}
	}
	if err != nil {
		return a, err
	}
	if a.fresh() && in.Restore.from() != "" {
		a.mark.Restored, a.mark.From = RestoredSnapshot, in.Restore.Snapshot
		dir = "" // never over a person's folder
	}
	if dir != "" && dir != in.Dir {
		dir, err = personsDir(ctx, h, dir)
	}
	if dir != "" {
		a.layout.WorkDir, a.layout.OwnWork, a.mark.Dir = dir, false, dir
	}
	return a, err
}

// newest is the generation of a seed to plant after a login was saved back: the
// one that the session was told of may be spent by now.
func (s *site) newest(ctx context.Context, session string, told *SeedRef) (*SeedRef, error) {
	now, err := s.desk.now(ctx, told.Name)
	if err != nil || now.Ref == nil || now.Holders[session] != told.Epoch {
		return told, err
	}
	ref := *now.Ref
	ref.Generation, ref.Epoch = now.Generation, told.Epoch
	return &ref, nil
}

// undo removes what an attempt brought that did not come to its end, and that is
// not what is to be brought now.
func (s *Sessions) undo(ctx context.Context, h hostexec.Host, l Layout, in PrepareSessionInput, attempt int32) error {
	fence := in.Claim.fence(l.Dir, attempt)
	for _, gone := range []string{l.CodexHome, layoutOf(l.Root, in.Claim.Session).WorkDir, path.Join(l.Dir, markFile)} {
		if err := hostexec.RemoveTree(ctx, h, gone, l.Dir, &fence); err != nil {
			return fmt.Errorf("begin anew: %w", err)
		}
	}
	return nil
}

// from is the snapshot that is asked for; empty where none is.
func (r *RestoreSpec) from() string {
	if r == nil {
		return ""
	}
	return r.Snapshot
}

// asLeft says whether nothing runs in a folder in which a session was parked,
// and sees to it that nothing will.
func (s *Sessions) asLeft(ctx context.Context, h hostexec.Host, l Layout, c Claim, attempt int32) (bool, error) {
	ran, err := anyRuns(ctx, h, l)
	if err != nil {
		return false, err
	}
	survivors, err := endEvery(ctx, h, l, c, attempt)
	return err == nil && !ran && len(survivors) == 0, err
}

// anyRuns says whether a process of the session's runs.
func anyRuns(ctx context.Context, h hostexec.Host, l Layout) (bool, error) {
	names, err := processesIn(ctx, h, l)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		st, err := hostexec.InspectProcess(ctx, h, path.Join(l.Dir, "proc", name))
		if err != nil {
			return false, fmt.Errorf("look at %s on %s: %w", name, h.Name(), err)
		}
		if st.State == hostexec.ProcessRunning {
			return true, nil
		}
	}
	return false, nil
}

// clearOut takes away what another generation has left where a session is to
// live: what runs is ended, a login that codex rotated is saved back, what no
// snapshot has is kept as one, and only then is the folder removed.
func (s *Sessions) clearOut(ctx context.Context, h hostexec.Host, l Layout, was folderMark, in PrepareSessionInput, attempt int32, hide secrets) (left string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("what generation %d left in %s on %s stays there: %w", was.Generation, l.Dir, h.Name(), err)
		}
	}()
	was.Seed = orPlanted(was.Seed, in.Seed)
	login := was.login()
	mine := login != nil && in.Seed.rotates() && in.Seed.Name == login.Name
	var seed *SeedNow
	if login != nil && !mine {
		// Before the fence is raised: the seed's own recovery needs its own.
		if seed, err = s.seedLeft(ctx, in.Claim.Session, login, s.ask); err != nil {
			return "", err
		}
	}
	quiet, err := s.asLeft(ctx, h, l, in.Claim, attempt)
	if err != nil {
		return "", err
	}
	if mine {
		err = s.saveLogin(ctx, h, in.Claim.Session, l, in.Seed, hide)
	}
	if err != nil {
		return "", err
	}
	l.OwnWork = was.Dir == ""
	if !l.OwnWork {
		l.WorkDir = was.Dir
	}
	if !quiet || !s.isKept(ctx, h, l, was) {
		all, err := s.hidingLeft(ctx, h, l, in.Claim.Session, was.Seed, seed)
		if err != nil {
			return "", err
		}
		err = s.takes.inTurn(ctx, in.Claim.Host, func() (err error) {
			left, err = s.keepLeft(ctx, h, l, in.Claim, was.Generation, in.Snapshot, all.and(hide))
			return err
		})
		if err != nil {
			return "", err
		}
	}
	fence := in.Claim.fence(l.Dir, attempt)
	if err := seeds.Wipe(ctx, h, l.CodexHome, l.Dir, &fence); err != nil {
		return left, err
	}
	return left, s.removeFolder(ctx, h, l, fence)
}

// orPlanted is the seed of a folder that does not say which: most likely it is
// the one that the session has had all along.
func orPlanted(marked, known *SeedRef) *SeedRef {
	if marked != nil {
		return marked
	}
	return known
}

// isKept says whether a folder in which nothing has run since it was parked is
// in a snapshot that is there. One that was to hold the conversation alone does
// not keep work that goes with the folder.
func (s *site) isKept(ctx context.Context, h hostexec.Host, l Layout, was folderMark) bool {
	if !was.Parked || was.Snapshot == "" {
		return false
	}
	m, err := s.manifest(ctx, was.Snapshot)
	if err != nil || whole(m, was.Dir == "") != nil {
		return false
	}
	if was.Dir != "" || m.Work != WorkNone {
		return true
	}
	any, _, err := worthKeeping(ctx, h, l.Dir, l.WorkDir) // the rollouts are not in that place
	return err == nil && !any
}

// removeFolder tidies up in a person's folder, and removes ours; the credential
// was wiped.
func (s *site) removeFolder(ctx context.Context, h hostexec.Host, l Layout, fence hostexec.Fence) error {
	if !l.OwnWork {
		if err := removeMountPoints(ctx, h, l, fence); err != nil {
			return fmt.Errorf("the credential is wiped, %s stays on %s: %w", l.Dir, h.Name(), err)
		}
	}
	if err := hostexec.RemoveTree(ctx, h, l.Dir, path.Join(l.Root, "sessions"), &fence); err != nil {
		return fmt.Errorf("the credential is wiped, %s stays on %s: %w", l.Dir, h.Name(), err)
	}
	return nil
}

// keepLeft makes a snapshot of what a generation of a session left in its
// folder; 0 is one that nobody knows, since the folder does not say. Every
// attempt makes the same one. Empty where there was nothing.
func (s *site) keepLeft(ctx context.Context, h hostexec.Host, l Layout, c Claim, generation int64, spec *SnapshotSpec, hide secrets) (string, error) {
	finder := c
	if generation > 0 {
		c.Generation = generation
	}
	in := taking{TakeSnapshotInput: TakeSnapshotInput{Claim: c, Layout: l, SnapshotSpec: lastSpec(spec)}, ownWork: true, left: true}
	if l.OwnWork && in.Policy.Work == WorkNone {
		in.Policy.Work = WorkFull // the folder goes, and the session did not ask for that
	}
	// Whoever comes to it makes the same: the time is that of the generation.
	for earlier := 0; ; earlier++ {
		in.id = leftID(finder, generation, earlier)
		// One that lacks something is complete, and cannot be added to; nor can
		// one that is of something else, or of which nobody here can tell.
		m, err := s.manifest(ctx, in.id)
		if err == nil && (whole(m, l.OwnWork) != nil || !madeBy(m, in)) || errors.Is(err, snapshots.ErrIncomplete) || errors.Is(err, snapshots.ErrNewer) {
			continue
		}
		got, err := s.takeWhole(ctx, h, in, hide)
		if got == nil {
			return "", err
		}
		return got.ID, err
	}
}

// lastSpec is how a session's last snapshot is to be taken: by its own policy,
// or whole where nobody knows one, since what is not in it goes with the folder.
func lastSpec(spec *SnapshotSpec) SnapshotSpec {
	if spec == nil {
		return SnapshotSpec{Policy: SnapshotPolicy{Work: WorkFull}}
	}
	return *spec
}

// restorable reads the manifest of what a session is to go on from, and refuses
// what cannot be gone on from with the codex that is there.
func (s *site) restorable(ctx context.Context, in PrepareSessionInput, version string) (m snapshots.Manifest, err error) {
	if in.Restore.from() == "" {
		return m, nil
	}
	m, err = s.manifest(ctx, in.Restore.Snapshot)
	if err != nil {
		return m, fmt.Errorf("go on from snapshot %s: %w", in.Restore.Snapshot, err)
	}
	if m.Session != in.Claim.Session && !in.Restore.Fork {
		return m, badInput("snapshot %s is one of session %s: it can only be gone on from as a fork", m.ID, m.Session)
	}
	there, ok := parseVersion(version)
	made, known := parseVersion(m.CodexVersion)
	if ok && known && less(there, made) {
		return m, &typedError{kind: ErrTypeCodexVersion, hint: "bring codex " + m.CodexVersion + " or newer there with `ctl host provision`, or choose another host",
			err: fmt.Errorf("snapshot %s was made by codex %s, and %s has codex %s, which would not show all of its history", m.ID, m.CodexVersion, in.Claim.Host.Name, version)}
	}
	return m, nil
}
