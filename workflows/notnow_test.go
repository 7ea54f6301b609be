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

// overloaded answers as a pump whose codex accepts nothing.
func overloaded(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.Overloaded, State: opened(in),
		Deliveries: deliveries(in, protocol.Decided), Problem: &protocol.Problem{Kind: protocol.EndOverloaded, Message: "codex is overloaded"}}}, nil
}

// If codex refuses a message for now, the session waits, shows that it waits, and sends the
// message again.
func TestCodexThatTakesNothingIsWaitedFor(t *testing.T) {
	for kind, pump := range map[string]pumpFunc{"overloaded": overloaded, "thread_busy": refuses("thread_busy", protocol.Decided)} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = []pumpFunc{pump, pump, pump, pump, pump, pump, endsTurn("completed", "at last")}
			w.at(time.Second, func() {
				w.send(protocol.SignalMessage, hello("m1"))
			})
			w.at(time.Minute, func() {
				v := w.view()
				if x := v.WaitingFor; x == nil || x.Kind != kind || x.Attempt < 3 || !strings.Contains(x.Doing, "have codex take") {
					t.Errorf("waits for %+v", x)
				}
			})
			w.at(time.Hour, func() {
				w.wantTurn(1, "m1", "", "completed", "at last")
				if v := w.view(); v.WaitingFor != nil || v.State != protocol.Idle {
					t.Errorf("session is %+v", v)
				}
			})
			w.ends(2 * time.Hour)
			w.start(session.Options{})
			if n := len(w.fake.ran); n != 7 || w.fake.starts != 1 {
				t.Errorf("%d pumps, %d processes", n, w.fake.starts)
			}
		})
	}
}

// An interrupt that comes during this wait ends the turn. Codex was told nothing of that
// turn.
func TestAnInterruptEndsTheWaitForACodexThatTakesNothing(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = overloaded
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(10*time.Minute, func() { w.takes(w.send(protocol.SignalInterrupt, protocol.Interrupt{By: "ada"})) })
	w.at(11*time.Minute, func() {
		w.wantTurn(1, "m1", "", "interrupted", "")
		if v := w.view(); v.State != protocol.Idle {
			t.Errorf("session is %s", v.State)
		}
		w.fake.mu.Lock()
		w.fake.rest = endsTurn("completed", "two")
		w.fake.mu.Unlock()
		w.takes(w.send(protocol.SignalMessage, hello("m2")))
	})
	w.at(30*time.Minute, func() { w.wantTurn(2, "m2", "", "completed", "two") })
	w.ends(time.Hour)
	w.start(session.Options{})
}

// An interrupt voids open requests at once, and refuses decisions on them.
func TestAnInterruptVoidsWhatWaitsForAPerson(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{
		asks("make"),
		func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
			if sends := in.Pump.Sends; len(sends) != 1 || sends[0].Kind != conversation.SendInterrupt {
				t.Errorf("codex is told %+v", sends)
			}
			// Another request comes before codex has stopped.
			out, err := asks("make", "rm x")(ctx, in)
			out.Pump.Requests = out.Pump.Requests[1:]
			return out, err
		},
		endsTurn("interrupted", ""),
	}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Minute, func() {
		w.takes(w.send(protocol.SignalInterrupt, protocol.Interrupt{By: "ada", Reason: "wrong way"}))
		w.refuses(w.send(protocol.SignalDecide, yes("s1.1", "make")), protocol.RefusedState) // before codex has answered
	})
	w.at(2*time.Minute, func() {
		w.wantTurn(1, "m1", "", "interrupted", "")
		for _, a := range query[[]protocol.Approval](w, protocol.QueryApprovals) {
			if a.State != protocol.ApprovalVoid || a.VoidReason != "the turn was interrupted by ada: wrong way" || a.Decision != nil {
				t.Errorf("approval %+v", a)
			}
		}
	})
	w.ends(3 * time.Minute)
	w.start(session.Options{})
}
