package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/seeds"
)

// ErrTypeLoginUnsaved: a login that codex rotated is on the host and in no
// store; the seed's own recovery has to fetch it before anything is wiped.
const ErrTypeLoginUnsaved = "login_unsaved"

// WipeLeftoverInput: take from a host what a session left there that ended
// while nobody could clean up. Claim's generation is above the session's.
type WipeLeftoverInput struct {
	Claim Claim `json:"claim"`
	// Generation and ThreadID are the session's, as far as they are known: they
	// find the archive that closing it may have made.
	Generation int64  `json:"generation,omitempty"`
	ThreadID   string `json:"thread_id,omitempty"`
	// Found is the claim's generation of the first try. What is kept of a folder
	// that does not say whose it is has its name from that, so that every try
	// keeps the same; 0 is that of this claim.
	Found int64 `json:"found,omitempty"`
	// Seed is what was planted, if anything was; only its name may be known.
	Seed *SeedRef `json:"seed,omitempty"`
	// Layout is where the session lived; empty where nobody knows.
	Layout Layout `json:"layout"`
	// Discard: a person said that what cannot be saved is given up.
	Discard bool `json:"discard,omitempty"`
	// Snapshot is how the session keeps its work, and the newest one that it
	// has (its parent), as far as that is known.
	Snapshot *SnapshotSpec `json:"snapshot,omitempty"`
}

// WipeLeftoverResult says what is certain about the host afterwards.
type WipeLeftoverResult struct {
	Wiped   bool      `json:"wiped"`   // the credential is gone, looked at
	At      time.Time `json:"at"`      // when that was looked at
	Removed bool      `json:"removed"` // our folder is gone, looked at
	// Kept is the folder that stays because nothing proves that its work and
	// conversation are kept anywhere else.
	Kept      string     `json:"kept,omitempty"`
	Archive   string     `json:"archive,omitempty"`
	Survivors []Survivor `json:"survivors,omitempty"`
	// GivenUp says that a rotated login went with it, which nobody waits for:
	// somebody said discard, or gave the seed other content since.
	GivenUp bool `json:"given_up,omitempty"`
}

// WipeLeftover ends what a session left running on a host, wipes its
// credential and looks, and removes its folder if the work in it is kept
// elsewhere or was given up. A login that was rotated and is not saved stays,
// with an error: the seed's recovery goes first. Repeating it is safe.
func (s *Sessions) WipeLeftover(ctx context.Context, in WipeLeftoverInput) (WipeLeftoverResult, error) {
	attempt := activity.GetInfo(ctx).Attempt
	in.Claim = in.Claim.behind(in.Generation)
	out, err := s.wipeLeftover(ctx, in, attempt, s.ask)
	f := failing{epoch: in.Claim.epoch(attempt)}
	return out, f.failure(ctx, fmt.Sprintf("wipe what session %s left on %s", in.Claim.Session, in.Claim.Host.Name), err)
}

// seedAnswer asks the workflow that owns a seed; ok is false where there is none.
type seedAnswer func(ctx context.Context, name string) (now SeedNow, ok bool, err error)

func (s *site) askSeed(ctx context.Context, name string) (now SeedNow, ok bool, err error) {
	if s.Temporal == nil {
		return now, false, errors.New("this worker has no way to the seed's workflow")
	}
	v, err := s.Temporal.QueryWorkflow(ctx, SeedWorkflowID(name), "", QuerySeedNow)
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return now, false, nil
	}
	if err == nil {
		err = v.Get(&now)
	}
	if err != nil {
		return now, false, fmt.Errorf("ask what is known of seed %s: %w", name, err)
	}
	return now, true, nil
}

func (s *Sessions) wipeLeftover(ctx context.Context, in WipeLeftoverInput, attempt int32, ask seedAnswer) (WipeLeftoverResult, error) {
	var out WipeLeftoverResult
	h, err := s.host(in.Claim.Host)
	if err != nil {
		return out, err
	}
	l := in.Layout
	if l == (Layout{}) {
		root, err := hostexec.Root(ctx, h, in.Claim.Host)
		if err != nil {
			return out, fmt.Errorf("find the root folder: %w", err)
		}
		l = layoutOf(root, in.Claim.Session)
	}
	if err := l.check(in.Claim.Session); err != nil {
		return out, err
	}
	f, err := lookFolder(ctx, h, l.Dir)
	if err != nil {
		return out, err
	}
	if in.Generation > 0 && f.mark.Generation > in.Generation {
		// The session is back: what it had left there it has seen to itself.
		out.Wiped, out.Removed, out.At = true, true, s.Now()
		return out, nil
	}
	planted := orPlanted(f.mark.Seed, in.Seed)
	var seed *SeedNow
	if !f.mark.Parked && !f.mark.Brokered { // else there is no login
		if seed, err = s.seedLeft(ctx, in.Claim.Session, planted, ask); err != nil {
			return out, err // before the fence is raised: the recovery needs its own
		}
	}
	if !f.there {
		out.Survivors, err = endUnrecorded(ctx, h, l, in.Claim, attempt)
		out.Wiped, out.Removed, out.At = err == nil, err == nil, s.Now()
		return out, err
	}
	if f.mark.Dir != "" {
		l.WorkDir, l.OwnWork = f.mark.Dir, false
	}
	ran, err := anyRuns(ctx, h, l)
	if err != nil {
		return out, err
	}
	if out.Survivors, err = endEvery(ctx, h, l, in.Claim, attempt); err != nil {
		return out, err
	}
	if out.GivenUp, err = s.loginLeft(ctx, h, l, seed); err != nil {
		return out, err
	}
	if ran || len(out.Survivors) > 0 {
		f.mark.Parked = false
	}
	err = s.takeAway(ctx, h, l, in, f.mark, attempt, planted, seed, &out)
	return out, err
}

// seedLeft is what the owner of the seed that was planted for a session knows,
// nil where there is no such seed any more. While the seed waits for what is on
// the host, only its recovery may touch it.
func (s *Sessions) seedLeft(ctx context.Context, session string, planted *SeedRef, ask seedAnswer) (*SeedNow, error) {
	if planted == nil || planted.Kind != "" && !planted.rotates() {
		return nil, nil // nothing of it can be used only once
	}
	now, ok, err := ask(ctx, planted.Name)
	if err != nil || !ok {
		return nil, err
	}
	// A session that holds it anew, somewhere else, has nothing to do with this.
	ours := func(epoch int64) bool { return planted.Epoch == 0 || epoch == 0 || epoch == planted.Epoch }
	rotates := now.Ref.rotates()
	if epoch, held := now.Holders[session]; rotates && held && ours(epoch) {
		return nil, unsaved(planted.Name, "seed %s still counts session %s as its holder, and may want what codex made of it", planted.Name, session)
	}
	if rotates && now.Rotated != nil && now.Rotated.Holder == session && ours(now.Rotated.Epoch) {
		return nil, unsaved(planted.Name, "seed %s waits for a login that was rotated in session %s and is not saved", planted.Name, session)
	}
	return &now, nil
}

func unsaved(seed, format string, args ...any) error {
	return &typedError{kind: ErrTypeLoginUnsaved, err: fmt.Errorf(format, args...),
		hint: "the seed fetches it by itself; `ctl seed show " + seed + "` says what it waits for, `ctl seed revive " + seed + "` gives it up"}
}

// loginLeft looks, after codex has ended, whether the login on the host is one
// that only the host has. It says whether that is one nobody waits for.
func (s *Sessions) loginLeft(ctx context.Context, h hostexec.Host, l Layout, seed *SeedNow) (givenUp bool, err error) {
	if seed == nil || !seed.Ref.rotates() {
		return false, nil
	}
	auth, _, err := readAuth(ctx, h, path.Join(l.CodexHome, "auth.json"), "")
	if err != nil {
		return false, fmt.Errorf("look at the login that was left: %w", err)
	}
	if auth == nil || seeds.AuthDigest(auth) == seed.Auth {
		return false, nil
	}
	// Neither held, nor waited for, nor the newest: either the seed has gone on
	// from it, or a person gave it up. Wiping it then loses nothing.
	return true, nil
}

// takeAway keeps what no snapshot has, wipes, looks, and removes what may be
// removed.
func (s *Sessions) takeAway(ctx context.Context, h hostexec.Host, l Layout, in WipeLeftoverInput, was folderMark, attempt int32, planted *SeedRef, seed *SeedNow, out *WipeLeftoverResult) error {
	fence := in.Claim.fence(l.Dir, attempt)
	kept, err := s.keepFolder(ctx, h, l, in, was, planted, seed)
	out.Archive = kept
	switch {
	case err == nil:
	case in.Discard && ctx.Err() == nil && !isBusy(err):
		// Discard gives up what cannot be saved, not what can.
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
	return s.removeFolder(ctx, h, l, fence)
}

// cannotBeKept says that trying again will not help: what is there stays there.
func cannotBeKept(err error) bool {
	if errors.Is(err, hostexec.ErrFenced) {
		return false
	}
	_, _, retry := failing{}.classify(err)
	return !retry
}

// keepFolder sees to it that what lies in a folder is in a snapshot. Empty and
// nil means that there was nothing worth keeping.
func (s *Sessions) keepFolder(ctx context.Context, h hostexec.Host, l Layout, in WipeLeftoverInput, was folderMark, planted *SeedRef, seed *SeedNow) (kept string, err error) {
	if s.isKept(ctx, h, l, was) {
		return was.Snapshot, nil
	}
	err = s.takes.inTurn(ctx, in.Claim.Host, func() (err error) {
		saving, cancel := whileSaving(ctx, in.Discard)
		defer cancel()
		kept, err = s.keepUnkept(saving, h, l, in, was, planted, seed)
		return err
	})
	return kept, err
}

func (s *Sessions) keepUnkept(ctx context.Context, h hostexec.Host, l Layout, in WipeLeftoverInput, was folderMark, planted *SeedRef, seed *SeedNow) (string, error) {
	before := in.Claim
	before.Generation = max(in.Generation, was.Generation)
	// Closing it may have made the last one before the host went away.
	last, err := s.archived(ctx, CloseSessionInput{Claim: before, ThreadID: in.ThreadID, Layout: l})
	if err != nil || last.whole {
		return last.id, err
	}
	hide, err := s.hidingLeft(ctx, h, l, in.Claim.Session, planted, seed)
	if err != nil {
		return "", err
	}
	finder := in.Claim
	finder.Generation = cmp.Or(in.Found, finder.Generation)
	return s.keepLeft(ctx, h, l, finder, before.Generation, in.Snapshot, hide)
}

// hidingLeft hides what was planted, as far as anybody knows it, what codex made
// of it, and what codex was told in secret: who left it may not have said whether
// it was told anything.
func (s *Sessions) hidingLeft(ctx context.Context, h hostexec.Host, l Layout, session string, planted *SeedRef, now *SeedNow) (secrets, error) {
	c := Claim{Session: session, Told: true}
	switch {
	case planted == nil:
		return s.hidingIn(ctx, c, nil)
	case planted.Blob != "":
	case now != nil && now.Ref != nil:
		planted = now.Ref
	default:
		return secrets{}, &typedError{kind: ErrTypeSeed, err: fmt.Errorf("seed %s is gone: nobody knows what must not be kept", planted.Name)}
	}
	sec, err := s.hidingIn(ctx, c, planted)
	if err != nil {
		return secrets{}, err
	}
	return sec, s.hidePlanted(ctx, h, l, sec)
}
