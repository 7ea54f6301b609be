package activities

import (
	"cmp"
	"context"
	"fmt"

	"fairlead.dev/fairlead/snapshots"
)

// Snapshots looks after snapshots in the store.
type Snapshots struct{ *site }

// PruneSnapshots drops what the retention does not keep, and what no snapshot
// needs any more. The newest complete one of a session always stays. It is
// safe beside everything else, and may be killed and done again.
func (s *Snapshots) PruneSnapshots(ctx context.Context, in PruneSnapshotsInput) (PruneSnapshotsResult, error) {
	var f failing
	out, err := s.prune(ctx, in)
	return out, f.failure(ctx, "prune snapshots", err)
}

func (s *Snapshots) prune(ctx context.Context, in PruneSnapshotsInput) (PruneSnapshotsResult, error) {
	out := PruneSnapshotsResult{Snapshots: []string{}}
	all, err := snapshots.List(ctx, s.Store, in.Session)
	if err != nil {
		return out, err
	}
	policy := snapshots.Retention{Keep: cmp.Or(in.Keep, s.Deps.Snapshots.Keep), MaxAge: cmp.Or(in.MaxAge, s.Deps.Snapshots.MaxAge), Now: s.Now()}
	for _, m := range snapshots.Retain(all, policy, nil) {
		if !in.DryRun {
			if err := snapshots.Delete(ctx, s.Store, m.ID); err != nil {
				return out, fmt.Errorf("drop snapshot %s: %w", m.ID, err)
			}
		}
		out.Snapshots = append(out.Snapshots, m.ID)
	}
	report, err := s.Chunks.Prune(ctx, snapshots.Live(s.Chunks), snapshots.PruneOptions{DryRun: in.DryRun})
	out.Packs, out.Condemned, out.Freed = report.Packs, report.Condemned, report.Freed
	if report.Missing > 0 || report.Rotten > 0 {
		s.Logger.Warn("snapshots are damaged", "missing_chunks", report.Missing, "rotten_packs", report.Rotten)
	}
	return out, err
}

// CheckSnapshots looks whether every snapshot that says it is complete can be
// restored. It changes nothing.
func (s *Snapshots) CheckSnapshots(ctx context.Context, in CheckSnapshotsInput) (CheckSnapshotsResult, error) {
	var f failing
	out, err := s.check(ctx, in)
	return out, f.failure(ctx, "check snapshots", err)
}

func (s *Snapshots) check(ctx context.Context, in CheckSnapshotsInput) (CheckSnapshotsResult, error) {
	out := CheckSnapshotsResult{Problems: []string{}}
	// What is needed is asked of each snapshot on its own: one whose lists
	// cannot be read hides nothing of the others.
	needed := func(ctx context.Context, yield func(snapshots.Digest) error) error {
		_, _, err := snapshots.FindDamage(ctx, s.Chunks, yield)
		return err
	}
	report, err := s.Chunks.Check(ctx, snapshots.CheckOptions{ReadData: in.ReadData}, needed)
	if err != nil {
		return out, err
	}
	n, damaged, err := snapshots.FindDamage(ctx, s.Chunks, report.Bad)
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
