package logins

import (
	"context"
	"fmt"
	"path"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/seeds"
)

// RecoverSeed fetches a rotating login from the host of a holder that has ended. It fences
// off all others that act there for that session, and ends codex, which might refresh the
// login again.
//
// A rotated login is stored and returned as Saved, and nothing is wiped. The caller then
// moves its pointer and calls RecoverSeed again with Saved as the Seed, which wipes. So a
// kill between any two steps loses nothing. If the login is neither the seed's nor can
// follow it, RecoverSeed fails and the login stays. Work and rollouts always stay.
func (s *Activities) RecoverSeed(ctx context.Context, in inquiry.RecoverSeedInput) (inquiry.RecoverSeedResult, error) {
	attempt := activity.GetInfo(ctx).Attempt
	in.Claim = folder.ClaimBehind(in.Claim, in.Generation)
	f := kit.Failing{Epoch: folder.EpochOf(in.Claim, attempt)}
	what := "recover seed " + in.Seed.Name + " from host " + in.Claim.Host.Name
	hide, err := site.Hiding(ctx, s.Site, &in.Seed)
	if err != nil {
		return inquiry.RecoverSeedResult{}, f.Failure(ctx, what, err)
	}
	f.Hide = hide.All
	out, err := RecoverSeed(ctx, s.Site, in, attempt, hide)
	return out, f.Failure(ctx, what, f.UntilRoom(err))
}

// RecoverSeed does the work of the activity of that name.
func RecoverSeed(ctx context.Context, s *site.Site, in inquiry.RecoverSeedInput, attempt int32, hide site.Secrets) (inquiry.RecoverSeedResult, error) {
	var out inquiry.RecoverSeedResult
	if err := kit.CheckID("session", in.Claim.Session); err != nil {
		return out, err
	}
	seed, err := s.Bundle(ctx, &in.Seed)
	if err != nil {
		return out, err
	}
	h, err := s.Host(in.Claim.Host)
	if err != nil {
		return out, err
	}
	root, err := hostexec.Root(ctx, h, in.Claim.Host)
	if err != nil {
		return out, fmt.Errorf("find the root folder: %w", err)
	}
	l := folder.LayoutOf(root, in.Claim.Session)
	f, err := hosts.LookSession(ctx, s, h, in.Claim, l, true)
	if err != nil {
		return out, err
	}
	l = f.Layout(l)
	if !f.Exists {
		// To take the lock would create the folder. Processes are found by their mark.
		if _, err := folder.EndUnrecorded(ctx, h, l, in.Claim, attempt); err != nil {
			return out, err
		}
		return inquiry.RecoverSeedResult{Absent: true, Wiped: true}, nil
	}
	if in.Generation > 0 && f.Mark.Generation > in.Generation {
		// The session is back. It saved the login before it began to work.
		return inquiry.RecoverSeedResult{Absent: true, Wiped: true}, nil
	}
	if _, err := folder.EndEvery(ctx, h, l, in.Claim, attempt); err != nil {
		return out, err
	}
	auth, _, err := kit.ReadAuth(ctx, h, path.Join(l.CodexHome, "auth.json"), "")
	if err != nil {
		return out, err
	}
	if out.Absent = auth == nil; !out.Absent {
		hide.Add(auth)
		rotation, err := kit.CompareAuth(seed.Auth(), auth)
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
	fence := folder.FenceOf(in.Claim, l.Dir, attempt)
	if err := seeds.Wipe(ctx, h, l.CodexHome, l.Seen(), &fence); err != nil {
		return out, err
	}
	out.Wiped = true
	return out, nil
}
