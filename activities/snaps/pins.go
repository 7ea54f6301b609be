package snaps

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// Only a session knows from which snapshot it goes on, so it is asked before snapshots are
// dropped. A fork begins with a snapshot of another session, which does not know that. So
// the fork pins the snapshot in the store first.

// PinHolder names a pin's holder: a session and its first run.
func PinHolder(session, run string) string { return session + "." + run }

// PinSnapshotInput is the input of PinSnapshot.
type PinSnapshotInput struct {
	Snapshot string `json:"snapshot"`
	Session  string `json:"session"`
	Run      string `json:"run"`
	// Blobs are the other session's blobs on which this one gets a hold.
	Blobs []string `json:"blobs,omitempty"`
}

// PinSnapshotResult names the snapshot's session and turn.
type PinSnapshotResult struct {
	Session string `json:"session"`
	Turn    int    `json:"turn"`
}

// PinSnapshot keeps a snapshot until the pinning session has one of its own or has ended.
// It fails if there is no such snapshot.
func (s *Activities) PinSnapshot(ctx context.Context, in PinSnapshotInput) (PinSnapshotResult, error) {
	var f kit.Failing
	if activity.GetInfo(ctx).Attempt > 3 {
		f.Delay = time.Minute // a process that was dropping it may have died
	}
	m, err := PinSnapshot(ctx, s.Site, in)
	return PinSnapshotResult{Session: m.Session, Turn: m.Turn}, f.Failure(ctx, "begin with snapshot "+in.Snapshot, err)
}

// PinSnapshot does the activity's work.
func PinSnapshot(ctx context.Context, s *site.Site, in PinSnapshotInput) (snapshots.Manifest, error) {
	if err := kit.CheckID("session", in.Session); err != nil {
		return snapshots.Manifest{}, err
	}
	// A blob that is gone came with an earlier message and is not needed.
	for _, key := range in.Blobs {
		err := owned.Hold(ctx, s.Store, owned.Owner{Kind: owned.Session, ID: in.Session}, key)
		if err != nil && !errors.Is(err, owned.ErrGone) {
			return snapshots.Manifest{}, err
		}
	}
	m, err := snapshots.Keep(ctx, s.Store, in.Snapshot, PinHolder(in.Session, in.Run))
	if errors.Is(err, snapshots.ErrDropping) {
		err = &kit.TypedError{Kind: protocol.ErrTypeSnapshot, Retry: true, Err: err}
	}
	return m, err
}

// pinsOf finds the snapshots in drop from which sessions go on. If a session does not
// answer, all of its snapshots count.
func pinsOf(ctx context.Context, s *site.Site, drop []snapshots.Manifest) (pinned func(id string) bool, unasked []string) {
	var names []string
	for _, m := range drop {
		names = append(names, m.Session)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	var mu sync.Mutex
	held, silent := map[string]bool{}, map[string]bool{}
	places := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for _, session := range names {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			now, err := s.AskSession(ctx, session)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				s.Logger.Warn("nothing of a session is dropped: it does not answer", "session", session, "error", err)
				silent[session] = true
			} else if now.Runs && now.Snapshot != "" {
				held[now.Snapshot] = true
			}
		})
	}
	wg.Wait()
	for _, m := range drop {
		if silent[m.Session] {
			held[m.ID] = true
		}
	}
	for _, session := range names {
		if silent[session] {
			unasked = append(unasked, session)
		}
	}
	return func(id string) bool { return held[id] }, unasked
}

// dropUnheld drops a snapshot unless a fork will begin with it.
func dropUnheld(ctx context.Context, s *site.Site, id string, dry bool) (dropped bool, err error) {
	holds := func(ctx context.Context, p snapshots.Pin) (bool, error) {
		held, err := inquiry.StillHolds(ctx, s.AskSession, p)
		if err != nil && ctx.Err() == nil {
			s.Logger.Warn("a snapshot stays: who has pinned it does not answer", "snapshot", id, "session", inquiry.PinnedBy(p), "error", err)
			return true, nil
		}
		return held, err
	}
	if dry {
		pins, err := snapshots.Pins(ctx, s.Store, id)
		for _, p := range pins {
			if held, err := holds(ctx, p); held || err != nil {
				return false, err
			}
		}
		return err == nil, err
	}
	err = snapshots.Drop(ctx, s.Store, id, holds)
	var held *snapshots.HeldError
	if errors.As(err, &held) {
		return false, nil
	}
	return err == nil, err
}

// tidyPins removes pins that are no longer needed, and marks of processes that died while
// dropping.
func tidyPins(ctx context.Context, s *site.Site, in protocol.PruneSnapshotsInput) error {
	if in.DryRun || in.Session != "" {
		return nil
	}
	pins, err := snapshots.Pins(ctx, s.Store, "")
	if err != nil {
		return err
	}
	for _, p := range pins {
		if held, err := inquiry.StillHolds(ctx, s.AskSession, p); held || err != nil {
			continue // held, or perhaps
		}
		if err := snapshots.Unpin(ctx, s.Store, p); err != nil {
			return err
		}
	}
	return snapshots.Tidy(ctx, s.Store, s.Now())
}
