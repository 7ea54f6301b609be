package workflows

import (
	"fmt"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

func (w *world) message(id string) protocol.MessageView {
	w.t.Helper()
	for _, m := range w.view().Messages {
		if m.ID == id {
			return m
		}
	}
	w.t.Errorf("the session shows no message %s: %+v", id, w.view().Messages)
	return protocol.MessageView{}
}

func (w *world) knows(id, state string) bool {
	for _, m := range w.view().Messages {
		if m.ID == id && m.State == state {
			return true
		}
	}
	return false
}

func (w *world) shows(id, kind string, turn int, state string) {
	w.t.Helper()
	if m := w.message(id); m.Kind != kind || m.Turn != turn || m.State != state || m.At.IsZero() {
		w.t.Errorf("message %s is %+v, want a %s of turn %d that is %s", id, m, kind, turn, state)
	}
}

func TestHowFarEachMessageCameIsShown(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{asks("make", "rm x"), asks(), asks(), staysAttached(protocol.Acknowledged), endsTurn("interrupted", ""), endsTurn("completed", "")}
	w.at(50*time.Millisecond, func() { w.send(protocol.SignalMessage, hello("m1")); w.send(protocol.SignalMessage, hello("m2")) })
	w.when(protocol.Waiting, func() {
		w.shows("m1", "message", 1, "acknowledged")
		w.shows("m2", "message", 2, "queued")
		w.send(protocol.SignalDecide, yes("s1.1", "make"))
	})
	w.once("the first decision is there", func() bool { return w.knows("s1.a1", "acknowledged") }, func() {
		if a := w.approval("s1.1"); a.State != protocol.ApprovalAcknowledged || a.Delivery != "acknowledged" {
			t.Errorf("the approval is %+v", a)
		}
		w.send(protocol.SignalMessage, protocol.Message{ID: "m3", Text: "faster", Mode: "steer"})
	})
	w.once("codex is steered", func() bool { return w.knows("m3", "acknowledged") }, func() {
		w.shows("m3", "steer", 1, "acknowledged")
		w.send(protocol.SignalDecide, yes("s1.2", "rm x"))
	})
	w.attached(4, func() {
		w.shows("s1.a2", "decision", 1, "decided")
		if a := w.approval("s1.2"); a.State != protocol.ApprovalDecided || a.Delivery != "decided" {
			t.Errorf("the approval is %+v", a)
		}
		w.takes(w.send(protocol.SignalInterrupt, protocol.Interrupt{By: "bob"}))
	})
	w.whenTurn(2, "completed", func() {
		w.shows("m2", "message", 2, "acknowledged")
		w.shows("s1.a2", "decision", 1, "acknowledged")
		w.shows("s1.i1", "interrupt", 1, "acknowledged")
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}

func TestWhatDidNotArriveIsShownAsThat(t *testing.T) {
	for state, want := range map[protocol.DeliveryState]string{
		protocol.Decided: "void", protocol.Sent: "sent", protocol.Acknowledged: "acknowledged",
	} {
		w := lostTurn(t, decision("accept", ""), diesWith(state), endsTurn("completed", ""))
		w.at(time.Minute, func() { w.shows("s1.a1", "decision", 1, want) })
		w.ends(6 * time.Minute)
		w.start(session.Options{})
	}
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{answered(protocol.Rejected, "too long")}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Minute, func() { w.shows("m1", "message", 1, "rejected") })
	w.ends(time.Hour)
	w.start(session.Options{})
	w = newWorld(t)
	w.fake.pumps = []pumpFunc{dies(protocol.Sent, true)}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Minute, func() { w.shows("m1", "message", 1, "sent") })
	w.ends(time.Hour)
	w.start(session.Options{})
}

func TestOfManyMessagesTheUnsettledAndTheNewestAreShown(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.fake.pumps = []pumpFunc{asks("make"), staysAttached(protocol.Acknowledged)}
	w.at(50*time.Millisecond, func() { w.send(protocol.SignalMessage, hello("m0")) })
	w.when(protocol.Waiting, func() {
		w.send(protocol.SignalDecide, yes("s1.1", "make"))
		for i := 1; i <= 40; i++ {
			w.send(protocol.SignalMessage, hello(fmt.Sprint("m", i)))
		}
	})
	w.attached(2, func() {
		if m := w.view().Messages; len(m) != session.KeepMessageViews || m[len(m)-1].ID != "m40" {
			t.Errorf("%d messages are shown: %+v", len(m), m)
		}
		w.shows("s1.a1", "decision", 1, "decided")
		w.send(protocol.SignalInterrupt, protocol.Interrupt{})
	})
	w.whenTurn(41, "completed", func() {
		if m := w.view().Messages; len(m) != session.KeepMessageViews {
			t.Errorf("%d messages are shown", len(m))
		}
		w.shows("m40", "message", 41, "acknowledged")
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}

func TestAMessageThatNeverHadItsTurnIsVoidInTheEnd(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("interrupted", "")
	w.fake.pumps = []pumpFunc{asks("make")}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")); w.send(protocol.SignalMessage, hello("m2")) })
	w.ends(time.Minute)
	w.start(session.Options{})
	w.shows("m2", "message", 2, "void")
	w.shows("m1", "message", 1, "acknowledged")
}
