package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// Only a session knows from which snapshot it goes on, so whoever drops snapshots asks
// it. A fork that has no snapshot of its own yet goes on from a snapshot of another
// session. That session does not know this, so the fork pins the snapshot in the store
// before it begins.

// SessionNow is what a session tells those who drop snapshots.
type SessionNow struct {
	Runs     bool   // its workflow runs
	Run      string // its first run, which distinguishes it from other sessions of that name
	Snapshot string // the snapshot that it goes on from; empty if it has none of its own
}

// askTimeout is how long a session may take to answer: its workers may be away.
const askTimeout = 15 * time.Second

// AskSession asks a session for its SessionNow. An error means that the answer cannot
// be known now.
func AskSession(ctx context.Context, c client.Client, session string) (now SessionNow, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ask session %s what it goes on from: %w", session, err)
		}
	}()
	if c == nil {
		return now, errors.New("this worker has no way to its workflow")
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	id := protocol.SessionID(session)
	d, err := c.DescribeWorkflowExecution(ctx, id, "")
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return now, nil
	}
	if err != nil {
		return now, err
	}
	info := d.GetWorkflowExecutionInfo()
	now.Run = info.GetFirstRunId()
	if over(info.GetStatus()) {
		return now, nil
	}
	now.Runs = true
	v, err := c.QueryWorkflow(ctx, id, "", "state")
	if err != nil {
		return now, err
	}
	var view struct {
		Snapshot struct {
			ID string `json:"id"`
		} `json:"snapshot"`
	}
	err = v.Get(&view)
	now.Snapshot = view.Snapshot.ID
	return now, err
}

// PinHolder names the holder of a pin: a session, and its first run.
func PinHolder(session, run string) string { return session + "." + run }

// PinnedBy returns the session that holds a pin.
func PinnedBy(p snapshots.Pin) string {
	session, _ := pinnedBy(p)
	return session
}

func pinnedBy(p snapshots.Pin) (session, run string) {
	i := strings.LastIndexByte(p.Holder, '.') // a run's id has no dot
	if i < 0 {
		return "", ""
	}
	return p.Holder[:i], p.Holder[i+1:]
}

// StillHolds reports whether the holder of a pin still goes on from that snapshot. An
// unknown holder counts as going on from it. So does a holder that may be of another
// run than the present one, because not every server reports which run was a workflow's
// first.
func StillHolds(ctx context.Context, ask func(context.Context, string) (SessionNow, error), p snapshots.Pin) (bool, error) {
	session, run := pinnedBy(p)
	if session == "" {
		return true, nil // there is nobody to ask
	}
	now, err := ask(ctx, session)
	if err != nil {
		return false, err
	}
	return now.Runs && now.Snapshot == "" && (now.Run == run || now.Run == "" || run == ""), nil
}

// PinSnapshotInput is the input of PinSnapshot.
type PinSnapshotInput struct {
	Snapshot string `json:"snapshot"`
	Session  string `json:"session"`
	Run      string `json:"run"`
	// Blobs are blobs of the other session that this session needs. PinSnapshot takes a
	// hold on them for it.
	Blobs []string `json:"blobs,omitempty"`
}

// PinSnapshotResult names the session and the turn of the snapshot.
type PinSnapshotResult struct {
	Session string `json:"session"`
	Turn    int    `json:"turn"`
}

// PinSnapshot keeps a snapshot from being dropped until the session that pins it has
// one of its own, or has ended. It fails if there is no such snapshot.
func (s *Snapshots) PinSnapshot(ctx context.Context, in PinSnapshotInput) (PinSnapshotResult, error) {
	var f failing
	if activity.GetInfo(ctx).Attempt > 3 {
		f.delay = time.Minute // a process that was about to drop the snapshot may have died
	}
	m, err := s.pin(ctx, in)
	return PinSnapshotResult{Session: m.Session, Turn: m.Turn}, f.failure(ctx, "begin with snapshot "+in.Snapshot, err)
}

func (s *Snapshots) pin(ctx context.Context, in PinSnapshotInput) (snapshots.Manifest, error) {
	if err := checkID("session", in.Session); err != nil {
		return snapshots.Manifest{}, err
	}
	// A blob that is gone came with an earlier message. It is skipped, as when a
	// session moves to another host.
	for _, key := range in.Blobs {
		err := owned.Hold(ctx, s.Store, owned.Owner{Kind: owned.Session, ID: in.Session}, key)
		if err != nil && !errors.Is(err, owned.ErrGone) {
			return snapshots.Manifest{}, err
		}
	}
	m, err := snapshots.Keep(ctx, s.Store, in.Snapshot, PinHolder(in.Session, in.Run))
	if errors.Is(err, snapshots.ErrDropping) {
		err = &typedError{kind: protocol.ErrTypeSnapshot, retry: true, err: err}
	}
	return m, err
}

// pins finds out from which of the snapshots in drop a session goes on. If a session
// does not answer, all of its snapshots count as pinned.
func (s *Snapshots) pins(ctx context.Context, drop []snapshots.Manifest) (pinned func(id string) bool, unasked []string) {
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
			now, err := s.askSession(ctx, session)
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

// dropUnheld drops a snapshot, unless a fork is to begin with it.
func (s *Snapshots) dropUnheld(ctx context.Context, id string, dry bool) (dropped bool, err error) {
	holds := func(ctx context.Context, p snapshots.Pin) (bool, error) {
		held, err := StillHolds(ctx, s.askSession, p)
		if err != nil && ctx.Err() == nil {
			s.Logger.Warn("a snapshot stays: who has pinned it does not answer", "snapshot", id, "session", PinnedBy(p), "error", err)
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

// tidyPins removes pins of sessions that now go on from another snapshot, and marks of
// processes that died while they dropped a snapshot.
func (s *Snapshots) tidyPins(ctx context.Context, in protocol.PruneSnapshotsInput) error {
	if in.DryRun || in.Session != "" {
		return nil
	}
	pins, err := snapshots.Pins(ctx, s.Store, "")
	if err != nil {
		return err
	}
	for _, p := range pins {
		if held, err := StillHolds(ctx, s.askSession, p); held || err != nil {
			continue // it is held, or may be held
		}
		if err := snapshots.Unpin(ctx, s.Store, p); err != nil {
			return err
		}
	}
	return snapshots.Tidy(ctx, s.Store, s.Now())
}
