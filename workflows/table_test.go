package workflows

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/protocol"
)

// reach brings a session into a state. The returned function, if any, lets it go
// on.
var reach = map[SessionStatus]func(w *world) (let func()){
	Queued:    func(w *world) func() { w.mute = true; return nil },
	Preparing: func(w *world) func() { return w.fake.hang("prepare") },
	Starting:  func(w *world) func() { return w.fake.hang("start") },
	Idle:      func(*world) func() { return nil },
	Running: func(w *world) func() {
		w.fake.pumps = append(w.fake.pumps, staysAttached(protocol.Acknowledged))
		w.begin()
		return nil
	},
	Waiting: func(w *world) func() {
		w.fake.pumps = append(w.fake.pumps, asks("make"))
		w.begin()
		return nil
	},
	Interrupted: func(w *world) func() {
		w.fake.pumps = append(w.fake.pumps, dies(protocol.Acknowledged, true))
		w.begin()
		return nil
	},
	Resuming: func(w *world) func() {
		w.fake.pumps = append(w.fake.pumps, dies(protocol.Decided, true))
		w.begin()
		return w.fake.hang("stop")
	},
	Parked: func(w *world) func() {
		w.when(Idle, func() { w.send(SignalPark, Park{}) })
		return nil
	},
	Closing: func(w *world) func() {
		// A session that is closed while it is prepared may have nothing to close.
		w.when(Idle, func() { w.send(SignalClose, Close{}) })
		return w.fake.hang("close")
	},
	Failed: func(w *world) func() {
		w.fake.fail("start", finally(protocol.ErrTypeNoSpace))
		return w.fake.hang("close")
	},
}

func (w *world) begin() {
	w.at(50*time.Millisecond, func() { w.send(SignalMessage, hello("first")) })
}

// calm answers pumps until the turn is interrupted or everything is decided.
func calm(ctx context.Context, in activities.RunPumpInput) (activities.RunPumpResult, error) {
	return endsTurn("completed", "")(ctx, in)
}

const taken = ""

type column struct {
	what string
	name string
	arg  any
	want map[SessionStatus]string // a state that is not listed accepts the message
}

// The columns of the table in the package's documentation.
var columns = []column{
	{"message", SignalMessage, hello("m1"), refusedIn(Closing, Failed)},
	{"steer", SignalMessage, Message{ID: "m1", Text: "faster", Mode: "steer"},
		refusedIn(Queued, Preparing, Starting, Idle, Parked, Interrupted, Closing, Failed)},
	{"decide", SignalDecide, Decide{Approval: "s1.1", Digest: "digest of make", Outcome: "accept"},
		foundIn(Waiting)},
	{"interrupt", SignalInterrupt, Interrupt{By: "bob"},
		refusedIn(Queued, Preparing, Starting, Idle, Parked, Interrupted, Closing, Failed)},
	{"budget", SignalBudget, Budget{Tokens: tokens(1000), TurnTimeout: "1h"}, refusedIn(Closing, Failed)},
	{"set", SignalSet, Set{By: "bob", Model: "big", Effort: "high"}, refusedIn(Closing, Failed)},
	{"models", SignalModels, AskModels{}, refusedIn(Closing, Failed)},
	{"compact", SignalMessage, Message{ID: "m1", Do: "compact"}, refusedIn(Queued, Preparing, Starting, Idle, Parked, Closing, Failed)},
	{"review", SignalMessage, Message{ID: "m1", Do: "review"}, refusedIn(Closing, Failed)},
	{"unsend", SignalUnsend, Unsend{Message: "first"}, unsendable},
	{"archive", SignalArchive, Archive{By: "bob"}, refusedIn(Queued, Preparing, Starting, Running, Waiting, Resuming, Closing, Failed)},
	{"unarchive", SignalUnarchive, Archive{}, refusedIn(Queued, Preparing, Starting, Idle, Running, Waiting, Interrupted, Parked, Resuming, Closing, Failed)},
	{"close", SignalClose, Close{}, refusedIn(Closing, Failed)},
	{"discard", SignalClose, Close{Discard: true}, nil},
	{"snapshot", SignalSnapshot, TakeSnapshot{By: "bob"}, refusedIn(Queued, Preparing, Starting, Idle, Parked, Closing, Failed)},
	{"park", SignalPark, Park{By: "bob"}, refusedIn(Queued, Preparing, Starting, Running, Waiting, Resuming, Closing, Failed)},
	{"resume", SignalResume, Resume{By: "bob"}, refusedIn(Queued, Preparing, Starting, Idle, Running, Waiting, Interrupted, Resuming, Closing, Failed)},
	{"move", SignalResume, Resume{Host: "web-2"}, refusedIn(Queued, Preparing, Starting, Running, Waiting, Resuming, Closing, Failed)},
}

// unsendable is the answer to taking back a message that has begun or was never
// sent.
var unsendable = map[SessionStatus]string{
	Queued: RefusedNotFound, Preparing: RefusedNotFound, Starting: RefusedNotFound, Idle: RefusedNotFound, Parked: RefusedNotFound,
	Running: RefusedState, Waiting: RefusedState, Interrupted: RefusedState, Resuming: RefusedState, Closing: RefusedState, Failed: RefusedState,
}

func refusedIn(states ...SessionStatus) map[SessionStatus]string {
	m := map[SessionStatus]string{}
	for _, s := range states {
		m[s] = RefusedState
	}
	return m
}

// foundIn returns the answers if only state has the approval: in all other states
// it is not found.
func foundIn(state SessionStatus) map[SessionStatus]string {
	m := map[SessionStatus]string{}
	for s := range reach {
		if s != state {
			m[s] = RefusedNotFound
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
					w.ExecuteWorkflow(TypeSession, SessionInput{ID: "s1"})
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
	for _, state := range []SessionStatus{Running, Waiting, Interrupted, Resuming} {
		w := newWorld(t)
		w.fake.rest = calm
		let := reach[state](w)
		w.fake.hang("close")
		w.when(state, func() {
			w.takes(w.send(SignalMessage, hello("first")))
			w.RegisterDelayedCallback(func() {
				w.send(SignalClose, Close{})
				if let != nil {
					let()
				}
			}, 10*time.Millisecond)
		})
		w.when(Closing, func() {
			u := w.send(SignalMessage, hello("first"))
			w.takes(u)
			w.refuses(w.send(SignalMessage, hello("second")), RefusedState)
			w.checks = append(w.checks, func() {
				if acc, ok := u.result.(MessageAccepted); !ok || acc.N != 1 {
					t.Errorf("the repeat was answered %+v", u.result)
				}
			})
			w.send(SignalClose, Close{Discard: true})
		})
		w.start(SessionOptions{})
	}
}

// TestMessageTableApprovals checks the answer to a decision in each state of its
// approval.
func TestMessageTableApprovals(t *testing.T) {
	decide := func(d Decide) Decide {
		d.Approval, d.Digest = "s1.1", "digest of make"
		if d.Outcome == "" {
			d.Outcome = "accept"
		}
		return d
	}
	for state, pumps := range map[ApprovalState][]func(context.Context, activities.RunPumpInput) (activities.RunPumpResult, error){
		ApprovalOpen:         {asks("make")},
		ApprovalSent:         {asks("make"), dies(protocol.Sent, true)},
		ApprovalAcknowledged: {asks("make"), endsTurn("completed", "")},
		ApprovalVoid:         {asks("make"), dies(protocol.Decided, true)},
		ApprovalExpired:      {asks("make"), endsTurn("completed", "")},
	} {
		w := newWorld(t)
		w.fake.pumps, w.fake.rest = pumps, calm
		w.begin()
		if state != ApprovalOpen && state != ApprovalExpired {
			w.at(time.Second, func() { w.takes(w.send(SignalDecide, decide(Decide{}))) })
		}
		w.at(time.Hour, func() {
			if a := query[[]Approval](w, QueryApprovals); len(a) != 1 || a[0].State != state {
				t.Errorf("approvals are %+v, want one that is %s", a, state)
			}
			u := w.send(SignalDecide, decide(Decide{}))
			if state == ApprovalOpen {
				w.takes(u)
			} else {
				w.refuses(u, RefusedState)
			}
		})
		w.ends(2 * time.Hour)
		opt := SessionOptions{}
		if state == ApprovalExpired {
			opt.Expiry = time.Minute
		}
		w.start(opt)
	}

	w := newWorld(t)
	w.fake.pumps, w.fake.rest = []func(context.Context, activities.RunPumpInput) (activities.RunPumpResult, error){asks("make")}, calm
	w.begin()
	w.at(time.Second, func() {
		for _, bad := range []Decide{
			{Outcome: "answer"}, {Outcome: "perhaps"}, {Scope: "for ever"}, {Outcome: "decline", Scope: "session"},
			{Reason: strings.Repeat("x", maxReason+1)}, {By: strings.Repeat("x", maxWord+1)}, {Answers: []byte(`{"q":"a"}`)},
		} {
			w.refuses(w.send(SignalDecide, decide(bad)), RefusedBadInput)
		}
		w.takes(w.send(SignalDecide, decide(Decide{Answers: []byte("null")})))
		w.refuses(w.send(SignalDecide, decide(Decide{})), RefusedState) // decided, not sent
	})
	w.ends(2 * time.Second)
	w.start(SessionOptions{})
}
