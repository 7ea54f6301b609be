package workflows

import (
	"context"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

func failsWith(kind string) pumpFunc {
	return func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		return pumps.RunPumpResult{}, finally(kind)
	}
}

// Promise 11: no message is lost because a worker lacks a key or has another store.
func TestAWorkersFaultIsWaitedOut(t *testing.T) {
	for _, kind := range []string{protocol.ErrTypeInternal, protocol.ErrTypeStore, protocol.ErrTypeSeed} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = []pumpFunc{failsWith(kind), failsWith(kind), endsTurn("completed", "one"), endsTurn("completed", "two")}
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")); w.send(protocol.SignalMessage, hello("m2")) })
			w.once("it waits", func() bool { return w.view().WaitingFor != nil }, func() {
				v := w.view()
				if v.State != protocol.Running || v.WaitingFor.Kind != kind || v.WaitingFor.Doing != session.TalkToCodex || v.Turn.Status != "inProgress" || v.Queue != 1 {
					t.Errorf("meanwhile it is %+v, waiting %+v", v, v.WaitingFor)
				}
			})
			w.whenTurn(2, "completed", func() {
				if v := w.view(); v.WaitingFor != nil || v.Error != nil {
					t.Errorf("session is %+v", v)
				}
				w.send(protocol.SignalClose, protocol.Close{})
			})
			w.start(session.Options{})
			if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 1}); turn.Status != "completed" || len(w.fake.ran) != 4 {
				t.Errorf("after %d pumps turn 1 is %+v", len(w.fake.ran), turn)
			}
			if s := w.fake.ran[1].Pump.Sends; len(s) != 1 || !s[0].Uncertain {
				t.Errorf("the next pump was told %+v, and the one before may have written", s)
			}
		})
	}
}

func TestCloseEndsTheWaitForAWorker(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{failsWith(protocol.ErrTypeStore)}
	w.fake.rest = readsOn("interrupted")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.once("it waits", func() bool { return w.view().WaitingFor != nil }, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{})
	if v := w.view(); v.State != protocol.Closed || v.Turn.Status != "interrupted" || len(w.fake.ran) != 2 {
		t.Errorf("after %d pumps it is %+v", len(w.fake.ran), v)
	}
}

// No message is lost if a process cannot be stopped because of a worker's fault.
func TestAStopThatFailsIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	late := func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.TimedOut, State: opened(in), Deliveries: acked(in),
			Problem: &protocol.Problem{Kind: "turn_timeout", Message: "too long"}}}, nil
	}
	w.fake.fail("stop", finally(protocol.ErrTypeStore))
	w.fake.pumps = []pumpFunc{late, late, dies(protocol.Acknowledged, true), endsTurn("completed", "")}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.once("it waits", func() bool { return w.view().WaitingFor != nil }, func() { w.fake.fail("stop", nil) })
	w.whenTurn(1, "interrupted", func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.whenTurn(2, "completed", func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{})
	if v := w.view(); v.State != protocol.Closed || v.WaitingFor != nil {
		t.Errorf("session is %+v", v)
	}
}

// Promise 11: if the host knows a newer holder, the session keeps its queue and changes
// nothing on the host. It comes back with a higher generation when a person sends a message
// or resume.
func TestAnOvertakenSessionKeepsItsQueue(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{endsTurn("completed", "one"), failsWith(protocol.ErrTypeFenced), saysTold(endsTurn("completed", "three")), endsTurn("completed", "four")}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.send(protocol.SignalMessage, hello("m2")); w.send(protocol.SignalMessage, hello("m3")) })
	w.when(protocol.Parked, func() {
		v := w.view()
		if v.Error == nil || v.Error.Kind != protocol.ErrTypeFenced || v.Queue != 1 || v.Turn.Status != "unknown" {
			t.Errorf("session is %+v, error %+v", v, v.Error)
		}
		if w.left != nil || len(w.released) != 1 {
			t.Errorf("released %v, left %+v", w.released, w.left)
		}
		w.takes(w.send(protocol.SignalMessage, hello("m4")))
	})
	w.whenTurn(4, "completed", func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{})
	if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 3}); turn.Status != "completed" {
		t.Errorf("turn 3 is %+v", turn)
	}
	if a, b := w.fake.ran[1].Claim.Generation, w.fake.ran[2].Claim.Generation; b <= a {
		t.Errorf("it came back as generation %d after %d", b, a)
	}
}

// Promise 11: a session that closes after its last turn runs everything it
// accepted, even after a turn that was cut off.
func TestASessionForSomeTurnsRunsAllThatWereAccepted(t *testing.T) {
	for name, first := range map[string]pumpFunc{
		"interrupted": dies(protocol.Acknowledged, true),
		"unknown":     dies(protocol.Sent, true),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = []pumpFunc{first, endsTurn("completed", "two")}
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")); w.send(protocol.SignalMessage, hello("m2")) })
			w.start(session.Options{CloseAfter: true})
			if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 1}); turn.Status != name {
				t.Errorf("turn 1 is %+v", turn)
			}
			if v := w.view(); v.State != protocol.Closed || v.Turn.N != 2 || v.Turn.Status != "completed" || v.Queue != 0 {
				t.Errorf("session is %+v", v)
			}
		})
	}
}

// Promise 11: a message that certainly never reached codex does not fail if no host is
// available. It is delivered when the session comes back.
func TestAMessageThatWasNotSentIsQueuedAgain(t *testing.T) {
	w := newWorld(t)
	w.hosts = []string{"web-1", "web-2"}
	w.fake.pumps = []pumpFunc{endsTurn("completed", ""), dies(protocol.Decided, true)}
	w.fake.rest = saysTold(endsTurn("completed", "done"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.fake.fail("stop", finally(protocol.ErrTypeUnreachable)) // so that the session moves
		w.refuse = &protocol.Failure{Kind: "host_not_found", Message: "no such host"}
		w.takes(w.send(protocol.SignalMessage, hello("m2")))
	})
	w.when(protocol.Parked, func() {
		v := w.view()
		if v.Queue != 1 || v.Error == nil || v.Error.Kind != "host_not_found" {
			t.Errorf("session is %+v, error %+v", v, v.Error)
		}
		w.fake.fail("stop", nil)
		w.refuse = nil
		u := w.send(protocol.SignalMessage, hello("m2")) // a repeat gets the same answer
		w.takes(u)
		w.takes(w.send(protocol.SignalResume, protocol.Resume{}))
	})
	w.whenTurn(2, "completed", func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(moves)
	if v := w.view(); v.State != protocol.Closed || v.Usage.Turns != 2 {
		t.Errorf("session is %+v, turn %+v", v, v.Turn)
	}
}

// Promise 1: when the server is away, workers end pumps that the workflow did not cancel.
// These pumps do not count as pumps without progress, however many they are.
func TestPumpsThatTheServerEndsSayNothingOfCodex(t *testing.T) {
	w := newWorld(t)
	ended := func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		st := in.Pump.State // the pump had no time to read
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.PumpCancelled, State: st}}, nil
	}
	runs := func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := ended(ctx, in)
		out.Pump.State = opened(in)
		out.Pump.State.TurnID, out.Pump.Deliveries = "turn-1", acked(in)
		return out, err
	}
	w.fake.pumps = []pumpFunc{runs}
	for range 30 {
		w.fake.pumps = append(w.fake.pumps, ended)
	}
	w.fake.rest = endsTurn("completed", "one")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.whenTurn(1, "completed", func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{})
	if v := w.view(); v.State != protocol.Closed || v.Turn.Status != "completed" || v.Error != nil || len(w.fake.ran) != 32 {
		t.Errorf("after %d pumps it is %+v, %+v", len(w.fake.ran), v.Turn, v.Error)
	}
	if got := strings.Join(w.fake.calls, ","); strings.Contains(got, "stop 1") {
		t.Errorf("codex was stopped: %s", got)
	}
}

// A resume makes a session that waits to talk to codex try at once, on its host.
func TestAResumeOfASessionThatWaitsForAWorkerHasItTryNow(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{failsWith(protocol.ErrTypeStore), failsWith(protocol.ErrTypeStore), failsWith(protocol.ErrTypeStore), failsWith(protocol.ErrTypeStore)}
	w.fake.rest = endsTurn("completed", "one")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.once("it has failed four times", func() bool { v := w.view().WaitingFor; return v != nil && v.Attempt == 4 }, func() {
		w.takes(w.send(protocol.SignalResume, protocol.Resume{By: "ann"}))
	})
	w.whenTurn(1, "completed", func() {
		if v := w.view(); v.WaitingFor != nil || v.Host != "web-1" || len(w.fake.parks) != 0 {
			t.Errorf("session is %+v after %d parks", v, len(w.fake.parks))
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{Snapshot: protocol.SnapshotOptions{When: protocol.SnapshotOff}})
	if v := w.view(); v.Attempt != 1 || v.State != protocol.Closed {
		t.Errorf("session is %+v", v)
	}
}
