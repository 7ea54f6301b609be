package workflows

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/schedule"
	"fairlead.dev/fairlead/workflows/session"
)

// A fork whose snapshot cannot be pinned shows this while it tries again. Its start timeout
// applies.
func TestAForkWaitsForTheStoreOnView(t *testing.T) {
	hour := time.Hour
	w := waitsLong(t)
	w.fake.fail("pin", temporal.NewApplicationError("the store is away", protocol.ErrTypeStore))
	w.at(30*time.Minute, func() {
		w.waited("begin", protocol.ErrTypeStore)
		w.fake.mu.Lock()
		defer w.fake.mu.Unlock()
		// The environment makes 10 attempts if there is no limit.
		if n, failed := len(w.fake.calls), w.view().WaitingFor.Attempt; n != 5*failed {
			t.Errorf("%d attempts are %d failures on view", n, failed)
		}
	})
	w.start(session.Options{From: "s0.snap-4", StartTimeout: &hour})
	if v := w.view(); v.State != protocol.Failed || v.Error.Kind != kit.KindStartTimeout {
		t.Errorf("session is %+v, %+v", v, v.Error)
	}
}

// An accepted move survives a store that is away, however often the store fails.
func TestAMoveOutlivesAStoreThatIsAway(t *testing.T) {
	w := waitsLong(t)
	w.fake.rest = saysTold(endsTurn("completed", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(10*time.Second, func() {
		w.fake.failTimes("park", 30*5, temporal.NewApplicationError("the store is away", protocol.ErrTypeStore))
		w.takes(w.send(protocol.SignalResume, protocol.Resume{Host: "web-2", By: "ann"}))
	})
	w.at(time.Minute, func() { w.takes(w.send(protocol.SignalMessage, hello("m2"))) })
	w.at(time.Hour, func() { w.waited("park on web-1", protocol.ErrTypeStore) })
	w.whenTurn(2, "completed", func() {
		w.kept(2)
		if v := w.view(); v.Host != "web-2" {
			t.Errorf("it is on %s", v.Host)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}

func TestAnInterruptCallsOffAMove(t *testing.T) {
	w := waitsLong(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(10*time.Second, func() {
		w.fake.fail("park", temporal.NewApplicationError("the store is away", protocol.ErrTypeStore))
		w.takes(w.send(protocol.SignalResume, protocol.Resume{Host: "web-2", By: "ann"}))
	})
	w.at(time.Hour, func() {
		w.takes(w.send(protocol.SignalMessage, hello("m2")))
		w.takes(w.send(protocol.SignalInterrupt, protocol.Interrupt{By: "ann"}))
	})
	w.whenTurn(2, "completed", func() {
		if v := w.view(); v.Host != "web-1" || v.WaitingFor != nil {
			t.Errorf("it is on %s, waiting for %+v", v.Host, v.WaitingFor)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}

// A request to move does not cancel a pump that only looks for what has happened to a
// process. Otherwise pumps would be started and cancelled for ever while the host cannot be
// reached.
func TestAMoveWaitsForAPumpThatLooks(t *testing.T) {
	w := newWorld(t)
	looks := make(chan struct{})
	away := func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		select {
		case <-ctx.Done():
			return pumps.RunPumpResult{}, ctx.Err()
		case <-looks:
			return lost(ctx, in)
		}
	}
	w.fake.pumps = []pumpFunc{endsTurn("completed", ""), away, away}
	w.fake.rest = saysTold(endsTurn("completed", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(5*time.Second, func() {
		w.SignalWorkflow(lease.SignalStirred, pumps.Stirred{Host: "web-1", Incarnation: 1, Offset: 9000})
	})
	w.attached(2, func() { w.takes(w.send(protocol.SignalResume, protocol.Resume{Host: "web-2"})) })
	w.attached(3, func() { close(looks) })
	w.once("it has moved", func() bool { v := w.view(); return v.Host == "web-2" && v.State == protocol.Idle }, func() {
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.whenTurn(2, "completed", func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{})
}

// Promise 7: if the host refuses a pump while a session closes, nothing is given
// up. The journal is read once the host accepts again.
func TestClosingWaitsForAHostThatRefuses(t *testing.T) {
	for _, kind := range []string{protocol.ErrTypeAuth, protocol.ErrTypeHostKey, protocol.ErrTypeHostFlood, protocol.ErrTypeNoSpace} {
		t.Run(kind, func(t *testing.T) {
			w := waitsLong(t)
			w.fake.pumps = []pumpFunc{asks("make")}
			for range 30 {
				w.fake.pumps = append(w.fake.pumps, failsWith(kind))
			}
			w.fake.rest = readsOn("completed")
			w.fake.failTimes("stop", 30, finally(kind))
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			w.when(protocol.Waiting, func() { w.send(protocol.SignalClose, protocol.Close{By: "ann"}) })
			w.once("it says why it cannot close", func() bool { v := w.view(); return v.Error != nil && v.Error.Kind == kind }, func() {
				if v := w.view(); v.State != protocol.Closing || v.Turn.Status != "inProgress" {
					t.Errorf("meanwhile it is %+v", v)
				}
			})
			w.start(session.Options{})
			if v := w.view(); v.State != protocol.Closed || v.Turn.Status != "completed" || v.Error != nil {
				t.Errorf("session is %+v, %+v", v, v.Error)
			}
			if in := w.fake.closed; len(in) != 1 || in[0].Seq != 40 {
				t.Errorf("closed with %+v, want the journal read to entry 40", in)
			}
		})
	}
}

// Promise 11: if a session is to close and its host is lost within a turn, neither a batch
// nor a schedule waits for it. Promise 7: the session itself waits until it can read the
// rest.
func TestTheEndIsToldWhileAJournalCannotBeRead(t *testing.T) {
	w := waitsLong(t)
	w.fake.pumps = []pumpFunc{asks("make"), lost, lost, lost}
	w.fake.rest = readsOn("completed")
	w.fake.fail("stop", temporal.NewApplicationError("no route to host", protocol.ErrTypeUnreachable))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.when(protocol.Waiting, func() { w.send(protocol.SignalClose, protocol.Close{By: "batch"}) })
	w.once("its end is told", func() bool { return len(w.ended) == 1 }, func() {
		e := w.ended[0]
		if e.State != protocol.Closed || e.Turn == nil || e.Turn.Status != "unknown" || e.Effects == protocol.EffectsNone || e.Left == "" {
			t.Errorf("told %+v, turn %+v", e, e.Turn)
		}
		if v := w.view(); v.State != protocol.Closing || v.Turn.Status != "inProgress" || len(w.released) > 0 {
			t.Errorf("meanwhile it is %+v", v)
		}
		w.at(3*time.Hour, func() { w.fake.fail("stop", nil) })
	})
	w.start(session.Options{CloseAfter: true, Notify: "batch/b1", Seed: "team"})
	if v := w.view(); v.State != protocol.Closed || v.Turn.Status != "completed" || len(w.ended) != 1 {
		t.Errorf("told %d times, session is %+v", len(w.ended), v)
	}
	if in := w.fake.closed; len(in) != 1 || in[0].Seq != 40 {
		t.Errorf("closed with %+v, want the journal read to entry 40", in)
	}
}

// The same holds if the host dies after codex was stopped.
func TestTheEndIsToldWhileAStoppedProcessCannotBeRead(t *testing.T) {
	w := waitsLong(t)
	w.fake.pumps = []pumpFunc{asks("make"), lost, lost, lost}
	away := 0
	w.fake.rest = func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		if away++; away <= 30 {
			return pumps.RunPumpResult{HostLost: &protocol.HostLost{Since: time.Unix(0, 0), Why: "no route to host"}}, nil
		}
		return readsOn("completed")(ctx, in)
	}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.when(protocol.Waiting, func() { w.send(protocol.SignalClose, protocol.Close{By: "batch"}) })
	w.start(session.Options{CloseAfter: true, Notify: "batch/b1"})
	if len(w.ended) != 1 || w.ended[0].Turn.Status != "unknown" || w.ended[0].Left == "" {
		t.Errorf("told %+v", w.ended)
	}
	if v := w.view(); v.State != protocol.Closed || v.Turn.Status != "completed" || v.Error != nil {
		t.Errorf("session is %+v, %+v", v, v.Error)
	}
	if in := w.fake.closed; len(in) != 1 || in[0].Seq != 40 {
		t.Errorf("closed with %+v", in)
	}
}

// Closing may take a snapshot of the work, so it has as much time as other activities that
// move snapshots.
func TestClosingHasTheTimeThatMovingWorkTakes(t *testing.T) {
	w := newWorld(t)
	var had time.Duration
	w.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if info.ActivityType.Name == "CloseSession" {
			had = info.StartToCloseTimeout
		}
	})
	w.ends(time.Second)
	w.start(session.Options{})
	if had != kit.CarryFor {
		t.Errorf("it has %v, want %v", had, kit.CarryFor)
	}
}

func TestEachComingUpTriesOtherHosts(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = saysTold(endsTurn("completed", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
	w.at(3*time.Second, func() {
		w.fake.failTimes("prepare", session.MaxUps+1, finally(protocol.ErrTypeAuth))
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.once("it gave up", func() bool { v := w.view(); return v.State == protocol.Parked && v.Error != nil }, func() {
		w.fake.failTimes("prepare", 1, finally(protocol.ErrTypeAuth))
		w.takes(w.send(protocol.SignalResume, protocol.Resume{}))
	})
	w.whenTurn(2, "completed", func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{})
}

// A session that is to close asks codex to end its turn, if it has not stopped
// codex yet.
func TestAStopThatACloseCallsBackHasStoppedNothing(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.TimedOut, State: opened(in), Deliveries: acked(in),
			Problem: &protocol.Problem{Kind: "turn_timeout", Message: "too long"}}}, nil
	}, endsTurn("interrupted", "")}
	w.fake.hang("stop")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.once("codex is being stopped", func() bool { return w.fake.called("stop 1") }, func() { w.send(protocol.SignalClose, protocol.Close{By: "ann"}) })
	w.start(session.Options{})
	if s := w.lastPump().Pump.Sends; len(s) != 1 || s[0].Kind != conversation.SendInterrupt || len(w.fake.ran) != 2 {
		t.Errorf("pump %d was given %+v", len(w.fake.ran), s)
	}
	if v := w.view(); v.State != protocol.Closed || v.Turn.Status != "interrupted" || v.Process.End != "" {
		t.Errorf("session is %+v, its process %+v", v, v.Process)
	}
}

// Promise 11: a session that closes after its turns waits for a host like any other session
// that has begun.
func TestASessionForSomeTurnsWaitsForAHostToGoOnOn(t *testing.T) {
	w := newWorld(t)
	w.hosts = []string{"web-1", "web-2"}
	kept := make(chan struct{})
	w.fake.pumps = []pumpFunc{endsTurn("completed", ""), func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		<-kept
		return lost(ctx, in)
	}}
	w.fake.rest = saysTold(endsTurn("completed", ""))
	w.at(time.Second, func() {
		for _, m := range []string{"m1", "m2", "m3"} {
			w.send(protocol.SignalMessage, hello(m))
		}
	})
	w.once("turn 1 is kept", func() bool { v := w.view().Snapshot; return v != nil && v.ID != "" }, func() { close(kept) })
	opt := moves
	opt.CloseAfter = true
	w.start(opt)
	var pool []lease.Acquire
	for _, a := range w.asked {
		if a.At == nil { // a seed's request has At
			pool = append(pool, a)
		}
	}
	if len(pool) < 2 || pool[0].Begun || !pool[1].Begun {
		t.Errorf("the pool was asked %+v", pool)
	}
	if v := w.view(); v.State != protocol.Closed || v.Turn.N != 3 || v.Turn.Status != "completed" {
		t.Errorf("session is %+v, turn %+v", v, v.Turn)
	}
}

// Promise 11: the firing of a schedule waits for the store, however often workers fail.
func TestAFiringWaitsForTheStore(t *testing.T) {
	env := newEnvironment()
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: protocol.ScheduleID("nightly") + "-2026-11-23T00:00:00Z"})
	tries := 0
	env.RegisterActivityWithOptions(func(context.Context, batches.HoldBlobsInput) error {
		if tries++; tries <= 30 {
			return temporal.NewApplicationErrorWithOptions("this worker lacks the key", protocol.ErrTypeStore, temporal.ApplicationErrorOptions{
				NonRetryable: true, Details: []any{protocol.Problem{Kind: protocol.ErrTypeStore, Message: "no key", Passing: true}}})
		}
		return nil
	}, activity.RegisterOptions{Name: "HoldBlobs"})
	env.RegisterWorkflowWithOptions(func(_ workflow.Context, in session.Input) (protocol.SessionView, error) {
		return protocol.SessionView{ID: in.ID, State: protocol.Closed, Turn: &protocol.TurnBrief{N: 1, Status: "completed"}}, nil
	}, workflow.RegisterOptions{Name: protocol.TypeSession})
	blob := owned.In(owned.Owner{Kind: owned.Schedule, ID: "nightly"}.RunFolder("r"), owned.Pages) + "/" + strings.Repeat("a", 64)
	env.ExecuteWorkflow(schedule.Fire, schedule.FireInput{Schedule: "nightly", Session: &session.Input{First: &protocol.Message{ID: "m1", Blob: blob}, Options: session.Options{CloseAfter: true}}})
	if err := env.GetWorkflowError(); err != nil || tries != 31 {
		t.Errorf("after %d tries it ended with %v", tries, err)
	}
}

// Promise 9: waiting out a fault costs few events, and the turn after it costs as many
// events as any other turn.
func TestAFaultThatIsWaitedOutCostsFewEvents(t *testing.T) {
	r := newReal(t)
	r.work()
	r.host.fails("s", finally(protocol.ErrTypeUnreachable))
	id := r.session("s", session.Options{Snapshot: protocol.SnapshotOptions{When: protocol.SnapshotClose}})
	failed := func(n int) int {
		r.until("attempts have failed", func() bool { v := r.view(id).WaitingFor; return v != nil && v.Attempt >= n })
		return r.events(id)
	}
	before := failed(1)
	if cost := failed(2) - before; cost > 13 {
		t.Errorf("an attempt costs %d events, at most 13", cost)
	} else {
		t.Logf("an attempt costs %d events", cost)
	}
	r.host.fails("s", nil)
	r.becomes(id, protocol.Idle)
	before = r.events(id)
	r.say(id, "m1", "hello")
	r.ended(id, "m1", "completed")
	r.becomes(id, protocol.Idle)
	if cost := r.events(id) - before; cost > 14 {
		t.Errorf("a plain turn costs %d events, at most 14", cost)
	}
	r.close(id)
}

// The workflow that waits for a session's end does not wait for its transcript.
func TestTheEndIsToldWhileTheTranscriptCannotBeWritten(t *testing.T) {
	w := waitsLong(t)
	w.fake.fail("notes", temporal.NewApplicationError("the store is away", protocol.ErrTypeStore))
	w.refuse = &protocol.Failure{Kind: "host_not_found", Message: "no such host"}
	w.once("its end is told", func() bool { return len(w.ended) == 1 }, func() {
		if e := w.ended[0]; e.State != protocol.Failed || e.Failure.Kind != "host_not_found" || e.Left != "" || e.Effects != protocol.EffectsNone {
			t.Errorf("told %+v", e)
		}
		if f := w.view().WaitingFor; f == nil || f.Kind != protocol.ErrTypeStore {
			t.Errorf("it waits for %+v", f)
		}
	})
	w.at(3*time.Hour, func() { w.fake.fail("notes", nil) })
	w.start(session.Options{CloseAfter: true, Notify: "batch/b1"})
	if len(w.ended) != 1 {
		t.Errorf("told %d times", len(w.ended))
	}
}

// The pool also cleans a host that becomes unreachable while closing waits for another
// fault.
func TestAHostThatDiesLateInClosingIsLeftToItsPool(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{endsTurn("completed", "done")}
	w.fake.closeErrs = []error{finally(protocol.ErrTypeStore)}
	for range 30 {
		w.fake.closeErrs = append(w.fake.closeErrs, temporal.NewApplicationError("no route to host", protocol.ErrTypeUnreachable))
	}
	w.begins(hello("m1"), session.Options{CloseAfter: true, Notify: "batch/b1", Seed: "team"})
	// The environment makes 10 attempts if there is no limit.
	if n := len(w.fake.closed); n != 1+session.CloseTries || w.left == nil || w.left.Discard || w.left.Snapshot == nil {
		t.Errorf("after %d tries the pool was told of %+v", n, w.left)
	}
}
