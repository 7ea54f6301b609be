package activities

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// taken makes n snapshots of a session, an hour apart, the oldest first.
func (k *talk) taken(n int) (ids []string) {
	k.t.Helper()
	for i := range n {
		k.sh(`echo "$2" >"$1/work.txt"`, k.layout.WorkDir, string(rune('a'+i)))
		in := k.parking(i+1, "")
		in.At = time.Now().Add(time.Duration(i-n) * time.Hour).Truncate(time.Second)
		got, err := take(k.t.Context(), k.set.site, in.TakeSnapshotInput, secrets{}, nil)
		if err != nil {
			k.t.Fatal(err)
		}
		ids = append(ids, got.ID)
	}
	return ids
}

// A session itself says from which snapshot it goes on. A fork without a snapshot of
// its own goes on from a snapshot of another session. Retention drops neither of these
// snapshots, even if there are many newer ones.
func TestRetentionDropsNothingThatASessionGoesOnFrom(t *testing.T) {
	b := newBed(t, readyHost(t))
	ids := b.worked("keeper").taken(5)
	fork := PinSnapshotInput{Snapshot: ids[1], Session: "a.fork", Run: "r1"}
	for range 2 {
		if m, err := pinSnapshot(t.Context(), b.set.Snapshot.site, fork); err != nil || m.ID != ids[1] {
			t.Fatalf("pinned %+v, %v", m, err)
		}
	}
	prunes := func(what string, in protocol.PruneSnapshotsInput, want, unasked []string) {
		t.Helper()
		for _, in.DryRun = range []bool{true, false} {
			out, err := pruneSnapshots(t.Context(), b.set.Snapshot.site, in, func(string, int64, int64) {})
			if err != nil || !slices.Equal(out.Snapshots, want) || !slices.Equal(out.Unasked, unasked) {
				t.Errorf("%s (dry run %v): dropped %v of %v, did not ask %v: %v", what, in.DryRun, out.Snapshots, ids, out.Unasked, err)
			}
		}
	}
	say := map[string]SessionNow{"keeper": {Runs: true, Run: "r0", Snapshot: ids[2]}, "a.fork": {Runs: true, Run: "r1"}}
	b.asked(say)
	b.set.site.askSession = func(context.Context, string) (SessionNow, error) {
		return SessionNow{}, errors.New("its workers are away")
	}
	prunes("nobody answers", protocol.PruneSnapshotsInput{Keep: 1}, []string{}, []string{"keeper"})
	b.asked(say)
	prunes("by number", protocol.PruneSnapshotsInput{Keep: 1}, []string{ids[0], ids[3]}, nil)
	b.set.site.askSession = func(_ context.Context, session string) (SessionNow, error) {
		if session == "a.fork" {
			return SessionNow{}, errors.New("its workers are away")
		}
		return SessionNow{Runs: true, Run: "r0", Snapshot: ids[4]}, nil
	}
	prunes("the fork does not answer", protocol.PruneSnapshotsInput{MaxAge: time.Minute, Session: "keeper"}, []string{ids[2]}, nil)
	say["keeper"] = SessionNow{Runs: true, Run: "r0", Snapshot: ids[4]}
	say["a.fork"] = SessionNow{Runs: true, Run: "r1", Snapshot: "fork.snap-20261122t030405-000001"}
	b.asked(say)
	prunes("the fork has one of its own", protocol.PruneSnapshotsInput{MaxAge: time.Minute}, []string{ids[1]}, nil)
	if pins, err := snapshots.Pins(t.Context(), b.store, ""); err != nil || len(pins) != 0 {
		t.Errorf("pins are left: %v, %v", pins, err)
	}
	if _, err := pinSnapshot(t.Context(), b.set.Snapshot.site, fork); kindOfError(failing{}.failure(t.Context(), "pin", err)) != protocol.ErrTypeSnapshot {
		t.Errorf("pinned what is gone: %v", err)
	}
}

// The pin holds if it is not known whether the running session is the one that pinned
// the snapshot: a server may not report which run was a workflow's first.
func TestAPinOfWhoCannotBeToldIsHeld(t *testing.T) {
	for _, c := range []struct {
		holder string
		now    SessionNow
		want   bool
	}{
		{PinHolder("fork", "r1"), SessionNow{Runs: true}, true},
		{PinHolder("fork", ""), SessionNow{Runs: true, Run: "r1"}, true},
		{PinHolder("fork", ""), SessionNow{Runs: true}, true},
		{PinHolder("fork", "r1"), SessionNow{Runs: true, Snapshot: "fork.snap-1"}, false},
		{PinHolder("fork", "r1"), SessionNow{}, false},
		{"fork", SessionNow{}, true}, // nobody can be asked
		{".r1", SessionNow{}, true},
	} {
		held, err := StillHolds(t.Context(), func(context.Context, string) (SessionNow, error) { return c.now, nil }, snapshots.Pin{ID: "s.snap-1", Holder: c.holder})
		if err != nil || held != c.want {
			t.Errorf("%q, %+v: held %v, %v", c.holder, c.now, held, err)
		}
	}
}

// A workflow that has ended, or another workflow of that name, does not hold the pin.
func TestAPinIsOfOneSession(t *testing.T) {
	pin := snapshots.Pin{ID: "s.snap-1", Holder: PinHolder("a.fork", "r1")}
	for _, c := range []struct {
		now  SessionNow
		want bool
	}{
		{SessionNow{Runs: true, Run: "r1"}, true},
		{SessionNow{Runs: true, Run: "r1", Snapshot: "fork.snap-1"}, false},
		{SessionNow{Runs: true, Run: "r2"}, false},
		{SessionNow{Run: "r1"}, false},
		{SessionNow{}, false},
	} {
		held, err := StillHolds(t.Context(), func(_ context.Context, session string) (SessionNow, error) {
			if session != "a.fork" {
				t.Errorf("asked %s", session)
			}
			return c.now, nil
		}, pin)
		if err != nil || held != c.want {
			t.Errorf("%+v: held %v, %v", c.now, held, err)
		}
	}
}
