package workflows

import (
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/session"
)

func busyWorkers() error {
	return temporal.NewApplicationErrorWithOptions("no room", protocol.ErrTypeBusy, temporal.ApplicationErrorOptions{NextRetryDelay: 30 * time.Second})
}

// It is no failure if all workers are busy with snapshots: the session waits for
// longer than a retry policy's attempts last, and reports no error.
func TestASessionStandsInLineForWorkersThatAreBusy(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.fake.fail("snapshot", busyWorkers())
	w.fake.fail("park", busyWorkers())
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(20*time.Minute, func() {
		if v := w.view(); v.State != protocol.Idle || v.Snapshot.Taking != 1 || v.Snapshot.Error != nil {
			t.Errorf("session is %+v, snapshots %+v", v, v.Snapshot)
		}
		w.fake.fail("snapshot", nil)
	})
	w.at(25*time.Minute, func() {
		if v := w.view().Snapshot; v.N != 1 || v.ID == "" {
			t.Errorf("snapshots are %+v", v)
		}
		w.takes(w.send(protocol.SignalPark, protocol.Park{By: "ada"}))
	})
	w.at(45*time.Minute, func() {
		if v := w.view(); v.State == protocol.Parked || v.Error != nil {
			t.Errorf("session is %+v", v)
		}
		w.fake.fail("park", nil)
	})
	w.at(50*time.Minute, func() {
		if v := w.view(); v.State != protocol.Parked || v.Error != nil {
			t.Errorf("session is %+v", v)
		}
		w.fake.fail("prepare", busyWorkers())
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.at(65*time.Minute, func() {
		if v := w.view(); v.State != protocol.Resuming || v.Error != nil || !strings.HasPrefix(v.Waits, "a free worker") {
			t.Errorf("session is %+v", v)
		}
		w.fake.fail("prepare", nil)
	})
	w.at(70*time.Minute, func() {
		if v := w.view(); v.State != protocol.Idle || v.Turn.N != 2 || v.Waits != "a message" {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(71 * time.Minute)
	w.start(session.Options{})
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

// A session does not wait for ever for busy workers, and stops waiting when another message
// asks for something else. A session that was told to park tries again later, and its view
// says so.
func TestStandingInLineEnds(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.fake.fail("park", busyWorkers())
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Minute, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{By: "ada"})) })
	w.at(10*time.Minute, func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.at(11*time.Minute, func() {
		if v := w.view(); v.State != protocol.Idle || v.Turn.N != 2 || v.Error != nil {
			t.Errorf("session is %+v", v)
		}
		w.takes(w.send(protocol.SignalPark, protocol.Park{By: "ada"}))
	})
	w.at(80*time.Minute, func() {
		w.waited("park on web-1", protocol.ErrTypeBusy)
		if v := w.view(); v.State != protocol.Idle {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(81 * time.Minute)
	w.start(session.Options{})
}

// comesBackToBusyWorkers is a session that had a turn, parked, and is then sent a
// message while all workers are busy.
func comesBackToBusyWorkers(t *testing.T) *world {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
	w.at(3*time.Second, func() {
		w.fake.fail("prepare", busyWorkers())
		w.send(protocol.SignalMessage, hello("m2"))
	})
	return w
}

// When many sessions come back at once, each waits until it can come back, however long
// that takes. No session parks again with an undelivered message.
func TestWhoComesBackStandsInLineForAsLongAsItTakes(t *testing.T) {
	w := comesBackToBusyWorkers(t)
	w.at(9*time.Hour, func() {
		if v := w.view(); v.State != protocol.Resuming || v.Error != nil || v.Turn.N != 1 {
			t.Errorf("session is %+v", v)
		}
		w.fake.fail("prepare", nil)
	})
	w.at(9*time.Hour+10*time.Minute, func() {
		if v := w.view(); v.State != protocol.Idle || v.Turn.N != 2 || v.Turn.Status != "completed" || v.Error != nil {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(10 * time.Hour)
	w.start(session.Options{})
}

// The wait may take more than one run. The next run goes on waiting.
func TestALongLineOutlivesARun(t *testing.T) {
	if testing.Short() {
		t.Skip("fills a whole run, which takes the SDK's test environment minutes with the race detector")
	}
	w := comesBackToBusyWorkers(t)
	w.once("a line", func() bool { return strings.HasPrefix(w.view().Waits, "a free worker") }, w.fill)
	w.start(session.Options{})
	next := newWorld(t)
	next.fake.rest = endsTurn("completed", "")
	next.at(time.Minute, func() {
		if v := next.view(); v.State != protocol.Idle || v.Turn.N != 2 || v.Error != nil {
			t.Errorf("session is %+v", v)
		}
	})
	next.ends(2 * time.Minute)
	next.ExecuteWorkflow(protocol.TypeSession, carried(t, w.continued()))
	next.verify()
	if in := next.fake.prepared; len(in) != 1 || in[0].Claim.Pump <= w.lastPrepared().Claim.Pump || len(next.asked) != 0 {
		t.Errorf("prepared %+v after %+v, and asked for %+v", in, w.lastPrepared().Claim, next.asked)
	}
}

// discard gives up work that cannot be saved. It does not give up work if only the workers
// are busy.
func TestDiscardingStandsInLineAsWell(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	full := true
	w.fake.ends = func(in places.CloseSessionInput) (places.CloseSessionResult, error) {
		if w.fake.mu.Lock(); full {
			defer w.fake.mu.Unlock()
			return places.CloseSessionResult{}, busyWorkers()
		}
		w.fake.mu.Unlock()
		return places.CloseSessionResult{Wiped: true, Removed: true, Archive: "s1.kept"}, nil
	}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Minute, func() { w.takes(w.send(protocol.SignalClose, protocol.Close{Discard: true})) })
	w.at(2*time.Hour, func() {
		if v := w.view(); v.State != protocol.Closing || !strings.HasPrefix(v.Waits, "a free worker") || v.Error != nil {
			t.Errorf("session is %+v", v)
		}
		w.fake.mu.Lock()
		full = false
		w.fake.mu.Unlock()
	})
	w.start(session.Options{})
	if v := w.view(); v.State != protocol.Closed || v.Close == nil || v.Close.Archive != "s1.kept" || v.Error != nil {
		t.Errorf("session is %+v, closed %+v", v, v.Close)
	}
	pumps := map[int64]bool{}
	for _, in := range w.fake.closed {
		pumps[in.Claim.Pump] = true
	}
	if len(w.fake.closed) < 100 || len(pumps) < 20 {
		t.Errorf("tried %d times with %d claims", len(w.fake.closed), len(pumps))
	}
}

// If the workers are busy, a pool waits to clean up a host, and shows no error meanwhile.
func TestAPoolStandsInLineToCleanUp(t *testing.T) {
	p := newPoolWorld(t)
	f := p.sweeper()
	f.set(false, busyWorkers())
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1"}) })
	p.at(2*time.Second, func() {
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "a", Left: &lease.LeftBehind{Why: "no route to host", Generation: 7}})
	})
	p.at(50*time.Minute, func() {
		if v := p.shown("web-1"); v.Unclean != 1 || v.Leftovers[0].Error != "" || v.Leftovers[0].Tries < 10 {
			t.Errorf("host is %+v", v)
		}
		f.set(false, nil)
	})
	p.at(51*time.Minute, func() {
		if v := p.shown("web-1"); v.Unclean != 0 {
			t.Errorf("host is %+v", v)
		}
	})
	p.finish(52 * time.Minute)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}
