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
	// Generation and ThreadID, as far as known, identify the snapshot that closing may have
	// made.
	Generation int64  `json:"generation,omitempty"`
	ThreadID   string `json:"thread_id,omitempty"`
	// Found is the generation of the first try's claim; 0 means Claim's. By it every try
	// makes the same snapshot of a folder without a generation.
	Found int64 `json:"found,omitempty"`
	// Seed is nil, or the planted seed, perhaps only its name.
	Seed *protocol.SeedRef `json:"seed,omitempty"`
	// Layout is empty if not known.
	Layout protocol.Layout `json:"layout"`
	// Discard says that a person has given up what cannot be saved.
	Discard bool `json:"discard,omitempty"`
	// Snapshot says how the work is kept, and names the parent, if known.
	Snapshot *snaps.SnapshotSpec `json:"snapshot,omitempty"`
}

// WipeLeftoverResult says what is certain about the host afterwards.
type WipeLeftoverResult struct {
	Wiped   bool      `json:"wiped"` // the credential is gone (checked)
	At      time.Time `json:"at"`
	Removed bool      `json:"removed"` // our folder is gone (checked)
	// Kept is the folder that stays because nothing proves that its content is kept
	// elsewhere.
	Kept      string             `json:"kept,omitempty"`
	Archive   string             `json:"archive,omitempty"`
	Survivors []process.Survivor `json:"survivors,omitempty"`
	// GivenUp says that a rotated login was wiped that a person discarded or has replaced
	// in the seed.
	GivenUp bool `json:"given_up,omitempty"`
}

// WipeLeftover ends what a session left running on a host and wipes its credential. It
// removes the folder if the work is kept elsewhere or was given up. It fails and keeps a
// rotated login that is not saved, because the seed's recovery must save it first.
func (s *Activities) WipeLeftover(ctx context.Context, in WipeLeftoverInput) (WipeLeftoverResult, error) {
	attempt := activity.GetInfo(ctx).Attempt
	in.Claim = folder.ClaimBehind(in.Claim, in.Generation)
	out, err := WipeLeftover(ctx, s.Site, in, attempt, s.Site.Ask)
	f := kit.Failing{Epoch: folder.EpochOf(in.Claim, attempt)}
	return out, f.Failure(ctx, fmt.Sprintf("wipe what session %s left on %s", in.Claim.Session, in.Claim.Host.Name), err)
}

// WipeLeftover does the activity's work.
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
	known := in.Layout != (protocol.Layout{})
	f, err := hosts.LookSession(ctx, s, h, in.Claim, l, known || !in.Discard)
	if in.Discard && errors.Is(err, folder.ErrStray) {
		s.Logger.Warn("links of a session's folder are removed", "session", in.Claim.Session, "host", h.Name(), "error", err)
		f, err = lookWithoutLinks(ctx, s, h, in.Claim, l, known, attempt)
	}
	missing := kit.IsRootMissing(err) && in.Discard && known
	if err != nil && !missing {
		return out, err
	}
	l = f.Layout(l)
	if in.Generation > 0 && f.Mark.Generation > in.Generation {
		// The session is back and has cleaned up there.
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
			return out, err // before the fence is raised: the seed's recovery uses a lower epoch
		}
	}
	if missing {
		// given up without a look at the folder
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

// seedLeft asks the planted seed's workflow what it knows, or returns nil if there is none,
// or no login that rotates. It fails while the seed waits for the login on the host, which
// only the seed's recovery may touch.
func seedLeft(ctx context.Context, s *site.Site, session string, planted *protocol.SeedRef, ask inquiry.SeedAnswer) (*inquiry.SeedNow, error) {
	if planted == nil || planted.Kind != "" && !folder.LoginRotates(planted) {
		return nil, nil
	}
	now, ok, err := ask(ctx, planted.Name)
	if err != nil || !ok {
		return nil, err
	}
	if now.Forgot(session, planted.Epoch) {
		return &now, nil // an unknown lease: see HeldAnew and LoginLeft
	}
	// a newer lease on another host does not concern this login
	ours := func(epoch int64) bool { return planted.Epoch == 0 || epoch == 0 || epoch == planted.Epoch }
	rotates := folder.LoginRotates(now.Ref)
	if epoch, held := now.Holders[session]; rotates && held && ours(epoch) {
		return nil, unsaved(planted.Name, "seed %s still counts session %s as its holder, and may need a login that codex rotated", planted.Name, session)
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

// onlyThere returns the error for a login of which the host may have the only copy. A seed
// takes no login whose lease is not known (epoch 0).
func onlyThere(planted *protocol.SeedRef, format string, args ...any) error {
	seed := planted.Name
	hint := "the login is saved as soon as seed " + seed + " exists and has no holder; `ctl seed show " + seed + "` names the holder"
	if planted.Epoch == 0 {
		hint = "the lease under which the login was planted is not known, so the login is not saved by itself; to keep it, copy the auth.json and import it with `ctl seed import " + seed + " DIR`"
	}
	return &kit.TypedError{Kind: protocol.ErrTypeLoginUnsaved, Err: fmt.Errorf(format, args...),
		Hint: hint + "; closing with --discard gives the login up, and so does `ctl seed revive " + seed + "` while nothing else of the seed is in doubt"}
}

// IsUnsaved reports whether an error is of type ErrTypeLoginUnsaved.
func IsUnsaved(err error) bool {
	kind, _, _ := kit.Failing{}.Classify(err)
	return kind == protocol.ErrTypeLoginUnsaved
}

// HeldAnew returns an error if a seed's workflow that was started anew has granted the seed
// to the session again, and wiping the login on the host may lose it. Call it before a
// fence is raised: the new lease's recovery uses a lower epoch.
func HeldAnew(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, session string, planted *protocol.SeedRef, seed *inquiry.SeedNow) error {
	if seed == nil || planted == nil || !seed.Forgot(session, planted.Epoch) {
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

// mayLose reads the login on a host, if any. lost reports whether wiping may lose it: the
// seed does not have it, and it is newer than the planted one or cannot be compared.
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

// LoginLeft finds out, after codex has ended, whether only the host has the login, and
// saves one whose lease no workflow knows. givenUp says that nobody waits for the login. If
// it cannot be saved, the error is ErrTypeLoginUnsaved.
func LoginLeft(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, session string, planted *protocol.SeedRef, seed *inquiry.SeedNow) (givenUp bool, err error) {
	switch {
	case planted == nil || planted.Kind != "" && !folder.LoginRotates(planted):
		return false, nil
	case seed == nil, seed.Forgot(session, planted.Epoch):
		return false, saveForgotten(ctx, s, h, l, session, planted, seed)
	case !folder.LoginRotates(seed.Ref):
		return false, nil
	}
	auth, _, err := kit.ReadAuth(ctx, h, path.Join(l.CodexHome, "auth.json"), "")
	if err != nil {
		return false, fmt.Errorf("look at the login that was left: %w", err)
	}
	// Nobody waits for it: the seed has a later one, or a person gave this one up.
	return auth != nil && seeds.AuthDigest(auth) != seed.Auth, nil
}

// saveForgotten saves a login whose lease no workflow knows.
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
		return onlyThere(&left, "codex may have rotated the login in %s on %s, and that login is not in the store: %w", l.CodexHome, h.Name(), err)
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

// takeAway makes a snapshot of what is in none, wipes the credential, and removes the
// folder if allowed.
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
	if err := seeds.Wipe(ctx, h, l.CodexHome, l.Seen(), &fence); err != nil {
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

// cannotBeKept reports whether another try to make a snapshot is useless.
func cannotBeKept(err error) bool {
	if errors.Is(err, hostexec.ErrFenced) {
		return false
	}
	_, _, retry := kit.Failing{}.Classify(err)
	return !retry
}

// KeepFolder makes sure that a folder's content is in a snapshot, and returns the
// snapshot's id, or "" if nothing was worth keeping.
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
	// Closing may have made it before the host was lost.
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

// hidingLeft returns the secrets to hide in what a session left: of the planted seed as far
// as known, of the login that codex made of it, and secret answers. It sets Told because
// nobody may have recorded whether there were such answers.
func hidingLeft(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, session string, planted *protocol.SeedRef, now *inquiry.SeedNow) (site.Secrets, error) {
	c := protocol.Claim{Session: session, Told: true}
	switch {
	case planted == nil:
		return site.HidingIn(ctx, s, c, nil)
	case planted.Blob != "":
	case now != nil && now.Ref != nil:
		planted = now.Ref
	default:
		return site.Secrets{}, &kit.TypedError{Kind: protocol.ErrTypeSeed, Err: fmt.Errorf("seed %s is gone, so its secrets are not known and cannot be kept out of the snapshot", planted.Name)}
	}
	sec, err := site.HidingIn(ctx, s, c, planted)
	if err != nil {
		return site.Secrets{}, err
	}
	return sec, snaps.HidePlanted(ctx, s, h, l, sec)
}
