package workflows

import (
	"errors"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/session"
)

func (w *world) lastPump() pumps.RunPumpInput {
	w.fake.mu.Lock()
	defer w.fake.mu.Unlock()
	return w.fake.ran[len(w.fake.ran)-1]
}

func (w *world) lastPrepared() places.PrepareSessionInput {
	w.fake.mu.Lock()
	defer w.fake.mu.Unlock()
	return w.fake.prepared[len(w.fake.prepared)-1]
}

// done returns the host's calls so far, in order.
func (w *world) done() string {
	w.fake.mu.Lock()
	defer w.fake.mu.Unlock()
	return strings.Join(w.fake.calls, ", ")
}

func TestAnIdleSessionParksAndTheNextMessageBringsItBack(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(29*time.Minute, func() {
		if v := w.view(); v.State != protocol.Idle {
			t.Errorf("session is %+v", v)
		}
	})
	w.at(31*time.Minute, func() {
		v := w.view()
		if v.State != protocol.Parked || v.Warm == nil || v.Warm.Host != "web-1" || v.Snapshot.Turn != 1 || v.Process.Alive || v.Lost != nil || v.Waits != "a message" {
			t.Errorf("session is %+v, warm %+v, snapshots %+v", v, v.Warm, v.Snapshot)
		}
		if got := strings.Join(w.released, " "); got != "seed/team pool/default" || !w.back[0].Clean || w.back[0].Epoch != 7 {
			t.Errorf("given back %s: %+v", got, w.back)
		}
		slot := w.back[1]
		if slot.Left != nil || slot.Warm == nil || slot.Warm.Generation != v.Warm.Generation || slot.Warm.Snapshot.Parent != v.Snapshot.ID || !slot.Warm.Wiped {
			t.Errorf("the pool was told %+v", slot)
		}
		w.takes(w.send(protocol.SignalMessage, hello("m2")))
	})
	w.at(32*time.Minute, func() {
		v := w.view()
		if v.State != protocol.Idle || v.Turn.N != 2 || v.Turn.Status != "completed" || v.Attempt != 2 || v.Warm != nil || !v.Process.Alive {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(33 * time.Minute)
	w.start(session.Options{Seed: "team", ParkAfter: 30 * time.Minute})
	if w.asked[2].Prefer != "web-1" || w.asked[2].Generation <= w.fake.prepared[0].Claim.Generation {
		t.Errorf("the pool was asked %+v", w.asked[2])
	}
	first, again := w.fake.prepared[0], w.lastPrepared()
	if first.Restore != nil || again.Restore == nil || again.Restore.Warm != first.Claim.Generation || again.Restore.Snapshot != "s1.snap-2" || again.Claim.Generation <= first.Claim.Generation {
		t.Errorf("prepared with %+v, then with %+v", first, again.Restore)
	}
	if p := w.lastPump().Pump; !p.Resume || p.State.ThreadID != "thread-1" || p.Tell != nil {
		t.Errorf("the pump was told %+v", p)
	}
	if got := w.done(); got != "prepare s1 on web-1, start 1, snapshot 1, park on web-1, prepare s1 on web-1, start 2, snapshot 3, close discard=false" {
		t.Errorf("done was %s", got)
	}
}

func TestNothingParksWhileATurnRunsOrAPersonIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps, w.fake.rest = append(w.fake.pumps, asks("make")), endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(5*time.Hour, func() {
		if v := w.view(); v.State != protocol.Waiting || len(w.fake.parks) > 0 {
			t.Errorf("session is %+v", v)
		}
		w.refuses(w.send(protocol.SignalPark, protocol.Park{}), protocol.RefusedState)
		w.takes(w.send(protocol.SignalDecide, protocol.Decide{Approval: "s1.1", Digest: "digest of make", Outcome: "accept"}))
	})
	w.at(5*time.Hour+2*time.Minute, func() {
		if v := w.view(); v.State != protocol.Parked {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(6 * time.Hour)
	w.start(session.Options{ParkAfter: time.Minute})
}

// The host with the session's folder cannot be reached. The store has everything that is in
// the folder.
func TestAParkedSessionComesUpElsewhereWhereItsHostIsNotToBeHad(t *testing.T) {
	w := newWorld(t)
	w.hosts = []string{"web-1", "web-2"}
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{By: "bob"})) })
	w.at(3*time.Second, func() { w.takes(w.send(protocol.SignalResume, protocol.Resume{By: "bob"})) })
	w.at(4*time.Second, func() {
		if v := w.view(); v.State != protocol.Idle || v.Host != "web-2" || v.Attempt != 2 {
			t.Errorf("session is %+v", v)
		}
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.ends(5 * time.Second)
	w.start(session.Options{})
	if r := w.lastPrepared().Restore; r == nil || r.Warm != 0 || r.Snapshot != "s1.snap-2" {
		t.Errorf("prepared with %+v", r)
	}
	if tell := w.lastPump().Pump.Tell; tell == nil || !strings.Contains(tell.Text, "from host web-1 to host web-2") {
		t.Errorf("codex was told %+v", tell)
	}
}

func TestAMessageInTheMomentOfParkingFindsTheSessionWhereItIs(t *testing.T) {
	for what, last := range map[string]func(w *world){
		"while it parks": func(w *world) { w.fake.hang("park") },
		"too late":       func(*world) {},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.fake.rest = endsTurn("completed", "")
			w.at(50*time.Millisecond, func() { w.send(protocol.SignalMessage, hello("m1")) })
			w.whenTurn(1, "completed", func() { last(w); w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
			w.once("it parks", func() bool { w.fake.mu.Lock(); defer w.fake.mu.Unlock(); return len(w.fake.parks) == 1 }, func() {
				w.takes(w.send(protocol.SignalMessage, hello("m2")))
			})
			w.whenTurn(2, "completed", func() { w.SignalWorkflow(protocol.SignalClose, protocol.Close{}) })
			w.start(session.Options{Seed: "team"})
			first, again := w.fake.prepared[0], w.lastPrepared()
			if r := again.Restore; len(w.fake.prepared) != 2 || r == nil || r.Warm != first.Claim.Generation {
				t.Errorf("prepared with %+v", w.fake.prepared)
			}
			held := again.Claim.Generation == first.Claim.Generation
			if held != (what == "while it parks") {
				t.Errorf("prepared under generation %d, then under %d", first.Claim.Generation, again.Claim.Generation)
			}
			// If it is not certain that a process has ended, it is stopped before anything
			// is restored.
			if got := w.done(); held && !strings.Contains(got, "park on web-1, stop 1, prepare s1 on web-1, start 2") {
				t.Errorf("done was %s", got)
			}
			if n := len(w.released); held && n != 2 || !held && n != 4 {
				t.Errorf("given back was %v", w.released)
			}
		})
	}
}

func TestASessionThatCannotParkStaysAndSaysWhy(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.fake.fail("park", finally(protocol.ErrTypeStore))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Minute, func() {
		v := w.view()
		if v.State != protocol.Idle || v.Error == nil || v.Error.Kind != protocol.ErrTypeStore || v.Host != "web-1" || len(w.released) > 0 {
			t.Errorf("session is %+v", v)
		}
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.at(2*time.Minute+10*time.Second, func() {
		// It is not known how far parking came, so everything is restored again.
		if v := w.view(); v.Turn.N != 2 || v.Turn.Status != "completed" || v.Error != nil || len(w.fake.prepared) != 2 {
			t.Errorf("session is %+v", v)
		}
		w.fake.fail("park", nil)
	})
	w.at(5*time.Minute, func() {
		if v := w.view(); v.State != protocol.Parked {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(6 * time.Minute)
	w.start(session.Options{Seed: "team", ParkAfter: time.Minute})
	seen := map[int]bool{}
	for _, in := range w.fake.parks {
		if seen[in.N] {
			t.Errorf("two tries make snapshot %d, and work was done in between", in.N)
		}
		seen[in.N] = true
	}
}

func TestAParkedSessionClosesWithoutASlot(t *testing.T) {
	for what, away := range map[string]error{"its host is there": nil, "its host is away": finally(protocol.ErrTypeUnreachable)} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.fake.rest = endsTurn("completed", "")
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
			w.at(3*time.Second, func() {
				if away != nil {
					w.fake.fail("close", away)
				}
				w.takes(w.send(protocol.SignalClose, protocol.Close{}))
			})
			w.start(session.Options{Seed: "team"})
			var v protocol.SessionView
			if err := w.GetWorkflowResult(&v); err != nil || v.State != protocol.Closed || v.Close == nil || !v.Close.Wiped || v.Close.Archive == "" || v.Close.Removed != (away == nil) {
				t.Errorf("session is %+v, closed %+v (%v)", v, v.Close, err)
			}
			if len(w.asked) != 2 || len(w.back) != 3 {
				t.Errorf("asked for %+v, gave back %+v", w.asked, w.back)
			}
			in := w.fake.closed[0]
			if in.Claim.Generation != w.fake.parks[0].Claim.Generation || in.Claim.Pump <= w.fake.parks[0].Claim.Pump || in.Layout.Dir == "" || in.Discard {
				t.Errorf("closed with %+v", in)
			}
			if left := w.back[2].Left; (left != nil) != (away != nil) || left != nil && (left.Host != "web-1" || !left.Wiped) {
				t.Errorf("the pool was told %+v", left)
			}
		})
	}
}

// A folder where a session could not come up may hold work of an earlier time. Closing the
// session discards that work only if a person said so.
func TestClosingASessionThatCouldNotComeUpDiscardsNothing(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
	w.at(3*time.Second, func() {
		w.fake.fail("prepare", errors.New("something of a former time cannot be kept"))
		w.fake.fail("close", finally(protocol.ErrTypeQuota))
		w.takes(w.send(protocol.SignalResume, protocol.Resume{Host: "web-3"}))
	})
	w.at(4*time.Second, func() { w.takes(w.send(protocol.SignalClose, protocol.Close{})) })
	w.start(session.Options{Seed: "team"})
	var v protocol.SessionView
	if err := w.GetWorkflowResult(&v); err != nil || v.State != protocol.Closed || v.Close == nil || v.Close.Wiped {
		t.Errorf("session is %+v, closed %+v (%v)", v, v.Close, err)
	}
	if len(w.fake.closed) == 0 || w.fake.closed[0].Discard || w.fake.closed[0].Claim.Host.Name != "web-3" {
		t.Errorf("closed with %+v", w.fake.closed)
	}
	var told *lease.LeftBehind
	for _, b := range w.back {
		if b.Left != nil && b.Left.Host == "web-3" {
			told = b.Left
		}
	}
	if told == nil || told.Discard || told.Generation == 0 {
		t.Errorf("the pool was told %+v", told)
	}
}

func TestASessionThatCannotComeUpIsParkedAndSaysWhy(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
	w.at(3*time.Second, func() {
		w.fake.fail("prepare", finally(protocol.ErrTypeNoSpace))
		w.send(protocol.SignalMessage, hello("m2"))
		w.send(protocol.SignalMessage, hello("m3"))
	})
	w.at(4*time.Second, func() {
		v := w.view()
		if v.State != protocol.Parked || v.Error == nil || v.Error.Kind != protocol.ErrTypeNoSpace || v.Queue != 2 || v.Error.Hint == "" {
			t.Errorf("session is %+v", v)
		}
		if left := w.back[len(w.back)-1].Left; left == nil || left.Host != "web-1" || left.Snapshot == nil || left.Snapshot.Parent == "" {
			t.Errorf("the pool was told %+v", left)
		}
		w.fake.fail("prepare", nil)
		w.takes(w.send(protocol.SignalResume, protocol.Resume{Host: "web-3"}))
	})
	w.at(5*time.Second, func() {
		if v := w.view(); v.State != protocol.Idle || v.Host != "web-3" || v.Queue != 0 || v.Turn.N != 3 || v.Turn.Status != "completed" {
			t.Errorf("session is %+v", v)
		}
		w.send(protocol.SignalMessage, hello("m4"))
	})
	w.at(6*time.Second, func() {
		if v := w.view(); v.Turn.N != 4 || v.Turn.Status != "completed" {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(7 * time.Second)
	w.start(session.Options{Seed: "team"})
}

func TestARolloverWhileParkedIsParked(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
	w.at(3*time.Second, func() {
		w.fill()
		w.SignalWorkflow(protocol.SignalMessage, "any event wakes it")
	})
	w.start(session.Options{})
	next := newWorld(t)
	next.fake.rest = endsTurn("completed", "")
	next.fake.parks = w.fake.parks // the same host
	next.at(time.Second, func() {
		if v := next.view(); v.State != protocol.Parked || v.Warm == nil {
			t.Errorf("session is %+v", v)
		}
		next.send(protocol.SignalMessage, hello("m2"))
	})
	next.at(2*time.Second, func() {
		if v := next.view(); v.State != protocol.Idle || v.Turn.N != 2 {
			t.Errorf("session is %+v", v)
		}
	})
	next.ends(3 * time.Second)
	next.ExecuteWorkflow(protocol.TypeSession, carried(t, w.continued()))
	next.verify()
	if r := next.lastPrepared().Restore; r == nil || r.Warm == 0 {
		t.Errorf("prepared with %+v", r)
	}
}

func TestAParkedSessionThatWaitsForAHostCanBeSentElsewhere(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
	w.at(2*time.Second, func() { w.mute = true; w.send(protocol.SignalMessage, hello("m1")) })
	w.at(3*time.Second, func() {
		if v := w.view(); v.State != protocol.Resuming {
			t.Errorf("session is %+v", v)
		}
		w.mute = false
		w.takes(w.send(protocol.SignalResume, protocol.Resume{Host: "web-9"}))
	})
	w.at(4*time.Second, func() {
		if v := w.view(); v.State != protocol.Idle || v.Host != "web-9" || v.Turn.Status != "completed" {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(5 * time.Second)
	w.start(session.Options{Host: "web-1"})
}

// The pool knows of only one lease, so it repeats the grant of that lease.
func TestAWishForAnotherHostOutlivesTheGrantThatCrossesIt(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
	w.at(2*time.Second, func() { w.mute = true; w.send(protocol.SignalMessage, hello("m1")) })
	w.at(3*time.Second, func() {
		w.takes(w.send(protocol.SignalResume, protocol.Resume{Host: "web-9"}))
		w.SignalWorkflow(lease.SignalLease, lease.Granted{From: protocol.PoolID(""), Epoch: 1, Spec: &protocol.HostSpec{Name: "web-1"}})
		w.mute = false
	})
	w.at(10*time.Second, func() {
		if v := w.view(); v.State != protocol.Idle || v.Host != "web-9" || v.Turn == nil || v.Turn.Status != "completed" {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(11 * time.Second)
	w.start(session.Options{Host: "web-1"})
	if n := len(w.fake.prepared); n != 3 {
		t.Errorf("%d were prepared", n)
	}
}

func TestASessionThatClosesAfterItsHostWasLostClaimsNothingOfThatHost(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumping{endsTurn("completed", ""), lost}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.mute = true; w.send(protocol.SignalMessage, hello("m2")) })
	w.at(3*time.Second, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(moves)
	var v protocol.SessionView
	if err := w.GetWorkflowResult(&v); err != nil || v.Close == nil || v.Close.Wiped || v.Close.Removed || v.Close.Archive == "" {
		t.Errorf("session is %+v, closed %+v (%v)", v, v.Close, err)
	}
}

func TestASnapshotThatParkingCouldNotTakeHasFailed(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.fake.fail("park", finally(protocol.ErrTypeStore))
		w.takes(w.send(protocol.SignalPark, protocol.Park{}))
	})
	w.at(3*time.Second, func() {
		if v := w.view(); v.State != protocol.Idle || v.Snapshot.N != 1 || v.Snapshot.Tried != 2 || v.Snapshot.Error == nil || v.Error == nil {
			t.Errorf("session is %+v, snapshots %+v", v, v.Snapshot)
		}
	})
	w.ends(4 * time.Second)
	w.start(session.Options{})
}

func TestAWishToParkGoesOverIntoTheNextRun(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.fake.hang("snapshot")
	w.at(50*time.Millisecond, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.whenTurn(1, "completed", func() {
		w.takes(w.send(protocol.SignalPark, protocol.Park{By: "bob"}))
		w.at(20*time.Millisecond, func() { // the session waits for the snapshot by now
			w.fill()
			w.SignalWorkflow(protocol.SignalMessage, "any event wakes it")
		})
	})
	w.start(session.Options{})
	next := newWorld(t)
	next.fake.rest = endsTurn("completed", "")
	next.at(time.Minute, func() { // long before the session would park by itself
		if v := next.view(); v.State != protocol.Parked {
			t.Errorf("session is %+v", v)
		}
		next.CancelWorkflow()
	})
	next.ExecuteWorkflow(protocol.TypeSession, carried(t, w.continued()))
	next.verify()
}

func TestWhatWaitedForAParkedSessionRunsOnceItIsResumed(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
	w.at(3*time.Second, func() {
		w.refuse = &protocol.Failure{Kind: protocol.ErrTypeAuth, Message: "host web-9 was never reached"}
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.at(4*time.Second, func() {
		if v := w.view(); v.State != protocol.Parked || v.Error == nil || v.Turn.N != 1 {
			t.Errorf("session is %+v", v)
		}
		w.refuse = nil
		w.takes(w.send(protocol.SignalResume, protocol.Resume{Host: "local"}))
	})
	w.at(5*time.Second, func() {
		if v := w.view(); v.State != protocol.Idle || v.Host != "local" || v.Turn.N != 2 || v.Turn.Status != "completed" || v.Error != nil {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(6 * time.Second)
	w.start(session.Options{})
	if !w.asked[1].Begun || w.asked[2].Begun || w.asked[0].Begun {
		t.Errorf("the pool was asked %+v", w.asked)
	}
}

// If a person was told that something will be done, it is done, however often workers,
// connections, the store or the host fail meanwhile.
func TestAWishToParkOrToMoveOutlivesEveryFaultThatPasses(t *testing.T) {
	for name, c := range map[string]struct {
		kind   string
		signal string
		wish   any
		state  protocol.SessionStatus
		host   string
	}{
		"workers die while it parks":    {kit.KindTimeout, protocol.SignalPark, protocol.Park{By: "bob"}, protocol.Parked, ""},
		"the host is away":              {protocol.ErrTypeUnreachable, protocol.SignalPark, protocol.Park{By: "bob"}, protocol.Parked, ""},
		"the store is full":             {protocol.ErrTypeStoreFull, protocol.SignalPark, protocol.Park{By: "bob"}, protocol.Parked, ""},
		"workers die while it moves":    {kit.KindTimeout, protocol.SignalResume, protocol.Resume{Host: "web-2", By: "bob"}, protocol.Idle, "web-2"},
		"the wire is lost as it moves":  {protocol.ErrTypeWireLost, protocol.SignalResume, protocol.Resume{Host: "web-2", By: "bob"}, protocol.Idle, "web-2"},
		"workers die as it is put away": {kit.KindTimeout, protocol.SignalArchive, protocol.Archive{By: "bob"}, protocol.Parked, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := waitsLong(t)
			w.fake.rest = endsTurn("completed", "")
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			w.at(2*time.Second, func() {
				w.fake.failTimes("park", 30, finally(c.kind))
				w.takes(w.send(c.signal, c.wish))
			})
			w.waits(func() { w.waited("park on web-1", c.kind) })
			w.once("it is done", func() bool {
				v := w.view()
				return v.State == c.state && (c.host == "" || v.Host == c.host)
			}, func() {
				if v := w.view(); v.WaitingFor != nil || v.Error != nil || len(w.fake.parks) != 31 {
					t.Errorf("after %d tries it is %+v, waits for %+v, %+v", len(w.fake.parks), v, v.WaitingFor, v.Error)
				}
				w.send(protocol.SignalClose, protocol.Close{})
			})
			w.start(session.Options{Host: "web-1", Seed: "team"})
		})
	}
}

// If the session cannot park now as a person asked, a message still does not have to wait.
func TestAMessageEndsTheWaitOfASessionThatIsToPark(t *testing.T) {
	w := waitsLong(t)
	w.fake.rest = endsTurn("completed", "")
	w.fake.fail("park", finally(protocol.ErrTypeStoreFull))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
	w.waits(func() { w.takes(w.send(protocol.SignalMessage, hello("m2"))) })
	w.whenTurn(2, "completed", func() {
		if v := w.view(); v.WaitingFor != nil || v.Error != nil || v.State == protocol.Parked {
			t.Errorf("session is %+v", v)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}

// Another request also ends the wait: to go to another host, or to try now.
func TestAWishForAHostEndsTheWaitOfASessionThatIsToPark(t *testing.T) {
	for host, want := range map[string]protocol.SessionStatus{"web-2": protocol.Idle, "": protocol.Parked} {
		w := waitsLong(t)
		w.fake.rest = endsTurn("completed", "")
		w.fake.fail("park", finally(protocol.ErrTypeStoreFull))
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
		w.waits(func() {
			w.fake.fail("park", nil)
			w.takes(w.send(protocol.SignalResume, protocol.Resume{Host: host}))
		})
		w.once("it is done", func() bool {
			v := w.view()
			return v.State == want && (host == "" || v.Host == host)
		}, func() { w.send(protocol.SignalClose, protocol.Close{}) })
		w.start(session.Options{Host: "web-1"})
		if len(w.fake.parks) != 2 {
			t.Errorf("it tried %d times", len(w.fake.parks))
		}
	}
}

func TestARolloverKeepsTheWaitOfASessionThatIsToPark(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.fake.fail("park", finally(protocol.ErrTypeStoreFull))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{By: "bob"})) })
	w.waits(func() {
		w.fill()
		w.SignalWorkflow(protocol.SignalMessage, "any event wakes it")
	})
	w.start(session.Options{})
	next := newWorld(t)
	next.at(time.Minute, func() {
		if v := next.view(); v.State != protocol.Parked || v.WaitingFor != nil {
			t.Errorf("session is %+v", v)
		}
		next.CancelWorkflow()
	})
	next.ExecuteWorkflow(protocol.TypeSession, carried(t, w.continued()))
	next.verify()
}

// If a host that a person named cannot be reached for a while, the session does not use
// another host.
func TestASessionComesUpOnTheHostThatWasNamed(t *testing.T) {
	w := waitsLong(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.whenTurn(1, "completed", func() {
		w.fake.failTimes("prepare", 30, finally(protocol.ErrTypeUnreachable))
		w.takes(w.send(protocol.SignalResume, protocol.Resume{Host: "web-2", By: "bob"}))
	})
	w.waits(func() { w.waited("come back", protocol.ErrTypeUnreachable) })
	w.once("it is up", func() bool { v := w.view(); return v.State == protocol.Idle && v.Host != "web-1" }, func() {
		if v := w.view(); v.Host != "web-2" || v.WaitingFor != nil {
			t.Errorf("it is on %s, waiting for %+v", v.Host, v.WaitingFor)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}
