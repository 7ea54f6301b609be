package workflows

import (
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

func TestABudgetOutlivesALostHost(t *testing.T) {
	w := newWorld(t)
	w.hosts = []string{"web-1", "web-2"}
	w.fake.pumps = []pumpFunc{endsTurn("completed", ""), lost, saysTold(endsTurn("completed", ""))}
	w.fake.heard = func(in pumps.RecordLostInput) pumps.RecordLostResult {
		last := in.State
		last.Spent.Commands, last.Spent.TimeMS, last.Tally.InSession = 7, 60_000, 3
		return pumps.RecordLostResult{Seq: in.State.Seq, Said: []string{"m2"}, Last: &last}
	}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.at(10*time.Second, func() { w.send(protocol.SignalMessage, hello("m3")) })
	w.ends(11 * time.Second)
	w.start(moves)
	if st := w.lastPump().Pump.State; st.Spent.Commands != 7 || st.Spent.TimeMS != 60_000 || st.Tally.InSession != 3 {
		t.Errorf("the next pump counts from %+v, %+v", st.Spent, st.Tally)
	}
}

// A snapshot that failed because of a passing fault is taken while the session
// idles.
func TestASnapshotIsTriedAgainWhileTheSessionIdles(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{endsTurn("completed", "")}
	w.fake.fail("snapshot", temporal.NewApplicationError("the store is away", protocol.ErrTypeStore))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(20*time.Minute, func() {
		if v := w.view(); v.State != protocol.Idle || v.Snapshot == nil || v.Snapshot.Error == nil || v.Snapshot.ID != "" {
			t.Errorf("session is %+v, its snapshot %+v", v, v.Snapshot)
		}
		w.fake.fail("snapshot", nil)
	})
	w.at(2*time.Hour, func() {
		if v := w.view(); v.Snapshot == nil || v.Snapshot.Error != nil || v.Snapshot.ID == "" {
			t.Errorf("its snapshot is %+v", v.Snapshot)
		}
	})
	w.ends(3 * time.Hour)
	w.start(session.Options{})
}

func TestTheLastEntriesWaitForTheStore(t *testing.T) {
	w := newWorld(t)
	w.fake.fail("notes", temporal.NewApplicationError("the store is away", protocol.ErrTypeStore))
	w.refuse = &protocol.Failure{Kind: "host_not_found", Message: "no such host"}
	w.at(10*time.Minute, func() {
		if v := w.view(); v.State != protocol.Failed || v.WaitingFor == nil || v.WaitingFor.Kind != protocol.ErrTypeStore {
			t.Errorf("meanwhile it is %+v", v)
		}
		w.fake.fail("notes", nil)
	})
	w.start(session.Options{})
	if n := len(w.fake.recorded); n < 6 || !noted(w.fake.recorded[n-1].Notes, "no such host") {
		t.Errorf("recorded %d times: %+v", n, w.fake.recorded)
	}
}

// A session that cannot write its last entries adds nothing to a long history: the
// server makes the attempts.
func TestAttemptsToWriteTheLastEntriesDoNotFillTheHistory(t *testing.T) {
	w := newWorld(t)
	w.fake.fail("notes", temporal.NewApplicationError("the store is away", protocol.ErrTypeStore))
	w.refuse = &protocol.Failure{Kind: "host_not_found", Message: "no such host"}
	w.at(time.Minute, w.fill)
	w.at(time.Hour, func() { w.fake.fail("notes", nil) })
	w.start(session.Options{})
	// The test environment makes 10 attempts if there is no limit.
	if last := slices.Max(w.fake.recordedIn); last != 10 {
		t.Errorf("the attempts were %v; want them not to be limited once the history is long", w.fake.recordedIn)
	}
	if n := len(w.fake.recorded); !noted(w.fake.recorded[n-1].Notes, "no such host") {
		t.Errorf("recorded %d times: %+v", n, w.fake.recorded)
	}
}

// All that pumps read on a lost host is written to the store before the session leaves that
// host.
func TestWhatWasHeardOnALostHostWaitsForTheStore(t *testing.T) {
	w := newWorld(t)
	w.hosts = []string{"web-1", "web-2"}
	w.fake.pumps = []pumpFunc{endsTurn("completed", ""), lost, saysTold(endsTurn("completed", ""))}
	w.fake.fail("lost", temporal.NewApplicationError("the store is away", protocol.ErrTypeStore))
	w.fake.heard = func(in pumps.RecordLostInput) pumps.RecordLostResult {
		return pumps.RecordLostResult{Seq: in.State.Seq + 3, Said: []string{"m2"}}
	}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.at(10*time.Minute, func() {
		if v := w.view(); v.Host != "web-1" || v.WaitingFor == nil {
			t.Errorf("meanwhile it is %+v", v)
		}
		w.fake.fail("lost", nil)
	})
	w.at(time.Hour, func() { w.send(protocol.SignalMessage, hello("m3")) })
	w.ends(2 * time.Hour)
	w.start(moves)
	if a, b := w.fake.ran[1].Pump.State.Seq, w.lastPump().Pump.State.Seq; b != a+3 {
		t.Errorf("the next pump begins behind entry %d, the lost one behind %d", b, a)
	}
}
