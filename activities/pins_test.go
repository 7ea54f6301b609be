package activities

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/activities/snaps"
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
		got, err := snaps.Take(k.t.Context(), k.set.site, in.TakeSnapshotInput, site.Secrets{}, nil)
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
	fork := snaps.PinSnapshotInput{Snapshot: ids[1], Session: "a.fork", Run: "r1"}
	for range 2 {
		if m, err := snaps.PinSnapshot(t.Context(), b.set.Snapshot.Site, fork); err != nil || m.ID != ids[1] {
			t.Fatalf("pinned %+v, %v", m, err)
		}
	}
	prunes := func(what string, in protocol.PruneSnapshotsInput, want, unasked []string) {
		t.Helper()
		for _, in.DryRun = range []bool{true, false} {
			out, err := snaps.PruneSnapshots(t.Context(), b.set.Snapshot.Site, in, func(string, int64, int64) {})
			if err != nil || !slices.Equal(out.Snapshots, want) || !slices.Equal(out.Unasked, unasked) {
				t.Errorf("%s (dry run %v): dropped %v of %v, did not ask %v: %v", what, in.DryRun, out.Snapshots, ids, out.Unasked, err)
			}
		}
	}
	say := map[string]inquiry.SessionNow{"keeper": {Runs: true, Run: "r0", Snapshot: ids[2]}, "a.fork": {Runs: true, Run: "r1"}}
	b.asked(say)
	b.set.site.AskSession = func(context.Context, string) (inquiry.SessionNow, error) {
		return inquiry.SessionNow{}, errors.New("its workers are away")
	}
	prunes("nobody answers", protocol.PruneSnapshotsInput{Keep: 1}, []string{}, []string{"keeper"})
	b.asked(say)
	prunes("by number", protocol.PruneSnapshotsInput{Keep: 1}, []string{ids[0], ids[3]}, nil)
	b.set.site.AskSession = func(_ context.Context, session string) (inquiry.SessionNow, error) {
		if session == "a.fork" {
			return inquiry.SessionNow{}, errors.New("its workers are away")
		}
		return inquiry.SessionNow{Runs: true, Run: "r0", Snapshot: ids[4]}, nil
	}
	prunes("the fork does not answer", protocol.PruneSnapshotsInput{MaxAge: time.Minute, Session: "keeper"}, []string{ids[2]}, nil)
	say["keeper"] = inquiry.SessionNow{Runs: true, Run: "r0", Snapshot: ids[4]}
	say["a.fork"] = inquiry.SessionNow{Runs: true, Run: "r1", Snapshot: "fork.snap-20261122t030405-000001"}
	b.asked(say)
	prunes("the fork has one of its own", protocol.PruneSnapshotsInput{MaxAge: time.Minute}, []string{ids[1]}, nil)
	if pins, err := snapshots.Pins(t.Context(), b.store, ""); err != nil || len(pins) != 0 {
		t.Errorf("pins are left: %v, %v", pins, err)
	}
	if _, err := snaps.PinSnapshot(t.Context(), b.set.Snapshot.Site, fork); kindOfError(kit.Failing{}.Failure(t.Context(), "pin", err)) != protocol.ErrTypeSnapshot {
		t.Errorf("pinned what is gone: %v", err)
	}
}

// The pin holds if it is not known whether the running session is the one that pinned
// the snapshot: a server may not report which run was a workflow's first.
func TestAPinOfWhoCannotBeToldIsHeld(t *testing.T) {
	for _, c := range []struct {
		holder string
		now    inquiry.SessionNow
		want   bool
	}{
		{snaps.PinHolder("fork", "r1"), inquiry.SessionNow{Runs: true}, true},
		{snaps.PinHolder("fork", ""), inquiry.SessionNow{Runs: true, Run: "r1"}, true},
		{snaps.PinHolder("fork", ""), inquiry.SessionNow{Runs: true}, true},
		{snaps.PinHolder("fork", "r1"), inquiry.SessionNow{Runs: true, Snapshot: "fork.snap-1"}, false},
		{snaps.PinHolder("fork", "r1"), inquiry.SessionNow{}, false},
		{"fork", inquiry.SessionNow{}, true}, // nobody can be asked
		{".r1", inquiry.SessionNow{}, true},
	} {
		held, err := inquiry.StillHolds(t.Context(), func(context.Context, string) (inquiry.SessionNow, error) { return c.now, nil }, snapshots.Pin{ID: "s.snap-1", Holder: c.holder})
		if err != nil || held != c.want {
			t.Errorf("%q, %+v: held %v, %v", c.holder, c.now, held, err)
		}
	}
}

// A workflow that has ended, or another workflow of that name, does not hold the pin.
func TestAPinIsOfOneSession(t *testing.T) {
	pin := snapshots.Pin{ID: "s.snap-1", Holder: snaps.PinHolder("a.fork", "r1")}
	for _, c := range []struct {
		now  inquiry.SessionNow
		want bool
	}{
		{inquiry.SessionNow{Runs: true, Run: "r1"}, true},
		{inquiry.SessionNow{Runs: true, Run: "r1", Snapshot: "fork.snap-1"}, false},
		{inquiry.SessionNow{Runs: true, Run: "r2"}, false},
		{inquiry.SessionNow{Run: "r1"}, false},
		{inquiry.SessionNow{}, false},
	} {
		held, err := inquiry.StillHolds(t.Context(), func(_ context.Context, session string) (inquiry.SessionNow, error) {
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
