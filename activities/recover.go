package activities

import (
	"context"
	"fmt"
	"path"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/seeds"
)

// RecoverSeed fetches a rotating login from the host of a holder that has ended. It
// fences off everybody who acts there for that session. It ends codex, which might
// refresh the login again, and reads auth.json.
//
// A rotated login is stored, and returned as Saved, before anything is wiped. The caller
// then moves its pointer and calls RecoverSeed again with Saved as the Seed, and that
// call wipes. So a kill between any two steps loses nothing. If the login is neither the
// seed's nor can follow the seed's, RecoverSeed fails and the login stays. Work and
// rollouts always stay.
func (s *LoginActs) RecoverSeed(ctx context.Context, in RecoverSeedInput) (RecoverSeedResult, error) {
	attempt := activity.GetInfo(ctx).Attempt
	in.Claim = claimBehind(in.Claim, in.Generation)
	f := failing{epoch: epochOf(in.Claim, attempt)}
	what := "recover seed " + in.Seed.Name + " from host " + in.Claim.Host.Name
	hide, err := hiding(ctx, s.site, &in.Seed)
	if err != nil {
		return RecoverSeedResult{}, f.failure(ctx, what, err)
	}
	f.hide = hide.all
	out, err := recoverSeed(ctx, s.site, in, attempt, hide)
	return out, f.failure(ctx, what, f.untilRoom(err))
}

func recoverSeed(ctx context.Context, s *site, in RecoverSeedInput, attempt int32, hide secrets) (RecoverSeedResult, error) {
	var out RecoverSeedResult
	if err := checkID("session", in.Claim.Session); err != nil {
		return out, err
	}
	seed, err := s.bundle(ctx, &in.Seed)
	if err != nil {
		return out, err
	}
	h, err := s.host(in.Claim.Host)
	if err != nil {
		return out, err
	}
	root, err := hostexec.Root(ctx, h, in.Claim.Host)
	if err != nil {
		return out, fmt.Errorf("find the root folder: %w", err)
	}
	l := layoutOf(root, in.Claim.Session)
	f, err := lookSession(ctx, s, h, in.Claim, l, true)
	if err != nil {
		return out, err
	}
	if !f.exists {
		// The lock is not taken, because that would create the folder. Processes are
		// found by their mark.
		if _, err := endUnrecorded(ctx, h, l, in.Claim, attempt); err != nil {
			return out, err
		}
		return RecoverSeedResult{Absent: true, Wiped: true}, nil
	}
	if in.Generation > 0 && f.mark.Generation > in.Generation {
		// The session is back. Before it began to work, it saved the login that it
		// found.
		return RecoverSeedResult{Absent: true, Wiped: true}, nil
	}
	if _, err := endEvery(ctx, h, l, in.Claim, attempt); err != nil {
		return out, err
	}
	auth, _, err := readAuth(ctx, h, path.Join(l.CodexHome, "auth.json"), "")
	if err != nil {
		return out, err
	}
	if out.Absent = auth == nil; !out.Absent {
		hide.add(auth)
		rotation, err := compareAuth(seed.Auth(), auth)
		if err != nil {
			return out, fmt.Errorf("nothing was wiped in %s: %w", l.CodexHome, err)
		}
		if rotation == seeds.RotationLater {
			ref, files, err := storeRotated(ctx, s, &in.Seed, auth)
			if err != nil {
				return out, fmt.Errorf("a rotated login stays in %s: %w", l.CodexHome, err)
			}
			out.Saved, out.Files, out.Auth = &ref, files, seeds.AuthDigest(auth)
			return out, nil
		}
		out.Absent = rotation == seeds.RotationLoggedOut
	}
	fence := fenceOf(in.Claim, l.Dir, attempt)
	if err := seeds.Wipe(ctx, h, l.CodexHome, l.Dir, &fence); err != nil {
		return out, err
	}
	out.Wiped = true
	return out, nil
}
