package activities

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/seeds"
)

// ParkSession ends what a session has running on its host, saves its login, takes a
// snapshot, and only then wipes the credential. The folder stays for the session's
// return, with a mark of what it holds. Each step may be repeated. If one fails, the
// later ones are not done.
func (s *PlaceActs) ParkSession(ctx context.Context, in ParkSessionInput) (ParkSessionResult, error) {
	attempt := activity.GetInfo(ctx).Attempt
	f := failing{epoch: epochOf(in.Claim, attempt)}
	what := "park session " + in.Claim.Session
	hide, err := hidingIn(ctx, s.site, in.Claim, in.Seed)
	if err != nil {
		return ParkSessionResult{}, f.failure(ctx, what, err)
	}
	f.hide = hide.all
	p, quiet := reportProgress(ctx)
	defer quiet()
	out, err := parkSession(ctx, s.site, in, attempt, hide, p)
	return out, f.failure(ctx, what, f.untilRoom(err))
}

func parkSession(ctx context.Context, s *site, in ParkSessionInput, attempt int32, hide secrets, p *progress) (ParkSessionResult, error) {
	out := ParkSessionResult{Seq: in.Seq}
	l := in.Layout
	if err := checkLayout(l, in.Claim.Session); err != nil {
		return out, err
	}
	h, err := s.host(in.Claim.Host)
	if err != nil {
		return out, err
	}
	// It enters the gate before anything ends, so that a session that waits for its turn
	// goes on working meanwhile.
	done, err := s.takes.enter(ctx, in.Claim.Host)
	if err != nil {
		return out, err
	}
	defer done()
	f, err := lookSession(ctx, s, h, in.Claim, l, true)
	if err != nil {
		return out, err
	}
	if !f.there {
		out.Snapshot, err = parkedBefore(ctx, s, h, in, attempt)
	} else {
		if in.Workspace != nil && !f.mark.Parked {
			p.step("stopping")
			if _, err := endAll(ctx, h, l, in.Claim, in.Incarnation, attempt); err != nil {
				return out, stays(h, l, err)
			}
			in.Notes = append(in.Notes, lastHooks(ctx, s, workspaceJob(s, h, l, in.Claim, attempt, nil), in.Workspace, hide, HookAfterRun)...)
		}
		out.Snapshot, err = parkHere(ctx, s, h, in, f.mark, attempt, hide, p)
	}
	if err != nil {
		return out, err
	}
	out.Wiped = true
	out.Seq, err = record(ctx, s, in.Claim.Session, owner{in.Claim.Generation, in.Claim.Pump, 1}, in.Seq, in.Notes, hide.all)
	if err == nil {
		forgetRooted(ctx, s, in.Claim, in.Claim.Generation) // all is kept
	}
	return out, err
}

// parkHere parks a session whose folder exists.
func parkHere(ctx context.Context, s *site, h hostexec.Host, in ParkSessionInput, mark folderMark, attempt int32, hide secrets, p *progress) (*SnapshotBrief, error) {
	l, fence := in.Layout, fenceOf(in.Claim, in.Layout.Dir, attempt)
	p.step("stopping")
	if _, err := endAll(ctx, h, l, in.Claim, in.Incarnation, attempt); err != nil {
		return nil, stays(h, l, err)
	}
	p.step("saving the login")
	err := hidePlanted(ctx, s, h, l, hide)
	if err == nil {
		err = saveLogin(ctx, s, h, in.Claim.Session, l, in.Seed, hide, true)
	}
	if err != nil {
		return nil, stays(h, l, err)
	}
	id := snapshotID(in.Claim.Session, in.At, in.Claim.Generation, in.N)
	got, err := takeWhole(ctx, s, h, taking{TakeSnapshotInput: in.TakeSnapshotInput, id: id, lived: true, progress: p}, hide)
	if err != nil {
		return nil, stays(h, l, err)
	}
	p.step("wiping")
	if err := seeds.Wipe(ctx, h, l.CodexHome, l.Dir, &fence); err != nil {
		return nil, fmt.Errorf("snapshot %s is complete, the credential may still be there: %w", idOfBrief(got), err)
	}
	// If nothing was worth keeping, the mark names no snapshot.
	mark.Generation, mark.Parked, mark.Snapshot = in.Claim.Generation, true, ""
	if got != nil {
		mark.Snapshot = got.ID
	}
	return got, writeMark(ctx, h, l, mark, false, fence)
}

func idOfBrief(b *SnapshotBrief) string {
	if b == nil {
		return "(none)"
	}
	return b.ID
}

// parkedBefore handles a folder that is gone: an earlier attempt may have parked the
// session.
func parkedBefore(ctx context.Context, s *site, h hostexec.Host, in ParkSessionInput, attempt int32) (*SnapshotBrief, error) {
	if _, err := endUnrecorded(ctx, h, in.Layout, in.Claim, attempt); err != nil {
		return nil, err
	}
	return takenBefore(ctx, s, h, in.TakeSnapshotInput)
}
