package places

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// WipeLeftoverInput names a session that ended while nobody could clean up its host.
// Claim's generation is above the session's.
type WipeLeftoverInput struct {
	Claim protocol.Claim `json:"claim"`
	// Generation and ThreadID are the session's, as far as they are known. They
	// identify the snapshot that closing the session may have made.
	Generation int64  `json:"generation,omitempty"`
	ThreadID   string `json:"thread_id,omitempty"`
	// Found is the generation of the claim of the first try; 0 means that of Claim. It
	// is part of the id of the snapshot of a folder that records no generation, so that
	// every try makes the same snapshot.
	Found int64 `json:"found,omitempty"`
	// Seed is the seed that was planted, if any. Perhaps only its name is known.
	Seed *protocol.SeedRef `json:"seed,omitempty"`
	// Layout has the session's folders; empty if they are not known.
	Layout protocol.Layout `json:"layout"`
	// Discard says that a person has given up whatever cannot be saved.
	Discard bool `json:"discard,omitempty"`
	// Snapshot says how the session's work is kept, and names its newest snapshot (the
	// parent), as far as these are known.
	Snapshot *snaps.SnapshotSpec `json:"snapshot,omitempty"`
}

// WipeLeftoverResult says what is certain about the host afterwards.
type WipeLeftoverResult struct {
	Wiped   bool      `json:"wiped"`   // the credential is gone; WipeLeftover checked this
	At      time.Time `json:"at"`      // time of the check
	Removed bool      `json:"removed"` // our folder is gone; WipeLeftover checked this
	// Kept is the folder that stays because nothing proves that its work and
	// conversation are kept anywhere else.
	Kept      string             `json:"kept,omitempty"`
	Archive   string             `json:"archive,omitempty"`
	Survivors []process.Survivor `json:"survivors,omitempty"`
	// GivenUp says that a rotated login for which nobody waits was wiped: a person
	// discarded it, or has given the seed other content since.
	GivenUp bool `json:"given_up,omitempty"`
}

// WipeLeftover ends what a session left running on a host, wipes its credential and
// checks that it is gone, and removes its folder if the work in it is kept elsewhere or
// was given up. If a login was rotated and is not saved, WipeLeftover fails and keeps
// it, because the seed's recovery must save it first. It may be repeated.
func (s *Activities) WipeLeftover(ctx context.Context, in WipeLeftoverInput) (WipeLeftoverResult, error) {
	attempt := activity.GetInfo(ctx).Attempt
	in.Claim = folder.ClaimBehind(in.Claim, in.Generation)
	out, err := WipeLeftover(ctx, s.Site, in, attempt, s.Site.Ask)
	f := kit.Failing{Epoch: folder.EpochOf(in.Claim, attempt)}
	return out, f.Failure(ctx, fmt.Sprintf("wipe what session %s left on %s", in.Claim.Session, in.Claim.Host.Name), err)
}

// WipeLeftover does the work of the activity of that name.
func WipeLeftover(ctx context.Context, s *site.Site, in WipeLeftoverInput, attempt int32, ask inquiry.SeedAnswer) (WipeLeftoverResult, error) {
	var out WipeLeftoverResult
	h, err := s.Host(in.Claim.Host)
	if err != nil {
		return out, err
	}
	l := in.Layout
	if l == (protocol.Layout{}) {
		root, err := hostexec.Root(ctx, h, in.Claim.Host)
		if err != nil {
			return out, fmt.Errorf("find the root folder: %w", err)
		}
		l = folder.LayoutOf(root, in.Claim.Session)
	}
	if err := folder.CheckLayout(l, in.Claim.Session); err != nil {
		return out, err
	}
	// With Discard and no layout, the caller believes that the session never began there.
	// That may be wrong, but a person has given up whatever is there.
	known := in.Layout != (protocol.Layout{})
	f, err := hosts.LookSession(ctx, s, h, in.Claim, l, known || !in.Discard)
	missing := kit.IsRootMissing(err) && in.Discard && known
	if err != nil && !missing {
		return out, err
	}
	if in.Generation > 0 && f.Mark.Generation > in.Generation {
		// The session is back and has cleaned up its leftover there.
		out.Wiped, out.Removed, out.At = true, true, s.Now()
		return out, nil
	}
	planted := orPlanted(f.Mark.Seed, in.Seed)
	var seed *inquiry.SeedNow
	if !f.Mark.Parked && !f.Mark.Brokered { // otherwise there is no login
		if seed, err = seedLeft(ctx, s, in.Claim.Session, planted, ask); err == nil && f.There && !in.Discard {
			err = HeldAnew(ctx, s, h, l, in.Claim.Session, planted, seed)
		}
		if err != nil {
			return out, err // before the fence is raised, because the recovery uses a lower epoch
		}
	}
	if missing {
		// A person gave it up. The folder was not looked at.
		s.Logger.Warn("what a session left is given up", "session", in.Claim.Session, "host", h.Name(), "error", err)
		out.GivenUp = seed != nil && folder.LoginRotates(seed.Ref)
		out.Survivors, err = hosts.GiveUpRoot(ctx, h, l, in.Claim, attempt)
		out.Kept, out.At = l.Dir, s.Now()
		hosts.ForgetRooted(ctx, s, in.Claim, in.Generation)
		return out, err
	}
	if !f.There {
		out.Survivors, err = folder.EndUnrecorded(ctx, h, l, in.Claim, attempt)
		out.Wiped, out.Removed, out.At = err == nil, err == nil, s.Now()
		if err == nil {
			hosts.ForgetRooted(ctx, s, in.Claim, in.Generation)
		}
		return out, err
	}
	if f.Mark.Dir != "" {
		l.WorkDir, l.OwnWork = f.Mark.Dir, false
	}
	ran, err := anyRuns(ctx, h, l)
	if err != nil {
		return out, err
	}
	if out.Survivors, err = folder.EndEvery(ctx, h, l, in.Claim, attempt); err != nil {
		return out, err
	}
	if !f.Mark.Parked && !f.Mark.Brokered {
		out.GivenUp, err = LoginLeft(ctx, s, h, l, in.Claim.Session, planted, seed)
	}
	switch {
	case err != nil && in.Discard && ctx.Err() == nil && IsUnsaved(err):
		s.Logger.Warn("a login that a session left is given up", "session", in.Claim.Session, "host", h.Name(), "error", err)
		out.GivenUp = true
	case err != nil:
		return out, err
	}
	if ran || len(out.Survivors) > 0 {
		f.Mark.Parked = false
	}
	err = takeAway(ctx, s, h, l, in, f.Mark, attempt, planted, seed, &out)
	if err == nil && out.Removed {
		hosts.ForgetRooted(ctx, s, in.Claim, in.Generation)
	}
	return out, err
}

// seedLeft asks the workflow of the planted seed what it knows. It returns nil if there
// is no such workflow, or if no login that rotates was planted. It fails while the seed
// waits for the login on the host, since only the seed's recovery may touch that login.
func seedLeft(ctx context.Context, s *site.Site, session string, planted *protocol.SeedRef, ask inquiry.SeedAnswer) (*inquiry.SeedNow, error) {
	if planted == nil || planted.Kind != "" && !folder.LoginRotates(planted) {
		return nil, nil // a login of this kind does not rotate
	}
	now, ok, err := ask(ctx, planted.Name)
	if err != nil || !ok {
		return nil, err
	}
	if now.Forgot(planted.Epoch) {
		return &now, nil // the seed's workflow does not know this lease: see HeldAnew and LoginLeft
	}
	// A newer lease, which the session holds on another host, does not concern this
	// login.
	ours := func(epoch int64) bool { return planted.Epoch == 0 || epoch == 0 || epoch == planted.Epoch }
	rotates := folder.LoginRotates(now.Ref)
	if epoch, held := now.Holders[session]; rotates && held && ours(epoch) {
		return nil, unsaved(planted.Name, "seed %s still counts session %s as its holder, and may want what codex made of it", planted.Name, session)
	}
	if rotates && now.Rotated != nil && now.Rotated.Holder == session && ours(now.Rotated.Epoch) {
		return nil, unsaved(planted.Name, "seed %s waits for a login that was rotated in session %s and is not saved", planted.Name, session)
	}
	return &now, nil
}

func unsaved(seed, format string, args ...any) error {
	return &kit.TypedError{Kind: protocol.ErrTypeLoginUnsaved, Err: fmt.Errorf(format, args...),
		Hint: "the seed fetches it by itself; `ctl seed show " + seed + "` says what it waits for, `ctl seed revive " + seed + "` gives it up"}
}

// onlyThere returns the error for a login that the seed does not know and of which the
// host may have the only copy. planted has its lease as far as it is known. A seed
// takes no login whose lease is not known (epoch 0).
func onlyThere(planted *protocol.SeedRef, format string, args ...any) error {
	seed := planted.Name
	hint := "it is saved as soon as seed " + seed + " exists and nobody holds it; `ctl seed show " + seed + "` says who does"
	if planted.Epoch == 0 {
		hint = "nothing says under which lease it was planted, so it is not saved by itself; copy the auth.json and import it with `ctl seed import " + seed + " DIR` to keep it"
	}
	return &kit.TypedError{Kind: protocol.ErrTypeLoginUnsaved, Err: fmt.Errorf(format, args...),
		Hint: hint + "; closing with --discard gives the login up, and so does `ctl seed revive " + seed + "` while nothing else of the seed is in doubt"}
}

// IsUnsaved reports whether an error says that a login is not saved.
func IsUnsaved(err error) bool {
	kind, _, _ := kit.Failing{}.Classify(err)
	return kind == protocol.ErrTypeLoginUnsaved
}

// HeldAnew returns an error if a seed's workflow that was started anew has granted the
// seed to the session again, and wiping the login on the host may lose the login. Call
// HeldAnew before a fence is raised: the new lease's recovery, which may have to fetch
// that login, uses a lower epoch.
func HeldAnew(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, session string, planted *protocol.SeedRef, seed *inquiry.SeedNow) error {
	if seed == nil || planted == nil || !seed.Forgot(planted.Epoch) {
		return nil
	}
	if _, held := seed.Holders[session]; !held {
		return nil
	}
	auth, lost, err := mayLose(ctx, s, h, l, planted, seed)
	if err != nil || auth == nil || !lost {
		return err
	}
	return onlyThere(planted, "seed %s was begun anew, session %s holds it again, and codex may have rotated the login in %s on %s before that",
		planted.Name, session, l.CodexHome, h.Name())
}

// mayLose reads the login on a host; auth is nil if there is none. lost reports whether
// wiping the login may lose it: the seed does not have it, and it is newer than the
// planted login or cannot be compared with that.
func mayLose(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, planted *protocol.SeedRef, seed *inquiry.SeedNow) (auth []byte, lost bool, err error) {
	auth, _, err = kit.ReadAuth(ctx, h, path.Join(l.CodexHome, "auth.json"), "")
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("look at the login that was left: %w", err)
	case auth == nil, seed != nil && seeds.AuthDigest(auth) == seed.Auth:
		return auth, false, nil
	case planted.Blob == "":
		return auth, true, nil
	}
	was, err := s.Bundle(ctx, planted)
	if err != nil || was == nil {
		return auth, true, nil // the planted login cannot be read
	}
	switch rotation, _ := kit.CompareAuth(was.Auth(), auth); rotation {
	case seeds.RotationNone, seeds.RotationEarlier, seeds.RotationLoggedOut:
		return auth, false, nil
	}
	return auth, true, nil
}

// After codex has ended, LoginLeft finds out whether only the host has the login.
// givenUp says that wiping the login gives it up and that nobody waits for it.
// LoginLeft saves a login whose lease no workflow knows. If that fails, the error is
// ErrTypeLoginUnsaved.
func LoginLeft(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, session string, planted *protocol.SeedRef, seed *inquiry.SeedNow) (givenUp bool, err error) {
	switch {
	case planted == nil || planted.Kind != "" && !folder.LoginRotates(planted):
		return false, nil // there is no login, or none that rotates
	case seed == nil, seed.Forgot(planted.Epoch):
		return false, saveForgotten(ctx, s, h, l, session, planted, seed)
	case !folder.LoginRotates(seed.Ref):
		return false, nil
	}
	auth, _, err := kit.ReadAuth(ctx, h, path.Join(l.CodexHome, "auth.json"), "")
	if err != nil {
		return false, fmt.Errorf("look at the login that was left: %w", err)
	}
	// Nobody holds this login or waits for it. If it is not the seed's newest, the seed
	// has a later one, or a person gave this one up. Wiping it loses nothing.
	return auth != nil && seeds.AuthDigest(auth) != seed.Auth, nil
}

// saveForgotten saves a login whose lease no workflow knows: the workflow that granted
// the lease was ended by force. So perhaps nobody has saved that login.
func saveForgotten(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, session string, planted *protocol.SeedRef, seed *inquiry.SeedNow) error {
	auth, lost, err := mayLose(ctx, s, h, l, planted, seed)
	if err != nil || auth == nil || !lost {
		return err
	}
	left := *planted
	if left.Blob == "" && seed != nil && seed.Ref != nil {
		left = *seed.Ref
		left.Epoch = planted.Epoch
	}
	unsaved := func(err error) error {
		switch kind, _, _ := (kit.Failing{}).Classify(err); {
		case kind == protocol.ErrTypeLoginUnsaved, kind == protocol.ErrTypeFenced, kind == protocol.ErrTypeWireLost, hosts.HostFault(kind):
			return err
		}
		return onlyThere(&left, "codex may have rotated the login in %s on %s, and that login is in no store: %w", l.CodexHome, h.Name(), err)
	}
	if left.Blob == "" {
		return unsaved(fmt.Errorf("seed %s does not exist", left.Name))
	}
	hide, err := site.Hiding(ctx, s, &left)
	if err != nil {
		return unsaved(err)
	}
	hide.Add(auth)
	if err := saveLogin(ctx, s, h, session, l, &left, hide, true); err != nil {
		return unsaved(hide.All.Error(err))
	}
	return nil
}

// takeAway makes a snapshot of what is in no snapshot yet, wipes the credential, checks
// that it is gone, and removes the folder if that is allowed.
func takeAway(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, in WipeLeftoverInput, was folder.FolderMark, attempt int32, planted *protocol.SeedRef, seed *inquiry.SeedNow, out *WipeLeftoverResult) error {
	fence := folder.FenceOf(in.Claim, l.Dir, attempt)
	kept, err := KeepFolder(ctx, s, h, l, in, was, planted, seed)
	out.Archive = kept
	switch {
	case err == nil:
	case in.Discard && ctx.Err() == nil && !kit.IsBusy(err):
		// Discard gives up only what cannot be saved.
		s.Logger.Warn("work of a discarded session could not be kept", "session", in.Claim.Session, "error", err)
	case !cannotBeKept(err):
		return fmt.Errorf("the work and the conversation stay on %s in %s for now: %w", h.Name(), l.Dir, err)
	}
	if err := seeds.Wipe(ctx, h, l.CodexHome, l.Dir, &fence); err != nil {
		return err
	}
	out.Wiped, out.At = true, s.Now()
	if err != nil && !in.Discard {
		s.Logger.Warn("what a session left stays on its host: it cannot be kept", "session", in.Claim.Session, "host", h.Name(), "error", err)
		out.Kept = l.Dir
		return nil
	}
	out.Removed = true
	return removeFolder(ctx, s, h, l, fence)
}

// cannotBeKept reports whether another try to make a snapshot is useless. The folder
// then stays.
func cannotBeKept(err error) bool {
	if errors.Is(err, hostexec.ErrFenced) {
		return false
	}
	_, _, retry := kit.Failing{}.Classify(err)
	return !retry
}

// KeepFolder makes sure that the content of a folder is in a snapshot, and returns the
// snapshot's id. "" with a nil error means that nothing was worth keeping.
func KeepFolder(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, in WipeLeftoverInput, was folder.FolderMark, planted *protocol.SeedRef, seed *inquiry.SeedNow) (kept string, err error) {
	if isKept(ctx, s, h, l, was) {
		return was.Snapshot, nil
	}
	err = s.Takes.InTurn(ctx, in.Claim.Host, func() (err error) {
		saving, cancel := whileSaving(ctx, in.Discard)
		defer cancel()
		kept, err = keepUnkept(saving, s, h, l, in, was, planted, seed)
		return err
	})
	return kept, err
}

func keepUnkept(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, in WipeLeftoverInput, was folder.FolderMark, planted *protocol.SeedRef, seed *inquiry.SeedNow) (string, error) {
	before := in.Claim
	before.Generation = max(in.Generation, was.Generation)
	// CloseSession may have made the last snapshot before the host was lost.
	last, err := isArchived(ctx, s, CloseSessionInput{Claim: before, ThreadID: in.ThreadID, Layout: l})
	if err != nil || last.whole {
		return last.id, err
	}
	hide, err := hidingLeft(ctx, s, h, l, in.Claim.Session, planted, seed)
	if err != nil {
		return "", err
	}
	finder := in.Claim
	finder.Generation = cmp.Or(in.Found, finder.Generation)
	return keepLeft(ctx, s, h, l, finder, before.Generation, in.Snapshot, hide)
}

// hidingLeft returns the secrets to hide in a folder that a session left: those of the
// planted seed as far as it is known, those of the login that codex made of it, and
// secret answers. It sets Told because perhaps nobody has recorded whether there were
// secret answers.
func hidingLeft(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, session string, planted *protocol.SeedRef, now *inquiry.SeedNow) (site.Secrets, error) {
	c := protocol.Claim{Session: session, Told: true}
	switch {
	case planted == nil:
		return site.HidingIn(ctx, s, c, nil)
	case planted.Blob != "":
	case now != nil && now.Ref != nil:
		planted = now.Ref
	default:
		return site.Secrets{}, &kit.TypedError{Kind: protocol.ErrTypeSeed, Err: fmt.Errorf("seed %s is gone: nobody knows what must not be kept", planted.Name)}
	}
	sec, err := site.HidingIn(ctx, s, c, planted)
	if err != nil {
		return site.Secrets{}, err
	}
	return sec, snaps.HidePlanted(ctx, s, h, l, sec)
}
