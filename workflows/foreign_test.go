package workflows

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// These tests are about turns that codex begins by itself.

// deliveries returns the deliveries of a pump that found codex in a turn that it began by
// itself. The sends that begin a turn have the state turns: they were not written, or
// possibly written.
func deliveries(in pumps.RunPumpInput, turns protocol.DeliveryState) (out []protocol.Delivery) {
	for _, s := range in.Pump.Sends {
		d := protocol.Delivery{ID: s.ID, State: protocol.Acknowledged}
		if s.Kind == conversation.SendTurn || s.Kind == conversation.SendSteer && slices.ContainsFunc(in.Pump.Sends, func(s conversation.Send) bool { return s.Kind == conversation.SendTurn }) {
			d.State = turns
		}
		out = append(out, d)
	}
	return out
}

func foreignState(in pumps.RunPumpInput, id string) conversation.PumpState {
	st := opened(in)
	if st.TurnID != id {
		st.Turn = in.Pump.NextTurn
	}
	st.TurnID, st.Foreign, st.Restless = id, true, true
	return st
}

func codexBegan(id string) pumpFunc {
	return func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.TurnBegun, State: foreignState(in, id),
			Deliveries: deliveries(in, protocol.Decided)}}, nil
	}
}

// codexEnded returns a pump that read the end of a turn that codex began by itself.
func codexEnded(id, status string, begun bool, turns protocol.DeliveryState) pumpFunc {
	return func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		st := foreignState(in, id)
		n := st.Turn
		st.TurnID, st.Foreign = "", false
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.TurnEnded, State: st, Begun: begun, Deliveries: deliveries(in, turns),
			Turn: &conversation.TurnEnd{N: n, ID: id, Status: status, FinalText: "of " + id, Foreign: true, Effects: true, Items: 1, Usage: protocol.Usage{Input: 7}}}}, nil
	}
}

// thenBegins returns a pump that saw codex begin another turn after the turn of pump had
// ended.
func thenBegins(pump pumpFunc) pumpFunc {
	return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := pump(ctx, in)
		out.Pump.Begun, out.Pump.State.Restless = true, true
		return out, err
	}
}

func (w *world) wantTurn(n int, message, begunBy, status, text string) {
	w.t.Helper()
	v := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: n})
	if v.MessageID != message || v.BegunBy != begunBy || v.Status != status || v.FinalText != text {
		w.t.Errorf("turn %d is %+v, want one of message %q begun by %q that is %s with %q", n, v, message, begunBy, status, text)
	}
}

func turnSends(in pumps.RunPumpInput) (out []conversation.Send) {
	for _, s := range in.Pump.Sends {
		if s.Kind == conversation.SendTurn {
			out = append(out, s)
		}
	}
	return out
}

// An idle session learns of a turn that codex begins and shows it. People decide its
// requests, and a message waits for its end.
func TestATurnThatCodexBeginsIsAttendedAndAMessageWaitsForIt(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{
		thenBegins(endsTurn("completed", "set")), // 0: the message's turn
		codexBegan("turn-x"),                     // 1: looks
		func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) { // 2
			out, err := asks("make")(ctx, in)
			out.Pump.State.TurnID, out.Pump.State.Foreign = "turn-x", true
			return out, err
		},
		codexEnded("turn-x", "completed", false, protocol.Decided), // 3: with the decision
		endsTurn("completed", "two"),                               // 4
	}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Minute, func() {
		v := w.view()
		if v.State != protocol.Waiting {
			t.Errorf("session is %s", v.State)
		}
		w.wantTurn(1, "m1", "", "completed", "set")
		w.wantTurn(2, "", "codex", "inProgress", "")
		w.takes(w.send(protocol.SignalMessage, hello("m2")))
		if a := query[[]protocol.Approval](w, protocol.QueryApprovals); len(a) != 1 || a[0].Turn != 2 || a[0].State != protocol.ApprovalOpen {
			t.Errorf("approvals %+v", a)
		}
		w.takes(w.send(protocol.SignalDecide, yes("s1.1", "make")))
	})
	w.at(2*time.Minute, func() {
		w.wantTurn(2, "", "codex", "completed", "of turn-x")
		w.wantTurn(3, "m2", "", "completed", "two")
		if a := query[[]protocol.Approval](w, protocol.QueryApprovals); a[0].State != protocol.ApprovalAcknowledged {
			t.Errorf("approval %+v", a[0])
		}
	})
	w.ends(3 * time.Minute)
	w.start(session.Options{})
	for i, in := range w.fake.ran {
		if sends := turnSends(in); i == 4 != (len(sends) == 1 && sends[0].ID == "m2") && i != 0 {
			t.Errorf("pump %d was to send %+v", i, sends)
		}
	}
}

// A message that was on its way when codex began a turn goes back into the queue
// and is sent once, after that turn. The same holds if that turn has ended already.
func TestAMessageOnItsWayWaitsForATurnThatCodexBegan(t *testing.T) {
	for name, pumps := range map[string][]pumpFunc{
		"it runs":      {codexBegan("turn-x"), codexEnded("turn-x", "completed", false, protocol.Decided)},
		"it has ended": {codexEnded("turn-x", "completed", false, protocol.Decided)},
		// A worker died, and codex may have the message. The next pump finds out.
		"it is not known whether codex has the message": {codexEnded("turn-x", "completed", false, protocol.Sent)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = append(append([]pumpFunc{}, pumps...), endsTurn("completed", "one"), endsTurn("completed", "two"))
			w.at(time.Second, func() {
				w.send(protocol.SignalMessage, hello("m1"))
				w.send(protocol.SignalMessage, hello("m2"))
			})
			w.at(time.Minute, func() {
				w.wantTurn(1, "", "codex", "completed", "of turn-x")
				w.wantTurn(2, "m1", "", "completed", "one")
				w.wantTurn(3, "m2", "", "completed", "two")
				if v := w.view(); v.State != protocol.Idle || v.Queue != 0 {
					t.Errorf("session is %+v", v)
				}
			})
			w.ends(2 * time.Minute)
			w.start(session.Options{})
			n := len(pumps)
			if sends := turnSends(w.fake.ran[n]); len(sends) != 1 || sends[0].ID != "m1" || sends[0].Turn != 2 {
				t.Errorf("the message went out as %+v", sends)
			}
			if sends := turnSends(w.fake.ran[n+1]); len(sends) != 1 || sends[0].ID != "m2" || sends[0].Turn != 3 {
				t.Errorf("the one behind it went out as %+v", sends)
			}
		})
	}
}

// An interrupt while a message waits for codex's own turn stops that turn. The
// message has its turn afterwards.
func TestAnInterruptStopsATurnThatCodexBegan(t *testing.T) {
	w := newWorld(t)
	stays := func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		<-ctx.Done()
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.PumpCancelled, State: foreignState(in, "turn-x"),
			Deliveries: deliveries(in, protocol.Decided)}}, nil
	}
	w.fake.pumps = []pumpFunc{codexBegan("turn-x"), stays, codexEnded("turn-x", "interrupted", false, protocol.Decided), endsTurn("completed", "one")}
	w.at(50*time.Millisecond, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.attached(2, func() { w.takes(w.send(protocol.SignalInterrupt, protocol.Interrupt{By: "ada"})) })
	w.whenTurn(2, "completed", func() {
		w.wantTurn(1, "", "codex", "interrupted", "of turn-x")
		if v := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 1}); v.EndedBy != protocol.EndedByPerson || !strings.Contains(v.Error.Message, "ada") {
			t.Errorf("turn 1: %+v", v)
		}
		w.wantTurn(2, "m1", "", "completed", "one")
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}

func TestCloseAfterWaitsForTheTurnsThatCodexBegins(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{
		thenBegins(endsTurn("completed", "set")),
		codexBegan("turn-x"),
		codexEnded("turn-x", "completed", true, protocol.Decided),
		codexEnded("turn-y", "completed", false, protocol.Decided),
	}
	w.at(50*time.Millisecond, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.start(session.Options{CloseAfter: true})
	if len(w.fake.ran) != 4 {
		t.Errorf("%d pumps", len(w.fake.ran))
	}
}

func TestACloseInterruptsATurnThatCodexBegan(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{
		func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
			<-ctx.Done()
			return thenBegins(endsTurn("interrupted", ""))(ctx, in)
		},
		codexBegan("turn-x"),
		codexEnded("turn-x", "interrupted", false, protocol.Decided),
	}
	w.at(50*time.Millisecond, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.attached(1, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{})
	sends := w.fake.ran[2].Pump.Sends
	if len(sends) != 1 || sends[0].Kind != conversation.SendInterrupt {
		t.Errorf("codex was told %+v", sends)
	}
}
