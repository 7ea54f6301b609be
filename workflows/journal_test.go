package workflows

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// longTurn returns a pump of a turn on a host that cannot trim journals.
func longTurn(journal int64) func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := endsTurn("completed", "ok")(ctx, in)
		st := &out.Pump.State
		st.Untrimmable, st.Cursor.Offset = true, journal
		return out, err
	}
}

func TestALongJournalThatCannotBeTrimmedEndsWithItsProcessBetweenTurns(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, longTurn(session.LongJournal), longTurn(session.LongJournal+1), endsTurn("completed", "ok"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.at(3*time.Second, func() {
		if v := w.view(); v.Process.Incarnation != 1 || v.State != protocol.Idle {
			t.Errorf("a process that nobody needs was restarted: %+v", v)
		}
		w.send(protocol.SignalMessage, hello("m3"))
	})
	w.at(4*time.Second, func() {
		if v := w.view(); v.Process.Incarnation != 2 || v.State != protocol.Idle || v.Turn.Status != "completed" || v.Turn.N != 3 {
			t.Errorf("session is %+v", v)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
	if stop, start := slices.Index(w.fake.calls, "stop 1"), slices.Index(w.fake.calls, "start 2"); stop < 0 || start < stop {
		t.Errorf("calls %q", w.fake.calls)
	}
	third := w.fake.ran[2].Pump
	if !third.Resume || third.State.ThreadID != "thread-1" || third.State.Cursor != (protocol.Cursor{Incarnation: 2}) || third.Sends[0].ID != "m3" {
		t.Errorf("the new process was told %+v", third)
	}
}

func TestAProcessThatWasStoppedAndNotFollowedIsNotTakenToLive(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, longTurn(session.LongJournal+1), endsTurn("completed", "ok"), endsTurn("completed", "ok"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.fake.fail("start", temporal.NewNonRetryableApplicationError("no room", protocol.ErrTypeInternal, nil))
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.at(time.Minute, func() {
		if v := w.view(); v.State != protocol.Interrupted || v.Process.Alive || v.Error == nil {
			t.Errorf("session is %+v, process %+v", v, v.Process)
		}
		w.fake.fail("start", nil)
		w.send(protocol.SignalMessage, hello("m3"))
	})
	w.at(2*time.Minute, func() {
		if v := w.view(); v.State != protocol.Idle || v.Turn.N != 3 || v.Turn.Status != "completed" || v.Process.Incarnation != 3 {
			t.Errorf("session is %+v, process %+v", v, v.Process)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}
