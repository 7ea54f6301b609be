package places

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/seeds"
)

// ParkSession ends what a session has running on its host, saves its login, takes a
// snapshot, and only then wipes the credential. The folder stays, with a mark. If a step
// fails, the later ones are not done.
func (s *Activities) ParkSession(ctx context.Context, in snaps.ParkSessionInput) (snaps.ParkSessionResult, error) {
	wrote := site.CarryAudit(ctx, s.Site, in.Audit)
	attempt := activity.GetInfo(ctx).Attempt
	f := kit.Failing{Epoch: folder.EpochOf(in.Claim, attempt)}
	what := "park session " + in.Claim.Session
	hide, err := site.HidingIn(ctx, s.Site, in.Claim, in.Seed)
	if err != nil {
		return snaps.ParkSessionResult{}, f.Failure(ctx, what, err)
	}
	f.Hide = hide.All
	p, quiet := kit.ReportProgress(ctx)
	defer quiet()
	out, err := ParkSession(ctx, s.Site, in, attempt, hide, p)
	out.Audited = wrote()
	return out, f.Failure(ctx, what, f.UntilRoom(err))
}

// ParkSession does the activity's work.
func ParkSession(ctx context.Context, s *site.Site, in snaps.ParkSessionInput, attempt int32, hide site.Secrets, p *kit.Progress) (snaps.ParkSessionResult, error) {
	out := snaps.ParkSessionResult{Seq: in.Seq}
	l := in.Layout
	if err := folder.CheckLayout(l, in.Claim.Session); err != nil {
		return out, err
	}
	h, err := s.Host(in.Claim.Host)
	if err != nil {
		return out, err
	}
	// before anything ends: a session that waits for its turn goes on working
	done, err := s.Takes.Enter(ctx, in.Claim.Host)
	if err != nil {
		return out, err
	}
	defer done()
	f, err := hosts.LookSession(ctx, s, h, in.Claim, l, true)
	if err != nil {
		return out, err
	}
	l = f.Layout(l) // a worker of an earlier release drops the room
	in.Layout = l
	if !f.There {
		out.Snapshot, err = parkedBefore(ctx, s, h, in, attempt)
	} else {
		if in.Workspace != nil && !f.Mark.Parked {
			p.Step("stopping")
			if _, err := folder.EndAll(ctx, h, l, in.Claim, in.Incarnation, attempt); err != nil {
				return out, stays(h, l, err)
			}
			in.Notes = append(in.Notes, workspaces.LastHooks(ctx, s, workspaces.WorkspaceJob(s, h, l, in.Claim, attempt, nil), in.Workspace, hide, workspaces.HookAfterRun)...)
		}
		out.Snapshot, err = parkHere(ctx, s, h, in, f.Mark, attempt, hide, p)
	}
	if err != nil {
		return out, err
	}
	out.Wiped = true
	out.Seq, err = site.Record(ctx, s, in.Claim.Session, records.Owner{Generation: in.Claim.Generation, Pump: in.Claim.Pump, Part: 1}, in.Seq, in.Notes, hide.All)
	if err == nil {
		hosts.ForgetRooted(ctx, s, in.Claim, in.Claim.Generation) // all is kept
	}
	return out, err
}

func parkHere(ctx context.Context, s *site.Site, h hostexec.Host, in snaps.ParkSessionInput, mark folder.FolderMark, attempt int32, hide site.Secrets, p *kit.Progress) (*snaps.SnapshotBrief, error) {
	l, fence := in.Layout, folder.FenceOf(in.Claim, in.Layout.Dir, attempt)
	p.Step("stopping")
	if _, err := folder.EndAll(ctx, h, l, in.Claim, in.Incarnation, attempt); err != nil {
		return nil, stays(h, l, err)
	}
	p.Step("saving the login")
	err := snaps.HidePlanted(ctx, s, h, l, hide)
	if err == nil {
		err = saveLogin(ctx, s, h, in.Claim.Session, l, in.Seed, hide, true)
	}
	if err != nil {
		return nil, stays(h, l, err)
	}
	id := snaps.SnapshotID(in.Claim.Session, in.At, in.Claim.Generation, in.N)
	got, err := snaps.TakeWhole(ctx, s, h, snaps.Taking{TakeSnapshotInput: in.TakeSnapshotInput, ID: id, Lived: true, Progress: p}, hide)
	if err != nil {
		return nil, stays(h, l, err)
	}
	p.Step("wiping")
	if err := seeds.Wipe(ctx, h, l.CodexHome, l.Seen(), &fence); err != nil {
		return nil, fmt.Errorf("snapshot %s is complete, but the credential may still be on the host: %w", idOfBrief(got), err)
	}
	// The mark names no snapshot if nothing was worth keeping.
	mark.Generation, mark.Parked, mark.Snapshot = in.Claim.Generation, true, ""
	if got != nil {
		mark.Snapshot = got.ID
	}
	return got, folder.WriteMark(ctx, h, l, mark, false, fence)
}

func idOfBrief(b *snaps.SnapshotBrief) string {
	if b == nil {
		return "(none)"
	}
	return b.ID
}

// parkedBefore handles a folder that is gone: an earlier attempt may have parked the
// session.
func parkedBefore(ctx context.Context, s *site.Site, h hostexec.Host, in snaps.ParkSessionInput, attempt int32) (*snaps.SnapshotBrief, error) {
	if _, err := folder.EndUnrecorded(ctx, h, in.Layout, in.Claim, attempt); err != nil {
		return nil, err
	}
	return snaps.TakenBefore(ctx, s, h, in.TakeSnapshotInput)
}
