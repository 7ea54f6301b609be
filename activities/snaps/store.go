package snaps

import (
	"cmp"
	"context"
	"fmt"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// Activities act on snapshots.
type Activities struct{ Site *site.Site }

// New makes the activities of a worker.
func New(s *site.Site) *Activities { return &Activities{Site: s} }

// PruneSnapshots drops snapshots that the retention does not keep, and data that no
// snapshot needs. A session's newest complete snapshot stays. It may run at any time, be
// killed, and be repeated.
func (s *Activities) PruneSnapshots(ctx context.Context, in protocol.PruneSnapshotsInput) (protocol.PruneSnapshotsResult, error) {
	var f kit.Failing
	far := kit.StoreWork{Now: protocol.SnapshotsProgress{Step: "beginning"}}
	defer far.Beat(ctx)()
	out, err := PruneSnapshots(ctx, s.Site, in, far.Tell)
	return out, f.Failure(ctx, "prune snapshots", err)
}

// PruneSnapshots does the activity's work.
func PruneSnapshots(ctx context.Context, s *site.Site, in protocol.PruneSnapshotsInput, far chunks.Steps) (protocol.PruneSnapshotsResult, error) {
	out := protocol.PruneSnapshotsResult{Snapshots: []string{}}
	all, err := snapshots.List(ctx, s.Store, in.Session)
	if err != nil {
		return out, err
	}
	policy := snapshots.Retention{Keep: cmp.Or(in.Keep, s.Deps.Snapshots.Keep), MaxAge: cmp.Or(in.MaxAge, s.Deps.Snapshots.MaxAge), Now: s.Now()}
	// Sessions are asked after the list was read: a snapshot that is chosen later is newer,
	// and the newest stays.
	far("asking sessions", 0, 0)
	var pinned func(string) bool
	pinned, out.Unasked = pinsOf(ctx, s, snapshots.Retain(all, policy, nil))
	for _, m := range snapshots.Retain(all, policy, pinned) {
		dropped, err := dropUnheld(ctx, s, m.ID, in.DryRun)
		if err != nil {
			return out, fmt.Errorf("drop snapshot %s: %w", m.ID, err)
		}
		if dropped {
			out.Snapshots = append(out.Snapshots, m.ID)
		}
	}
	if err := tidyPins(ctx, s, in); err != nil {
		return out, fmt.Errorf("forget pins of what is gone: %w", err)
	}
	if err := workspaces.PruneTokens(ctx, s, in); err != nil {
		return out, fmt.Errorf("delete git tokens of sessions that have ended: %w", err)
	}
	if err := site.PruneAnswers(ctx, s, in); err != nil {
		return out, fmt.Errorf("delete secret answers of sessions that have ended: %w", err)
	}
	report, err := s.Chunks.Prune(ctx, snapshots.Live(s.Chunks), chunks.PruneOptions{DryRun: in.DryRun, Progress: far})
	out.Packs, out.Condemned, out.Freed = report.Packs, report.Condemned, report.Freed
	if report.Missing > 0 || report.Rotten > 0 {
		s.Logger.Warn("snapshots are damaged", "missing_chunks", report.Missing, "rotten_packs", report.Rotten)
	}
	return out, err
}

// CheckSnapshots checks that every complete snapshot can be restored. It changes nothing.
func (s *Activities) CheckSnapshots(ctx context.Context, in protocol.CheckSnapshotsInput) (protocol.CheckSnapshotsResult, error) {
	var f kit.Failing
	far := kit.StoreWork{Now: protocol.SnapshotsProgress{Step: "beginning"}}
	defer far.Beat(ctx)()
	out, err := CheckSnapshots(ctx, s.Site, in, far.Tell)
	return out, f.Failure(ctx, "check snapshots", err)
}

// CheckSnapshots does the activity's work.
func CheckSnapshots(ctx context.Context, s *site.Site, in protocol.CheckSnapshotsInput, far chunks.Steps) (protocol.CheckSnapshotsResult, error) {
	out := protocol.CheckSnapshotsResult{Problems: []string{}}
	// One snapshot's unreadable lists must not hide those of others.
	needed := func(ctx context.Context, yield func(chunks.Digest) error) error {
		_, _, err := snapshots.FindDamage(ctx, s.Chunks, yield)
		return err
	}
	report, err := s.Chunks.Check(ctx, chunks.CheckOptions{ReadData: in.ReadData, Progress: far}, needed)
	if err != nil {
		return out, err
	}
	var asked int64
	n, damaged, err := snapshots.FindDamage(ctx, s.Chunks, func(d chunks.Digest) error {
		asked++
		far("judging snapshots", asked, 0)
		return report.Bad(d)
	})
	out.Snapshots, out.Chunks, out.Packs = n, report.Chunks, report.Packs
	for _, d := range damaged {
		out.Damaged = append(out.Damaged, d.ID)
		text := fmt.Sprintf("snapshot %s cannot be restored: %v", d.ID, d.Problem)
		if d.Count > 0 {
			text += fmt.Sprintf(" (%d of its files, such as %s)", d.Count, d.Files[0])
		}
		out.Problems = append(out.Problems, text)
	}
	out.Problems = append(out.Problems, report.Problems...)
	return out, err
}
