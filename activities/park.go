package activities

import (
	"context"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/seeds"
)

// ParkSession ends what a session has running on its host, saves its login
// back, takes a snapshot, and then, and only then, wipes the credential. The
// folder stays for who comes back. Each step may be repeated; one that fails
// leaves the later ones undone.
func (s *Sessions) ParkSession(ctx context.Context, in ParkSessionInput) (ParkSessionResult, error) {
	attempt := activity.GetInfo(ctx).Attempt
	f := failing{epoch: in.Claim.epoch(attempt)}
	what := "park session " + in.Claim.Session
	hide, err := s.hiding(ctx, in.Seed)
	if err != nil {
		return ParkSessionResult{}, f.failure(ctx, what, err)
	}
	f.hide = hide.all
	out, err := s.park(ctx, in, attempt, hide)
	return out, f.failure(ctx, what, f.untilRoom(err))
}

func (s *Sessions) park(ctx context.Context, in ParkSessionInput, attempt int32, hide secrets) (ParkSessionResult, error) {
	out := ParkSessionResult{Seq: in.Seq}
	l := in.Layout
	if err := l.check(in.Claim.Session); err != nil {
		return out, err
	}
	h, err := s.host(in.Claim.Host)
	if err != nil {
		return out, err
	}
	if _, err := endAll(ctx, h, l, in.Claim, in.Incarnation, attempt); err != nil {
		return out, stays(h, l, err)
	}
	if err := s.saveLogin(ctx, h, CloseSessionInput{Claim: in.Claim, Layout: l, Seed: in.Seed}, hide); err != nil {
		return out, stays(h, l, err)
	}
	if out.Snapshot, err = s.takeOn(ctx, h, in.TakeSnapshotInput, hide); err != nil {
		return out, stays(h, l, err)
	}
	fence := in.Claim.fence(l.Dir, attempt)
	if err := seeds.Wipe(ctx, h, l.CodexHome, l.Dir, &fence); err != nil {
		return out, stays(h, l, err)
	}
	out.Wiped = true
	out.Seq, err = s.record(ctx, in.Claim.Session, owner{in.Claim.Generation, in.Claim.Pump, 1}, in.Seq, in.Notes, hide.all)
	return out, err
}
