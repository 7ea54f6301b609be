package workflows

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/schedule"
	"fairlead.dev/fairlead/workflows/session"
)

// readsOn returns a pump that reports the end of a turn that earlier pumps had not
// reported. An empty status means that the turn was cut off.
func readsOn(status string) pumpFunc {
	return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		answer := dies(protocol.Acknowledged, true)
		if status != "" {
			answer = endsTurn(status, "done")
		}
		out, err := answer(ctx, in)
		out.Pump.State.Seq = 40
		return out, err
	}
}

// Promises 1 and 7: closing reads codex's journal to its end before it deletes it,
// even if the host cannot be reached at the time of the close.
func TestClosingReadsTheJournalToItsEnd(t *testing.T) {
	for name, c := range map[string]struct{ says, status string }{
		"the turn was cut off": {"", "interrupted"},
		"the turn had ended":   {"completed", "completed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = []pumpFunc{staysAttached(protocol.Acknowledged), lost, lost, lost, readsOn(c.says)}
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			w.attached(1, func() { w.send(protocol.SignalClose, protocol.Close{By: "ann"}) })
			w.start(session.Options{})
			if v := w.view(); v.State != protocol.Closed || v.Turn.Status != c.status {
				t.Errorf("session is %+v", v)
			}
			if in := w.fake.closed; len(in) != 1 || in[0].Seq != 40 {
				t.Errorf("closed with %+v, want the journal read to entry 40", in)
			}
			calls := strings.Join(w.fake.calls, ", ")
			if !strings.Contains(calls, "stop 1") || strings.Contains(calls, "record what was heard") {
				t.Errorf("calls are %s", calls)
			}
			if in := w.fake.ran[len(w.fake.ran)-1].Pump; in.Again == 0 {
				t.Errorf("the pump that reads the rest was not told that others may have stored of it: %+v", in)
			}
		})
	}
}

// Promise 7: only a person who says discard gives up a journal that was not read. The
// transcript has all that pumps had read of it, and says that the rest is missing.
func TestDiscardPutsOnRecordWhatWasHeard(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{staysAttached(protocol.Acknowledged), lost, lost, lost}
	w.fake.heard = func(in pumps.RecordLostInput) pumps.RecordLostResult {
		return pumps.RecordLostResult{Seq: 40}
	}
	w.fake.hang("stop")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.attached(1, func() { w.send(protocol.SignalClose, protocol.Close{By: "ann"}) })
	w.once("codex is being stopped", func() bool { return w.fake.called("stop 1") }, func() {
		if v := w.view(); v.State != protocol.Closing || v.Turn.Status != "inProgress" {
			t.Errorf("meanwhile it is %+v", v)
		}
		w.takes(w.send(protocol.SignalClose, protocol.Close{Discard: true}))
	})
	w.start(session.Options{})
	if v := w.view(); v.State != protocol.Closed || v.Turn.Status != "unknown" {
		t.Errorf("session is %+v", v)
	}
	in := w.fake.closed
	if len(in) != 1 || in[0].Seq != 40 || !in[0].Discard || len(w.fake.losts) != 1 {
		t.Fatalf("closed with %+v, recorded %d times", in, len(w.fake.losts))
	}
	if !noted(in[0].Notes, "was not read") {
		t.Errorf("nothing is said of the rest: %+v", in[0].Notes)
	}
}

// If a session fails, the transcript has all that its pumps had read.
func TestAFailedSessionKeepsWhatItsPumpsHeard(t *testing.T) {
	for _, kind := range []string{protocol.ErrTypeHostKey, protocol.ErrTypeHostFlood} {
		w := newWorld(t)
		w.fake.pumps = []pumpFunc{lost, func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
			return pumps.RunPumpResult{}, finally(kind)
		}}
		w.fake.heard = func(in pumps.RecordLostInput) pumps.RecordLostResult {
			return pumps.RecordLostResult{Seq: 40}
		}
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.start(session.Options{})
		if v := w.view(); v.State != protocol.Failed || v.Turn.Status != "unknown" || v.Error.Kind != kind {
			t.Errorf("%s: session is %+v", kind, v)
		}
		if in := w.fake.closed; len(in) != 1 || in[0].Seq != 40 {
			t.Errorf("%s: closed with %+v", kind, in)
		}
	}
}

func TestASessionThatFailsWithinATurnReadsItsJournal(t *testing.T) {
	fails := func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		return pumps.RunPumpResult{}, finally(protocol.ErrTypeBadInput)
	}
	for name, c := range map[string]struct {
		reads  pumpFunc
		stop   error
		status string
		seq    int64
	}{
		"the turn was cut off": {readsOn(""), nil, "interrupted", 40},
		"the turn had ended":   {readsOn("completed"), nil, "completed", 40},
		"codex is not stopped": {nil, finally(protocol.ErrTypeUnfit), "unknown", 0},
		"it fails again":       {fails, nil, "unknown", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = []pumpFunc{lost, fails}
			w.fake.rest = c.reads
			w.fake.fail("stop", c.stop)
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			w.start(session.Options{})
			if v := w.view(); v.State != protocol.Failed || v.Error == nil || v.Error.Kind != protocol.ErrTypeBadInput || v.Turn.Status != c.status {
				t.Errorf("session is %+v, failed with %+v", v, v.Error)
			}
			in := w.fake.closed
			if len(in) != 1 || in[0].Seq != c.seq || noted(in[0].Notes, "was not read") != (c.seq == 0) {
				t.Errorf("closed with %+v", in)
			}
		})
	}
}

// A session that fails within a turn while its host is away reads codex's journal
// before closing removes it, however long the host is away.
func TestASessionThatFailsWhileItsHostIsAwayReadsItsJournalLater(t *testing.T) {
	fails := func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		return pumps.RunPumpResult{}, finally(protocol.ErrTypeBadInput)
	}
	away := temporal.NewApplicationError("no route to host", protocol.ErrTypeUnreachable)
	wireIsLost := func(n int, then pumpFunc) pumpFunc {
		var tries atomic.Int64
		return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
			if tries.Add(1) <= int64(n) {
				return pumps.RunPumpResult{}, temporal.NewApplicationError("the wire was cut", protocol.ErrTypeWireLost)
			}
			return then(ctx, in)
		}
	}
	for name, c := range map[string]struct {
		reads   pumpFunc
		stops   int // failed attempts to stop codex
		discard bool
		status  string
		seq     int64
	}{
		"the turn was cut off":   {reads: readsOn(""), stops: 30, status: "interrupted", seq: 40},
		"the turn had ended":     {reads: readsOn("completed"), stops: 30, status: "completed", seq: 40},
		"the connection is lost": {reads: wireIsLost(30, readsOn("completed")), status: "completed", seq: 40},
		"it fails again":         {reads: fails, stops: 30, status: "unknown"},
		"it is given up":         {stops: 1 << 30, discard: true, status: "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = []pumpFunc{lost, fails}
			w.fake.rest = c.reads
			w.fake.failTimes("stop", c.stops, away)
			if c.stops == 0 {
				w.fake.fail("stop", nil)
			}
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			if c.discard {
				w.when(protocol.Closing, func() {
					w.refuses(w.send(protocol.SignalMessage, hello("m2")), protocol.RefusedState)
					w.takes(w.send(protocol.SignalClose, protocol.Close{Discard: true}))
				})
			}
			w.start(session.Options{Notify: "batch/b1"})
			if v := w.view(); v.State != protocol.Failed || v.Error == nil || v.Error.Kind != protocol.ErrTypeBadInput || v.Turn.Status != c.status {
				t.Errorf("session is %+v, failed with %+v, turn %+v", v, v.Error, v.Turn)
			}
			in := w.fake.closed
			if len(in) != 1 || in[0].Seq != c.seq || noted(in[0].Notes, "was not read") != (c.seq == 0) {
				t.Errorf("closed with %+v", in)
			}
			for _, e := range w.ended {
				if e.State != protocol.Failed || e.Failure == nil || e.Failure.Kind != protocol.ErrTypeBadInput {
					t.Errorf("the batch was told %+v", e)
				}
			}
			if len(w.ended) == 0 {
				t.Error("the batch was told nothing")
			}
		})
	}
}

// A session whose process cannot be stopped still reports its original error.
func TestASessionThatFailsWithinATurnSaysWhy(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.TimedOut, State: opened(in), Deliveries: acked(in),
			Problem: &protocol.Problem{Kind: "turn_timeout", Message: "too long"}}}, nil
	}}
	w.fake.fail("stop", temporal.NewNonRetryableApplicationError("another key", protocol.ErrTypeHostKey, nil))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.start(session.Options{})
	if err := w.GetWorkflowError(); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Errorf("the session ended with %v", err)
	}
	if v := w.view(); v.State != protocol.Failed || v.Error == nil || v.Turn.Status != "unknown" {
		t.Errorf("session is %+v", v)
	}
	if in := w.fake.closed; len(in) != 1 || !noted(in[0].Notes, "was not read") {
		t.Errorf("closed with %+v", in)
	}
}

func noted(notes []conversation.Note, text string) bool {
	for _, n := range notes {
		if strings.Contains(n.Text, text) {
			return true
		}
	}
	return false
}

func (f *fakeSessions) called(what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c == what {
			return true
		}
	}
	return false
}

// Promise 11: an unreachable host holds up no batch and no schedule. The session reports to
// the pool what is left on the host, and to the seed a login that may be there.
func TestASessionThatSomebodyWaitsForEndsWithoutItsHost(t *testing.T) {
	for _, kind := range []string{protocol.ErrTypeUnreachable, protocol.ErrTypeWireLost} {
		t.Run(kind, func(t *testing.T) { endsWithoutItsHost(t, kind) })
	}
}

func endsWithoutItsHost(t *testing.T, kind string) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{endsTurn("completed", "done")}
	w.fake.fail("close", temporal.NewApplicationError("no route to host", kind))
	e := w.begins(hello("m1"), session.Options{CloseAfter: true, Notify: "batch/b1", Seed: "team"})
	if e.State != protocol.Closed || e.Turn == nil || e.Turn.Status != "completed" || e.Left == "" || e.Failure == nil {
		t.Errorf("the end was told as %+v", e)
	}
	if v := w.view(); v.State != protocol.Closed || v.Close == nil || v.Close.Wiped || v.Close.Removed {
		t.Errorf("session is %+v, closed %+v", v, v.Close)
	}
	if n := len(w.fake.closed); n != session.CloseTries {
		t.Errorf("tried %d times", n)
	}
	if w.left == nil || w.left.Layout == nil || w.left.Discard || w.left.Snapshot == nil || w.left.Seed == nil {
		t.Errorf("the pool was told of %+v", w.left)
	}
	for i, r := range w.back {
		if w.released[i] == protocol.SeedID("team") && (r.Clean || r.Discarded) {
			t.Errorf("the seed was told %+v", r)
		}
		if w.released[i] == protocol.PoolID("") && (r.Failed == nil || r.Failed.Kind != protocol.ErrTypeUnreachable) {
			t.Errorf("the pool was told %+v of its host", r.Failed)
		}
	}
	if len(w.released) != 2 {
		t.Errorf("released %q", w.released)
	}
}

// If any other fault keeps a session from cleaning up, it still reports its end to the
// workflow that waits for it.
func TestTheEndIsToldBeforeItIsCleanedUp(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{endsTurn("completed", "done")}
	w.fake.closeErrs = []error{finally(protocol.ErrTypeStore), finally(protocol.ErrTypeStore)}
	w.at(30*time.Second, func() {
		if v := w.view(); v.State != protocol.Closing || len(w.ended) != 1 || len(w.released) != 0 {
			t.Errorf("meanwhile it is %+v, told %+v, released %v", v, w.ended, w.released)
		}
	})
	e := w.begins(hello("m1"), session.Options{CloseAfter: true, Notify: "batch/b1"})
	if e.State != protocol.Closed || e.Turn.Status != "completed" || e.Left == "" {
		t.Errorf("the end was told as %+v", e)
	}
	if v := w.view(); v.State != protocol.Closed || !v.Close.Wiped || len(w.fake.closed) != 3 {
		t.Errorf("after %d tries it is %+v", len(w.fake.closed), v)
	}
}

// A session that nobody waits for goes on until its host is clean.
func TestASessionOfAPersonWaitsForItsHost(t *testing.T) {
	w := newWorld(t)
	w.fake.fail("close", temporal.NewApplicationError("no route to host", protocol.ErrTypeUnreachable))
	w.at(time.Hour, func() {
		if v := w.view(); v.State != protocol.Closing || v.Error == nil || v.Error.Kind != protocol.ErrTypeUnreachable || len(w.released) > 0 {
			t.Errorf("meanwhile it is %+v, released %v", v, w.released)
		}
		w.fake.fail("close", nil)
	})
	w.ends(time.Second)
	w.start(session.Options{})
	if v := w.view(); v.State != protocol.Closed || v.Error != nil || !v.Close.Wiped {
		t.Errorf("session is %+v", v)
	}
}

func TestAFiringEndsWithItsSessionsTurn(t *testing.T) {
	for _, status := range []string{"completed", "failed"} {
		t.Run(status, func(t *testing.T) {
			env := newEnvironment()
			env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: protocol.ScheduleID("nightly") + "-2026-11-23T00:00:00Z"})
			env.RegisterWorkflowWithOptions(func(ctx workflow.Context, in session.Input) (protocol.SessionView, error) {
				e := protocol.SessionEnded{ID: in.ID, State: protocol.Closed, Turn: &protocol.TurnView{N: 1, Status: status}, Left: "no route to host"}
				parent := workflow.GetInfo(ctx).ParentWorkflowExecution
				if err := workflow.SignalExternalWorkflow(ctx, parent.ID, "", protocol.SignalSessionEnded, e).Get(ctx, nil); err != nil {
					t.Error(err)
				}
				return protocol.SessionView{}, workflow.Sleep(ctx, 24*time.Hour) // stands for a session whose host is away
			}, workflow.RegisterOptions{Name: protocol.TypeSession})
			began := env.Now()
			env.ExecuteWorkflow(schedule.Fire, schedule.FireInput{Schedule: "nightly", Session: &session.Input{Options: session.Options{CloseAfter: true}}})
			if late := env.Now().Sub(began); !env.IsWorkflowCompleted() || late >= time.Hour {
				t.Fatalf("it ended after %v", late)
			}
			var out protocol.FireResult
			if err := env.GetWorkflowError(); (err == nil) != (status == "completed") {
				t.Errorf("it ended with %v", err)
			} else if err != nil {
				schedule.ReadFireResult(&out, err)
			} else if err := env.GetWorkflowResult(&out); err != nil {
				t.Error(err)
			}
			if out.State != string(protocol.Closed) || out.Status != status || out.ID == "" {
				t.Errorf("it is %+v", out)
			}
		})
	}
}
