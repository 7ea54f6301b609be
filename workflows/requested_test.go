package workflows

import (
	"fmt"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// A program that lost the answer sends its request again, maybe after the session has continued
// as new, where Temporal knows the ids of updates no more.
func TestARequestWithAnIDIsTakenOnceAlsoAfterARollover(t *testing.T) {
	stop := protocol.Interrupt{By: "ann", Request: "interrupt-k"}
	keep := protocol.TakeSnapshot{By: "ann", Request: "snapshot-k"}
	rest := protocol.Park{By: "ann", Request: "park-k"}
	back := protocol.Resume{By: "ann", Request: "resume-k"}
	yesOnce := yes("s1.1", "make")
	yesOnce.By, yesOnce.Request = "ann", "decide-k"
	var first, again *updated
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{asks("make"), asks("test"), endsTurn("interrupted", "")}
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalDecide, yesOnce)) })
	w.at(3*time.Second, func() {
		w.takes(w.send(protocol.SignalDecide, yesOnce))
		w.takes(w.send(protocol.SignalInterrupt, stop))
	})
	w.at(time.Minute, func() {
		w.takes(w.send(protocol.SignalInterrupt, stop)) // no turn runs any more
		w.SignalWorkflow(protocol.SignalInterrupt, stop)
		first = w.send(protocol.SignalSnapshot, keep)
		w.takes(first)
	})
	w.at(2*time.Minute, func() { w.takes(w.send(protocol.SignalPark, rest)) })
	w.at(3*time.Minute, func() { w.takes(w.send(protocol.SignalResume, back)) })
	w.at(4*time.Minute, func() {
		w.fill()
		w.SignalWorkflow(protocol.SignalMessage, "any event wakes it")
	})
	w.start(session.Options{})

	next := newWorld(t)
	next.fake.pumps = []pumpFunc{asks("ls"), endsTurn("interrupted", "")}
	next.at(time.Second, func() { next.send(protocol.SignalMessage, hello("m2")) })
	next.at(2*time.Second, func() {
		for name, arg := range map[string]any{protocol.SignalInterrupt: stop, protocol.SignalPark: rest, protocol.SignalResume: back, protocol.SignalDecide: yesOnce} {
			next.takes(next.send(name, arg))
			next.SignalWorkflow(name, arg)
		}
		again = next.send(protocol.SignalSnapshot, keep)
		next.takes(again)
	})
	next.at(time.Minute, func() {
		if v := next.view(); v.State != protocol.Waiting || v.Turn == nil || v.Turn.N != 2 || len(v.Refusals) > 1 {
			t.Errorf("the repetitions made of turn 2: state %s, turn %+v, refusals %+v", v.State, v.Turn, v.Refusals)
		}
		other := stop
		other.By = "bob" // the same id of somebody else is another request
		next.takes(next.send(protocol.SignalInterrupt, other))
	})
	next.whenTurn(2, "interrupted", func() {
		if d := query[protocol.SessionDetail](next, protocol.QueryDetail); protocol.Took(d.Taken, protocol.SignalInterrupt, "bob", stop.Request) == nil || len(d.Taken) != 6 {
			t.Errorf("the session says that it took %+v", d.Taken)
		}
	})
	next.ends(2 * time.Minute)
	next.ExecuteWorkflow(protocol.TypeSession, carried(t, w.continued()))
	next.verify()
	if a, b := first.result, again.result; fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("the request for a snapshot was answered %+v, and %+v when it was repeated", a, b)
	}
}

func TestASessionKnowsTheNewestRequestsOnly(t *testing.T) {
	w := newWorld(t)
	w.at(time.Second, func() {
		for i := range protocol.KeepRequests + 5 {
			w.SignalWorkflow(protocol.SignalPark, protocol.Park{By: "ann", Request: fmt.Sprint("park-", i)})
		}
	})
	w.at(time.Minute, func() {
		d := query[protocol.SessionDetail](w, protocol.QueryDetail)
		if len(d.Taken) != protocol.KeepRequests || protocol.Took(d.Taken, protocol.SignalPark, "ann", "park-4") != nil || protocol.Took(d.Taken, protocol.SignalPark, "ann", "park-204") == nil {
			t.Errorf("it knows %d requests", len(d.Taken))
		}
	})
	w.ends(2 * time.Minute)
	w.start(session.Options{})
}
