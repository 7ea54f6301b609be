package workflows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/session"
)

func (w *world) snapshots() []snaps.TakeSnapshotInput {
	w.fake.mu.Lock()
	defer w.fake.mu.Unlock()
	return append([]snaps.TakeSnapshotInput{}, w.fake.snaps...)
}

func TestASnapshotIsTakenAfterEachTurnAndNoTurnWaitsForIt(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	let := w.fake.hang("snapshot")
	w.at(50*time.Millisecond, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.once("the first is being taken", func() bool { return len(w.snapshots()) == 1 }, func() {
		w.send(protocol.SignalMessage, hello("m2"))
		w.send(protocol.SignalMessage, hello("m3"))
	})
	w.whenTurn(3, "completed", func() {
		if v := w.view(); v.State != protocol.Idle || v.Snapshot.Taking != 1 || v.Snapshot.ID != "" {
			t.Errorf("session is %+v, its snapshots %+v", v, v.Snapshot)
		}
		if n := len(w.snapshots()); n != 1 {
			t.Errorf("%d snapshots are taken at a time", n)
		}
		let()
	})
	w.once("the last turn is kept", func() bool { v := w.view().Snapshot; return v != nil && v.Turn == 3 }, func() {
		v := w.view().Snapshot
		if v.N != 2 || v.Tried != 2 || v.Taking != 0 || v.ID != "s1.snap-2" || v.Error != nil {
			t.Errorf("snapshots are %+v", v)
		}
		w.SignalWorkflow(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{Seed: "team"})
	took := w.snapshots()
	if len(took) != 2 || took[0].Turn != 1 || took[1].Parent != "s1.snap-1" {
		t.Fatalf("taken were %+v", took)
	}
	if in := took[1]; in.ThreadID != "thread-1" || in.Policy.Work != protocol.WorkFull || in.Seed == nil || in.Thread.CWD == "" || in.Claim.Host.Name != "web-1" {
		t.Errorf("taken was %+v", in)
	}
	if last := w.fake.closed[0].Snapshot; last == nil || last.N != 3 || last.Parent != "s1.snap-2" {
		t.Errorf("closing was told of %+v", last)
	}
}

func TestASnapshotThatFailsHidesNoneThatIsGood(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.fake.fail("snapshot", finally(protocol.ErrTypeStore))
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.at(3*time.Second, func() {
		v := w.view().Snapshot
		if v.ID != "s1.snap-1" || v.Turn != 1 || v.Tried != 2 || v.Error == nil || v.Error.Kind != protocol.ErrTypeStore {
			t.Errorf("snapshots are %+v", v)
		}
		if d := w.view(); d.State != protocol.Idle || d.Error != nil {
			t.Errorf("session is %+v", d)
		}
		w.fake.fail("snapshot", nil)
		w.send(protocol.SignalMessage, hello("m3"))
	})
	w.at(4*time.Second, func() {
		if v := w.view().Snapshot; v.ID != "s1.snap-3" || v.Error != nil {
			t.Errorf("snapshots are %+v", v)
		}
	})
	w.ends(5 * time.Second)
	w.start(session.Options{})
	notes := 0
	for _, in := range w.fake.ran {
		for _, n := range in.Pump.Notes {
			if strings.Contains(n.Text, "take snapshot 2 on web-1") {
				notes++
			}
		}
	}
	if took := w.snapshots(); notes != 1 || len(took) != 3 || took[2].Parent != "s1.snap-1" {
		t.Errorf("on record %d times; taken were %+v", notes, took)
	}
}

// The transcript says only once what a snapshot lacks. The view shows it as long as the
// snapshot is the newest.
func TestASnapshotSaysWhatCouldNotBeRead(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.fake.unread = []string{"work/no.txt"}
	const lacks = "one file or folder that may not be read: work/no.txt"
	for i := 1; i <= 2; i++ {
		w.at(time.Duration(2*i-1)*time.Second, func() { w.send(protocol.SignalMessage, hello(fmt.Sprint("m", i))) })
		w.at(time.Duration(2*i)*time.Second, func() {
			if v := w.view().Snapshot; v.N != i || v.Lacks != lacks || v.Error != nil {
				t.Errorf("snapshots are %+v", v)
			}
		})
	}
	w.at(5*time.Second, func() {
		w.fake.unread = nil
		w.send(protocol.SignalMessage, hello("m3"))
	})
	w.at(6*time.Second, func() {
		if v := w.view().Snapshot; v.N != 3 || v.Lacks != "" {
			t.Errorf("snapshots are %+v", v)
		}
	})
	w.ends(7 * time.Second)
	w.start(session.Options{})
	notes := 0
	for _, in := range w.fake.ran {
		for _, n := range in.Pump.Notes {
			if strings.Contains(n.Text, "snapshot s1.snap-1 lacks "+lacks) {
				notes++
			}
		}
	}
	if notes != 1 {
		t.Errorf("on record %d times", notes)
	}
}

func TestASnapshotIsTakenWhenSomebodyWantsOne(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("make"), endsTurn("completed", ""))
	var u *updated
	w.at(50*time.Millisecond, func() { w.refuses(w.send(protocol.SignalSnapshot, protocol.TakeSnapshot{}), protocol.RefusedState) })
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { u = w.send(protocol.SignalSnapshot, protocol.TakeSnapshot{By: "bob"}); w.takes(u) })
	w.at(3*time.Second, func() {
		if v := w.view(); v.State != protocol.Waiting || v.Snapshot.N != 1 || v.Snapshot.Turn != 1 {
			t.Errorf("session is %+v, its snapshots %+v", v, v.Snapshot)
		}
		if in := w.snapshots()[0]; !in.Running {
			t.Errorf("taken was %+v", in)
		}
		w.SignalWorkflow(protocol.SignalSnapshot, nil)
	})
	w.at(4*time.Second, func() {
		if v := w.view(); v.Snapshot.N != 2 || len(v.Refusals) != 0 {
			t.Errorf("snapshots are %+v, refused %v", v.Snapshot, v.Refusals)
		}
	})
	w.ends(5 * time.Second)
	w.start(session.Options{Snapshot: protocol.SnapshotOptions{When: protocol.SnapshotClose}})
	if acc, ok := u.result.(protocol.SnapshotAccepted); !ok || acc.N != 1 {
		t.Errorf("answered %+v", u.result)
	}
}

// While a turn waits for a person, nothing changes that a snapshot would keep.
func TestATurnThatWaitsForAPersonIsNotKeptAgainAndAgain(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("make"), endsTurn("completed", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Hour, func() {
		if took := w.snapshots(); len(took) > 0 {
			t.Errorf("%d were taken while nobody worked", len(took))
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{Snapshot: protocol.SnapshotOptions{Every: time.Minute}})
}

func TestALongTurnIsKeptFromTimeToTime(t *testing.T) {
	w := newWorldWith(t, kit.Intervals{Snapshot: time.Millisecond}) // while a pump is attached, the environment uses the real clock
	w.fake.pumps = append(w.fake.pumps, staysAttached(protocol.Acknowledged), endsTurn("interrupted", ""))
	w.at(50*time.Millisecond, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.once("it was kept twice", func() bool { v := w.view().Snapshot; return v != nil && v.N >= 2 }, func() {
		if v := w.view(); v.State != protocol.Running || v.Snapshot.Turn != 1 {
			t.Errorf("session is %+v, its snapshots %+v", v, v.Snapshot)
		}
		w.send(protocol.SignalInterrupt, protocol.Interrupt{})
	})
	w.whenTurn(1, "interrupted", func() { w.SignalWorkflow(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{Snapshot: protocol.SnapshotOptions{When: protocol.SnapshotClose, Every: 50 * time.Millisecond}})
	for _, in := range w.snapshots() {
		if !in.Running {
			t.Errorf("taken was %+v", in)
		}
	}
}

func TestARolloverHandsOnASnapshotThatIsBeingTaken(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.fake.hang("snapshot")
	w.at(50*time.Millisecond, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.once("it is being taken", func() bool { return len(w.snapshots()) == 1 }, func() {
		w.fill()
		w.SignalWorkflow(protocol.SignalMessage, "any event wakes it")
	})
	w.start(session.Options{})
	in := carried(t, w.continued())
	next := newWorld(t)
	next.at(2*time.Second, func() {
		if v := next.view().Snapshot; v.N != 1 || v.Turn != 1 || v.Error != nil {
			t.Errorf("snapshots are %+v", v)
		}
	})
	next.ends(3 * time.Second)
	next.ExecuteWorkflow(protocol.TypeSession, in)
	next.verify()
	was, now := w.snapshots(), next.snapshots()
	if len(now) != 1 || now[0].N != was[0].N || !now[0].At.Equal(was[0].At) {
		t.Errorf("the next run took %+v, the first one was at %+v", now, was)
	}
}

func TestASessionThatKeepsNothingTakesNoSnapshot(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.refuses(w.send(protocol.SignalSnapshot, protocol.TakeSnapshot{}), protocol.RefusedState) })
	w.ends(3 * time.Second)
	w.start(session.Options{Snapshot: protocol.SnapshotOptions{When: protocol.SnapshotOff}})
	if n := len(w.snapshots()); n != 0 || w.fake.closed[0].Snapshot != nil {
		t.Errorf("%d were taken, closing was told of %+v", n, w.fake.closed[0].Snapshot)
	}
}
