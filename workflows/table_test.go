package workflows

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/session"
)

// reach brings a session into a state. The returned function, if any, lets the session go
// on.
var reach = map[protocol.SessionStatus]func(w *world) (let func()){
	protocol.Queued:    func(w *world) func() { w.mute = true; return nil },
	protocol.Preparing: func(w *world) func() { return w.fake.hang("prepare") },
	protocol.Starting:  func(w *world) func() { return w.fake.hang("start") },
	protocol.Idle:      func(*world) func() { return nil },
	protocol.Running: func(w *world) func() {
		w.fake.pumps = append(w.fake.pumps, staysAttached(protocol.Acknowledged))
		w.begin()
		return nil
	},
	protocol.Waiting: func(w *world) func() {
		w.fake.pumps = append(w.fake.pumps, asks("make"))
		w.begin()
		return nil
	},
	protocol.Interrupted: func(w *world) func() {
		w.fake.pumps = append(w.fake.pumps, dies(protocol.Acknowledged, true))
		w.begin()
		return nil
	},
	protocol.Resuming: func(w *world) func() {
		w.fake.pumps = append(w.fake.pumps, dies(protocol.Decided, true))
		w.begin()
		return w.fake.hang("stop")
	},
	protocol.Parked: func(w *world) func() {
		w.when(protocol.Idle, func() { w.send(protocol.SignalPark, protocol.Park{}) })
		return nil
	},
	protocol.Closing: func(w *world) func() {
		// Close an idle session: one that is closed while it is prepared may have nothing
		// to close.
		w.when(protocol.Idle, func() { w.send(protocol.SignalClose, protocol.Close{}) })
		return w.fake.hang("close")
	},
	protocol.Failed: func(w *world) func() {
		w.fake.fail("start", finally(protocol.ErrTypeNoSpace))
		return w.fake.hang("close")
	},
}

func (w *world) begin() {
	w.at(50*time.Millisecond, func() { w.send(protocol.SignalMessage, hello("first")) })
}

// calm answers as a pump whose turn completes at once.
func calm(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	return endsTurn("completed", "")(ctx, in)
}

const taken = ""

type column struct {
	what string
	name string
	arg  any
	want map[protocol.SessionStatus]string // a state that is not listed accepts the message
}

// columns are the columns of the table in the package's documentation.
var columns = []column{
	{"message", protocol.SignalMessage, hello("m1"), refusedIn(protocol.Closing, protocol.Failed)},
	{"steer", protocol.SignalMessage, protocol.Message{ID: "m1", Text: "faster", Mode: "steer"},
		refusedIn(protocol.Queued, protocol.Preparing, protocol.Starting, protocol.Idle, protocol.Parked, protocol.Interrupted, protocol.Closing, protocol.Failed)},
	{"decide", protocol.SignalDecide, protocol.Decide{Approval: "s1.1", Digest: "digest of make", Outcome: "accept"},
		foundIn(protocol.Waiting)},
	{"interrupt", protocol.SignalInterrupt, protocol.Interrupt{By: "bob"},
		refusedIn(protocol.Queued, protocol.Preparing, protocol.Starting, protocol.Idle, protocol.Parked, protocol.Interrupted, protocol.Closing, protocol.Failed)},
	{"budget", protocol.SignalBudget, protocol.Budget{Tokens: tokens(1000), TurnTimeout: "1h"}, refusedIn(protocol.Closing, protocol.Failed)},
	{"set", protocol.SignalSet, protocol.Set{By: "bob", Model: "big", Effort: "high"}, refusedIn(protocol.Closing, protocol.Failed)},
	{"models", protocol.SignalModels, protocol.AskModels{}, refusedIn(protocol.Closing, protocol.Failed)},
	{"compact", protocol.SignalMessage, protocol.Message{ID: "m1", Do: "compact"}, refusedIn(protocol.Queued, protocol.Preparing, protocol.Starting, protocol.Idle, protocol.Parked, protocol.Closing, protocol.Failed)},
	{"review", protocol.SignalMessage, protocol.Message{ID: "m1", Do: "review"}, refusedIn(protocol.Closing, protocol.Failed)},
	{"unsend", protocol.SignalUnsend, protocol.Unsend{Message: "first"}, unsendable},
	{"archive", protocol.SignalArchive, protocol.Archive{By: "bob"}, refusedIn(protocol.Queued, protocol.Preparing, protocol.Starting, protocol.Running, protocol.Waiting, protocol.Resuming, protocol.Closing, protocol.Failed)},
	{"unarchive", protocol.SignalUnarchive, protocol.Archive{}, refusedIn(protocol.Queued, protocol.Preparing, protocol.Starting, protocol.Idle, protocol.Running, protocol.Waiting, protocol.Interrupted, protocol.Parked, protocol.Resuming, protocol.Closing, protocol.Failed)},
	{"close", protocol.SignalClose, protocol.Close{}, refusedIn(protocol.Closing, protocol.Failed)},
	{"discard", protocol.SignalClose, protocol.Close{Discard: true}, nil},
	{"snapshot", protocol.SignalSnapshot, protocol.TakeSnapshot{By: "bob"}, refusedIn(protocol.Queued, protocol.Preparing, protocol.Starting, protocol.Idle, protocol.Parked, protocol.Closing, protocol.Failed)},
	{"park", protocol.SignalPark, protocol.Park{By: "bob"}, refusedIn(protocol.Queued, protocol.Preparing, protocol.Starting, protocol.Running, protocol.Waiting, protocol.Resuming, protocol.Closing, protocol.Failed)},
	{"resume", protocol.SignalResume, protocol.Resume{By: "bob"}, refusedIn(protocol.Queued, protocol.Preparing, protocol.Starting, protocol.Idle, protocol.Running, protocol.Waiting, protocol.Interrupted, protocol.Resuming, protocol.Closing, protocol.Failed)},
	{"move", protocol.SignalResume, protocol.Resume{Host: "web-2"}, refusedIn(protocol.Queued, protocol.Preparing, protocol.Starting, protocol.Running, protocol.Waiting, protocol.Resuming, protocol.Closing, protocol.Failed)},
}

// unsendable holds the answers to a request to take back a message, by state. The message
// was never sent, or its turn has begun.
var unsendable = map[protocol.SessionStatus]string{
	protocol.Queued: protocol.RefusedNotFound, protocol.Preparing: protocol.RefusedNotFound, protocol.Starting: protocol.RefusedNotFound, protocol.Idle: protocol.RefusedNotFound, protocol.Parked: protocol.RefusedNotFound,
	protocol.Running: protocol.RefusedState, protocol.Waiting: protocol.RefusedState, protocol.Interrupted: protocol.RefusedState, protocol.Resuming: protocol.RefusedState, protocol.Closing: protocol.RefusedState, protocol.Failed: protocol.RefusedState,
}

func refusedIn(states ...protocol.SessionStatus) map[protocol.SessionStatus]string {
	m := map[protocol.SessionStatus]string{}
	for _, s := range states {
		m[s] = protocol.RefusedState
	}
	return m
}

// foundIn returns the answers for an approval that exists only in state. In all other
// states the approval is not found.
func foundIn(state protocol.SessionStatus) map[protocol.SessionStatus]string {
	m := map[protocol.SessionStatus]string{}
	for s := range reach {
		if s != state {
			m[s] = protocol.RefusedNotFound
		}
	}
	return m
}

// TestMessageTable tries every message in every state that a session can be in, as
// an update and as a signal. A session that has ended takes no message at all:
// Temporal refuses it.
func TestMessageTable(t *testing.T) {
	for state, get := range reach {
		for _, col := range columns {
			for _, door := range []string{"update", "signal"} {
				t.Run(fmt.Sprintf("%s/%s/%s", state, col.what, door), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					w.fake.rest = calm
					let := get(w)
					after := func() {
						if v := w.view(); door == "signal" && (len(v.Refusals) == 0) != (col.want[state] == taken) {
							t.Errorf("refusals are %v", v.Refusals)
						}
						w.mute = false
						if let != nil {
							let()
						}
						w.CancelWorkflow()
					}
					w.when(state, func() {
						want := col.want[state]
						if door == "signal" {
							w.SignalWorkflow(col.name, col.arg)
						} else if u := w.send(col.name, col.arg); want == taken {
							w.takes(u)
						} else {
							w.refuses(u, want)
						}
						w.RegisterDelayedCallback(after, 10*time.Millisecond)
					})
					w.ExecuteWorkflow(protocol.TypeSession, session.Input{ID: "s1"})
					if !w.IsWorkflowCompleted() {
						t.Fatal("the session did not end")
					}
					w.verify()
				})
			}
		}
	}
}

// TestMessageTableRepeats checks that an accepted message gets the same answer for
// as long as the session can answer.
func TestMessageTableRepeats(t *testing.T) {
	for _, state := range []protocol.SessionStatus{protocol.Running, protocol.Waiting, protocol.Interrupted, protocol.Resuming} {
		w := newWorld(t)
		w.fake.rest = calm
		let := reach[state](w)
		w.fake.hang("close")
		w.when(state, func() {
			w.takes(w.send(protocol.SignalMessage, hello("first")))
			w.RegisterDelayedCallback(func() {
				w.send(protocol.SignalClose, protocol.Close{})
				if let != nil {
					let()
				}
			}, 10*time.Millisecond)
		})
		w.when(protocol.Closing, func() {
			u := w.send(protocol.SignalMessage, hello("first"))
			w.takes(u)
			w.refuses(w.send(protocol.SignalMessage, hello("second")), protocol.RefusedState)
			w.checks = append(w.checks, func() {
				if acc, ok := u.result.(protocol.MessageAccepted); !ok || acc.N != 1 {
					t.Errorf("the repeat was answered %+v", u.result)
				}
			})
			w.send(protocol.SignalClose, protocol.Close{Discard: true})
		})
		w.start(session.Options{})
	}
}

// TestMessageTableApprovals checks the answer to a decision in each state of its
// approval.
func TestMessageTableApprovals(t *testing.T) {
	decide := func(d protocol.Decide) protocol.Decide {
		d.Approval, d.Digest = "s1.1", "digest of make"
		if d.Outcome == "" {
			d.Outcome = "accept"
		}
		return d
	}
	for state, pumps := range map[protocol.ApprovalState][]func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error){
		protocol.ApprovalOpen:         {asks("make")},
		protocol.ApprovalSent:         {asks("make"), dies(protocol.Sent, true)},
		protocol.ApprovalAcknowledged: {asks("make"), endsTurn("completed", "")},
		protocol.ApprovalVoid:         {asks("make"), dies(protocol.Decided, true)},
		protocol.ApprovalExpired:      {asks("make"), endsTurn("completed", "")},
	} {
		w := newWorld(t)
		w.fake.pumps, w.fake.rest = pumps, calm
		w.begin()
		if state != protocol.ApprovalOpen && state != protocol.ApprovalExpired {
			w.at(time.Second, func() { w.takes(w.send(protocol.SignalDecide, decide(protocol.Decide{}))) })
		}
		w.at(time.Hour, func() {
			if a := query[[]protocol.Approval](w, protocol.QueryApprovals); len(a) != 1 || a[0].State != state {
				t.Errorf("approvals are %+v, want one that is %s", a, state)
			}
			u := w.send(protocol.SignalDecide, decide(protocol.Decide{}))
			if state == protocol.ApprovalOpen {
				w.takes(u)
			} else {
				w.refuses(u, protocol.RefusedState)
			}
		})
		w.ends(2 * time.Hour)
		opt := session.Options{}
		if state == protocol.ApprovalExpired {
			opt.Expiry = time.Minute
		}
		w.start(opt)
	}

	w := newWorld(t)
	w.fake.pumps, w.fake.rest = []func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error){asks("make")}, calm
	w.begin()
	w.at(time.Second, func() {
		for _, bad := range []protocol.Decide{
			{Outcome: "answer"}, {Outcome: "perhaps"}, {Scope: "for ever"}, {Outcome: "decline", Scope: "session"},
			{Reason: strings.Repeat("x", kit.MaxReason+1)}, {By: strings.Repeat("x", kit.MaxWord+1)}, {Answers: []byte(`{"q":"a"}`)},
		} {
			w.refuses(w.send(protocol.SignalDecide, decide(bad)), protocol.RefusedBadInput)
		}
		w.takes(w.send(protocol.SignalDecide, decide(protocol.Decide{Answers: []byte("null")})))
		w.refuses(w.send(protocol.SignalDecide, decide(protocol.Decide{})), protocol.RefusedState) // decided, not sent
	})
	w.ends(2 * time.Second)
	w.start(session.Options{})
}
