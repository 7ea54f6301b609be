package activities

import (
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
	out, err := s.wipeLeftover(ctx, in, attempt, s.askSeed)
	f := failing{epoch: in.Claim.epoch(attempt)}
	return out, f.failure(ctx, fmt.Sprintf("wipe what session %s left on %s", in.Claim.Session, in.Claim.Host.Name), err)
}

// seedAnswer asks the workflow that owns a seed; ok is false where there is none.
type seedAnswer func(ctx context.Context, name string) (now SeedNow, ok bool, err error)

func (s *site) askSeed(ctx context.Context, name string) (now SeedNow, ok bool, err error) {
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
	seed, err := s.seedLeft(ctx, in, ask)
	if err != nil {
		return out, err // before the fence is raised: the recovery needs its own
	}
	there, err := isThere(ctx, h, l.Dir)
	if err != nil {
		return out, err
	}
	if !there {
		out.Survivors, err = endUnrecorded(ctx, h, l, in.Claim, attempt)
		out.Wiped, out.Removed, out.At = err == nil, err == nil, s.Now()
		return out, err
	}
	if out.Survivors, err = endEvery(ctx, h, l, in.Claim, attempt); err != nil {
		return out, err
	}
	if out.GivenUp, err = s.loginLeft(ctx, h, l, in, seed); err != nil {
		return out, err
	}
	err = s.takeAway(ctx, h, l, in, attempt, seed, &out)
	return out, err
}

// seedLeft is what the owner of the session's seed knows, nil where there is no
// such seed any more. While the seed waits for what is on the host, only its
// recovery may touch it.
func (s *Sessions) seedLeft(ctx context.Context, in WipeLeftoverInput, ask seedAnswer) (*SeedNow, error) {
	if in.Seed == nil || in.Seed.Kind != "" && !in.Seed.rotates() {
		return nil, nil // nothing of it can be used only once
	}
	now, ok, err := ask(ctx, in.Seed.Name)
	if err != nil || !ok {
		return nil, err
	}
	rotates := now.Ref.rotates()
	if _, held := now.Holders[in.Claim.Session]; rotates && held {
		return nil, unsaved(in, "seed %s still counts session %s as its holder, and may want what codex made of it", in.Seed.Name, in.Claim.Session)
	}
	if rotates && now.Rotated != nil && now.Rotated.Holder == in.Claim.Session {
		return nil, unsaved(in, "seed %s waits for a login that was rotated in session %s and is not saved", in.Seed.Name, in.Claim.Session)
	}
	return &now, nil
}

func unsaved(in WipeLeftoverInput, format string, args ...any) error {
	return &typedError{kind: ErrTypeLoginUnsaved, err: fmt.Errorf(format, args...),
		hint: "the seed fetches it by itself; `ctl seed show " + in.Seed.Name + "` says what it waits for, `ctl seed revive " + in.Seed.Name + "` gives it up"}
}

// loginLeft looks, after codex has ended, whether the login on the host is one
// that only the host has. It says whether that is one nobody waits for.
func (s *Sessions) loginLeft(ctx context.Context, h hostexec.Host, l Layout, in WipeLeftoverInput, seed *SeedNow) (givenUp bool, err error) {
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

// takeAway wipes, looks, and removes what may be removed.
func (s *Sessions) takeAway(ctx context.Context, h hostexec.Host, l Layout, in WipeLeftoverInput, attempt int32, seed *SeedNow, out *WipeLeftoverResult) error {
	fence := in.Claim.fence(l.Dir, attempt)
	was := in.Claim
	was.Generation = in.Generation
	closing := CloseSessionInput{Claim: was, Layout: l, ThreadID: in.ThreadID, Discard: in.Discard}
	var unkept error
	if in.Discard {
		// Discard gives up what cannot be saved, not what can.
		hide, err := s.hidingLeft(ctx, h, l, in.Seed, seed)
		if err == nil {
			sctx, cancel := context.WithTimeout(ctx, discardAfter)
			out.Archive, err = s.archive(sctx, h, closing, hide)
			cancel()
		}
		if unkept = err; ctx.Err() != nil {
			return ctx.Err()
		}
	} else if id, err := s.archived(ctx, closing); err == nil {
		out.Archive = id
	}
	if unkept != nil {
		s.Logger.Warn("work of a discarded session could not be kept", "session", in.Claim.Session, "error", unkept)
	}
	if err := seeds.Wipe(ctx, h, l.CodexHome, l.Dir, &fence); err != nil {
		return err
	}
	out.Wiped, out.At = true, s.Now()
	if !in.Discard && out.Archive == "" {
		out.Kept = l.Dir
		return nil
	}
	if !l.OwnWork {
		if err := removeMountPoints(ctx, h, l, fence); err != nil {
			return err
		}
	}
	if err := hostexec.RemoveTree(ctx, h, l.Dir, path.Join(l.Root, "sessions"), &fence); err != nil {
		return fmt.Errorf("the credential is wiped, %s stays on %s: %w", l.Dir, h.Name(), err)
	}
	out.Removed = true
	return nil
}

// hidingLeft hides what was planted, as far as anybody knows it, and what
// codex made of it.
func (s *Sessions) hidingLeft(ctx context.Context, h hostexec.Host, l Layout, planted *SeedRef, now *SeedNow) (*seeds.Redactor, error) {
	switch {
	case planted == nil:
		return nil, nil
	case planted.Blob != "":
	case now != nil && now.Ref != nil:
		planted = now.Ref
	default:
		return nil, fmt.Errorf("seed %s is gone: nobody knows what must not be kept", planted.Name)
	}
	sec, err := s.hiding(ctx, planted)
	if err != nil {
		return nil, err
	}
	auth, _, err := readAuth(ctx, h, path.Join(l.CodexHome, "auth.json"), "")
	sec.add(auth)
	return sec.all, err
}
