package workflows

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

func (w *world) closingNotes() string {
	var all []string
	for _, in := range w.fake.closed {
		for _, n := range in.Notes {
			all = append(all, n.Text)
		}
	}
	for _, in := range w.fake.ran {
		for _, n := range in.Pump.Notes {
			all = append(all, n.Text)
		}
	}
	for _, in := range w.fake.recorded {
		for _, n := range in.Notes {
			all = append(all, n.Text)
		}
	}
	return strings.Join(all, "\n")
}

func TestASessionClosesWhenItsTimeIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		pumps  func(w *world)
		does   func(w *world)
		after  time.Duration // how long the session may live after its time is over
		turns  int
		status string
		says   string
	}{
		"idle": {turns: 1, status: "completed", says: "the session has lived for 1h0m0s"},
		"parked": {turns: 1, status: "completed", says: "the session has lived for 1h0m0s",
			does: func(w *world) { w.at(2*time.Minute, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) }) }},
		"after its turn, and nothing queued begins": {turns: 1, status: "completed", after: 5 * time.Minute, says: "the session has lived for 1h0m0s",
			pumps: func(w *world) { w.fake.pumps = append(w.fake.pumps, asks("make")) },
			does: func(w *world) {
				w.at(30*time.Minute, func() { w.takes(w.send(protocol.SignalMessage, hello("m2"))) })
				w.at(time.Hour+5*time.Minute, func() {
					w.takes(w.send(protocol.SignalDecide, protocol.Decide{Approval: "s1.1", Digest: "digest of make", Outcome: "accept"}))
				})
			}},
		"in the end whatever runs": {turns: 1, status: "interrupted", after: session.TTLGrace, says: "still runs 15m0s later, is interrupted",
			pumps: func(w *world) {
				w.fake.pumps = append(w.fake.pumps, asks("make"))
				w.fake.rest = endsTurn("interrupted", "")
			}},
	} {
		w := newWorld(t)
		w.fake.rest = endsTurn("completed", "")
		if c.pumps != nil {
			c.pumps(w)
		}
		var began time.Time
		w.at(time.Second, func() { began = w.view().CreatedAt; w.send(protocol.SignalMessage, hello("m1")) })
		if c.does != nil {
			c.does(w)
		}
		w.start(session.Options{TTL: time.Hour})
		var v protocol.SessionView
		if err := w.GetWorkflowResult(&v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if v.State != protocol.Closed || v.Turn == nil || v.Turn.N != c.turns || v.Turn.Status != c.status {
			t.Errorf("%s: session is %+v, turn %+v", name, v, v.Turn)
		}
		if lived := w.Now().Sub(began) - time.Hour; lived < c.after || lived > c.after+time.Minute {
			t.Errorf("%s: it closed %v after its time", name, lived)
		}
		if notes := w.closingNotes(); !strings.Contains(notes, c.says) {
			t.Errorf("%s: it says\n%s", name, notes)
		}
	}
}

func TestASessionThatGetsNoHostClosesWhenItsTimeIsOver(t *testing.T) {
	w := newWorld(t)
	w.mute = true
	w.start(session.Options{TTL: time.Hour})
	var v protocol.SessionView
	if err := w.GetWorkflowResult(&v); err != nil || v.State != protocol.Closed || len(w.fake.calls) > 0 {
		t.Errorf("session is %+v, %v, after %v", v, err, w.fake.calls)
	}
	if got := strings.Join(w.released, " "); got != "pool/default" {
		t.Errorf("given back was %s", got)
	}
}
