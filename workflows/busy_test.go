package workflows

import (
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities"
)

func busyWorkers() error {
	return temporal.NewApplicationErrorWithOptions("no room", activities.ErrTypeBusy, temporal.ApplicationErrorOptions{NextRetryDelay: 30 * time.Second})
}

// Workers that move as many snapshots as they can are no failure: a session
// stands in line, longer than the attempts of a policy last, and says nothing.
func TestASessionStandsInLineForWorkersThatAreBusy(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.fake.fail("snapshot", busyWorkers())
	w.fake.fail("park", busyWorkers())
	w.at(time.Second, func() { w.send(SignalMessage, hello("m1")) })
	w.at(20*time.Minute, func() {
		if v := w.view(); v.State != Idle || v.Snapshot.Taking != 1 || v.Snapshot.Error != nil {
			t.Errorf("session is %+v, snapshots %+v", v, v.Snapshot)
		}
		w.fake.fail("snapshot", nil)
	})
	w.at(25*time.Minute, func() {
		if v := w.view().Snapshot; v.N != 1 || v.ID == "" {
			t.Errorf("snapshots are %+v", v)
		}
		w.takes(w.send(SignalPark, Park{By: "ada"}))
	})
	w.at(45*time.Minute, func() {
		if v := w.view(); v.State == Parked || v.Error != nil {
			t.Errorf("session is %+v", v)
		}
		w.fake.fail("park", nil)
	})
	w.at(50*time.Minute, func() {
		if v := w.view(); v.State != Parked || v.Error != nil {
			t.Errorf("session is %+v", v)
		}
		w.fake.fail("prepare", busyWorkers())
		w.send(SignalMessage, hello("m2"))
	})
	w.at(65*time.Minute, func() {
		if v := w.view(); v.State != Resuming || v.Error != nil {
			t.Errorf("session is %+v", v)
		}
		w.fake.fail("prepare", nil)
	})
	w.at(70*time.Minute, func() {
		if v := w.view(); v.State != Idle || v.Turn.N != 2 {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(71 * time.Minute)
	w.start(SessionOptions{})
	pumps := map[int64]bool{}
	for _, in := range w.fake.parks {
		pumps[in.Claim.Pump] = true
	}
	if len(w.fake.parks) < 20 || len(pumps) < 4 {
		t.Errorf("asked to park %d times, with %d claims", len(w.fake.parks), len(pumps))
	}
	for _, in := range w.fake.ran {
		for _, n := range in.Pump.Notes {
			if strings.Contains(n.Text, "no room") {
				t.Errorf("on record: %q", n.Text)
			}
		}
	}
}

// Nobody stands in line for ever, nor when somebody wants something else.
func TestStandingInLineEnds(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.fake.fail("park", busyWorkers())
	w.at(time.Second, func() { w.send(SignalMessage, hello("m1")) })
	w.at(time.Minute, func() { w.takes(w.send(SignalPark, Park{By: "ada"})) })
	w.at(10*time.Minute, func() { w.send(SignalMessage, hello("m2")) })
	w.at(11*time.Minute, func() {
		if v := w.view(); v.State != Idle || v.Turn.N != 2 || v.Error != nil {
			t.Errorf("session is %+v", v)
		}
		w.takes(w.send(SignalPark, Park{By: "ada"}))
	})
	w.at(80*time.Minute, func() {
		if v := w.view(); v.State != Idle || v.Error == nil || v.Error.Kind != activities.ErrTypeBusy {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(81 * time.Minute)
	w.start(SessionOptions{})
}
