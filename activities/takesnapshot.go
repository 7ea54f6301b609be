package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/snapshots"
)

// TakeSnapshot brings what it takes to go on elsewhere into the store: every
// attempt makes the same snapshot, and one that is complete is returned as it
// is. On the host nothing changes.
func (s *Sessions) TakeSnapshot(ctx context.Context, in TakeSnapshotInput) (TakeSnapshotResult, error) {
	f := failing{epoch: in.Claim.epoch(activity.GetInfo(ctx).Attempt)}
	what := "take a snapshot of session " + in.Claim.Session
	hide, err := s.hiding(ctx, in.Seed)
	if err != nil {
		return TakeSnapshotResult{}, f.failure(ctx, what, err)
	}
	f.hide = hide.all
	got, err := s.take(ctx, in, hide)
	return TakeSnapshotResult{Snapshot: got}, f.failure(ctx, what, err)
}

// snapshotID names the N-th snapshot of a session's generation, the same for
// every attempt.
func snapshotID(session string, at time.Time, generation int64, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "taken %s %d %d", session, generation, n))
	return withMark(session, at, sum)
}

// withMark is a snapshot's id that ends with the beginning of a digest.
func withMark(session string, at time.Time, sum [sha256.Size]byte) string {
	id, mark := snapshots.NewID(session, at), hex.EncodeToString(sum[:3])
	return id[:len(id)-len(mark)] + mark
}

// take makes the snapshot; nil where there is nothing worth keeping yet.
func (s *site) take(ctx context.Context, in TakeSnapshotInput, hide secrets) (*SnapshotBrief, error) {
	if err := in.Layout.check(in.Claim.Session); err != nil {
		return nil, err
	}
	h, err := s.host(in.Claim.Host)
	if err != nil {
		return nil, err
	}
	return s.takeOn(ctx, h, in, hide)
}

func (s *site) takeOn(ctx context.Context, h hostexec.Host, in TakeSnapshotInput, hide secrets) (*SnapshotBrief, error) {
	work := in.Layout.WorkDir
	if in.Policy.Work == WorkNone {
		work = ""
	}
	any, err := worthKeeping(ctx, h, in.Layout.CodexHome, work)
	if err != nil || !any {
		return nil, err
	}
	spec := snapshots.ArchiveSpec{
		ID:      snapshotID(in.Claim.Session, in.At, in.Claim.Generation, in.N),
		Session: in.Claim.Session, CodexHome: in.Layout.CodexHome, WorkDir: work,
		ThreadID: in.ThreadID, CodexVersion: in.CodexVersion, Turn: in.Turn, Logger: s.Logger,
	}
	if hide.all != nil {
		spec.Mask = func() snapshots.Masker { return hide.all.MaskStream() }
	}
	m, err := snapshots.Archive(ctx, h, s.Store, spec)
	if err != nil {
		return nil, err
	}
	return briefOf(m), nil
}

func briefOf(m snapshots.Manifest) *SnapshotBrief {
	return &SnapshotBrief{ID: m.ID, Turn: m.Turn, At: m.CreatedAt, Files: m.Files, Bytes: m.Bytes, Added: m.AddedBytes}
}
