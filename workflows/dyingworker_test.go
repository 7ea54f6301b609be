package workflows

import (
	"fmt"
	"slices"
	"testing"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// This test runs the message table again, on the real server, with a worker that dies
// shortly before or after the message. The result is the same, and nothing is lost or
// repeated.

// A tableCell is one session that is brought into a state and then sent a message.
type tableCell struct {
	state protocol.SessionStatus
	what  string
	door  string
	fault fault

	id   string
	open func() // lets codex start
}

func (c *tableCell) String() string {
	return fmt.Sprintf("%s/%s/%s, worker %s", c.state, c.what, c.door, c.fault)
}

// cells returns the sessions of the test: each message in each state with each fault. The
// doors take turns, so that each message comes by both in each state.
func cells() []*tableCell {
	doors := []string{"update", "signal"}
	var out []*tableCell
	for _, state := range []protocol.SessionStatus{protocol.Starting, protocol.Running, protocol.Waiting, protocol.Resuming} {
		faults := []fault{diesBefore, diesAfter, isSilent}
		if state == protocol.Running {
			faults = append(faults, diesBack)
		}
		for _, col := range columns {
			if col.what == "discard" {
				continue // in these states, discard does the same as a close
			}
			for _, f := range faults {
				out = append(out, &tableCell{state: state, what: col.what, door: doors[len(out)%2], fault: f})
			}
		}
	}
	return out
}

// begin starts the session and brings it towards its state.
func (c *tableCell) begin(r *real, n int) {
	name := fmt.Sprint("c", n)
	if c.state == protocol.Starting {
		c.open = r.host.gate(r.zone + "." + name)
	}
	c.id = r.session(name, session.Options{})
	switch c.state {
	case protocol.Running:
		r.say(c.id, "m0", "stay")
	case protocol.Waiting:
		r.say(c.id, "m0", "ask make")
	case protocol.Resuming:
		r.becomes(c.id, protocol.Idle)
		c.open = r.host.gate(c.id)
		r.say(c.id, "m0", "late")
	}
}

// tell sends the message and checks that the answer is the one in the table.
func (c *tableCell) tell(r *real) {
	i := slices.IndexFunc(columns, func(col column) bool { return col.what == c.what })
	col := columns[i]
	arg, want := col.arg, col.want[c.state]
	if d, ok := arg.(protocol.Decide); ok {
		d.Approval = c.id + ".1"
		arg = d
	}
	if u, ok := arg.(protocol.Unsend); ok {
		u.Message = "m0"
		arg = u
	}
	r.host.set(c.id, c.fault)
	if c.door == "signal" {
		before := len(r.view(c.id).Refusals)
		r.signal(protocol.SessionID(c.id), col.name, arg)
		if want != taken {
			r.until(fmt.Sprintf("%v is refused", c), func() bool { return len(r.view(c.id).Refusals) > before })
		}
	} else if err := r.tryUpdate(protocol.SessionID(c.id), col.name, nil, arg); typeOf(err) != want || (err == nil) != (want == taken) {
		r.t.Errorf("%v was answered %v, want %q", c, err, want)
	}
	if c.open != nil {
		c.open()
	}
}

// took reports whether the table says that the message is accepted in that state.
func (c *tableCell) took() bool {
	i := slices.IndexFunc(columns, func(col column) bool { return col.what == c.what })
	return columns[i].want[c.state] == taken
}

// arrives waits until an accepted message has reached its destination.
func (c *tableCell) arrives(r *real) {
	if !c.took() {
		return
	}
	t := r.t
	switch c.what {
	case "steer":
		r.until(fmt.Sprintf("%v: the message has reached codex", c), func() bool { return slices.Contains(r.host.hadSteers(c.id), "m1") })
	case "decide":
		r.ended(c.id, "m0", "completed")
		if a := asked[[]protocol.Approval](r, protocol.SessionID(c.id), protocol.QueryApprovals); len(a) != 1 || a[0].State != protocol.ApprovalAcknowledged || a[0].Decision.Outcome != "accept" {
			t.Errorf("%v: approvals are %+v", c, a)
		}
	case "interrupt":
		turn := r.ended(c.id, "m0", "interrupted")
		if turn.Error == nil || turn.Error.Kind != "interrupted" {
			t.Errorf("%v: the turn is %+v", c, turn)
		}
	}
}

func (c *tableCell) closes() bool { return c.what == "close" }

// begins reports whether the message becomes a turn of its own. Its id is then m1.
func (c *tableCell) begins() bool { return c.what == "message" || c.what == "review" }

// goOn ends the turn that brought the session into its state, or gives the session
// its first turn.
func (c *tableCell) goOn(r *real) {
	v := r.view(c.id)
	switch {
	case c.closes():
	case c.state == protocol.Starting && !c.begins():
		r.say(c.id, "m1", "hello")
	case v.Turn == nil || v.Turn.N != 1 || v.Turn.Status != "inProgress":
	case c.state == protocol.Waiting:
		r.decide(c.id, 1, "accept", "")
	case c.state == protocol.Running, c.state == protocol.Resuming:
		r.update(protocol.SessionID(c.id), protocol.SignalInterrupt, nil, protocol.Interrupt{By: "bob"})
	}
}

// settles waits until every turn has ended, and closes the session.
func (c *tableCell) settles(r *real) {
	if c.closes() {
		return
	}
	if c.state != protocol.Starting {
		want := "interrupted"
		if c.state == protocol.Waiting && c.what != "interrupt" {
			want = "completed"
		}
		r.ended(c.id, "m0", want)
	}
	if c.begins() || c.state == protocol.Starting {
		r.ended(c.id, "m1", "completed")
	}
	r.update(protocol.SessionID(c.id), protocol.SignalClose, nil, protocol.Close{})
}

// check checks that an accepted message had its effect exactly once.
func (c *tableCell) check(r *real) {
	t := r.t
	v, err := r.result(c.id)
	if err != nil || v.State != protocol.Closed || !v.Close.Removed {
		t.Errorf("%v: the session ended as %+v (%v)", c, v, err)
	}
	for _, m := range v.Messages {
		if m.State != "acknowledged" && !(c.closes() && m.State == "void") {
			t.Errorf("%v: in the end the %s %s is %s", c, m.Kind, m.ID, m.State)
		}
	}
	seen := map[string]int{}
	for _, turn := range r.host.ran(c.id) {
		if seen[turn.ID]++; seen[turn.ID] > 1 {
			t.Errorf("%v: message %s was %d turns", c, turn.ID, seen[turn.ID])
		}
	}
	if c.state != protocol.Starting && !c.closes() && seen["m0"] != 1 {
		t.Errorf("%v: the first message was %d turns", c, seen["m0"])
	}
	if n := len(r.host.hadSteers(c.id)); n > 1 {
		t.Errorf("%v: codex was steered %d times", c, n)
	}
	if l := r.host.bounds(c.id); c.what == "budget" && (len(l) == 0 || l[len(l)-1].Budget.Tokens != 1000) {
		t.Errorf("%v: its pumps had the bounds %+v", c, l)
	}
}

func TestMessageTableWhileAWorkerDies(t *testing.T) {
	r := newReal(t)
	r.work()
	all := cells()
	r.update(protocol.PoolID(r.zone), protocol.UpdatePutHost, nil, roomy("web-1", len(all)))
	for i, c := range all {
		c.begin(r, i)
	}
	for _, c := range all {
		if r.becomes(c.id, c.state); c.state == protocol.Running {
			r.until("a pump is attached", func() bool { return r.host.attached(c.id) })
		}
		c.tell(r)
	}
	for _, step := range []func(*tableCell, *real){(*tableCell).arrives, (*tableCell).goOn, (*tableCell).settles, (*tableCell).check} {
		for _, c := range all {
			step(c, r)
		}
	}
}

func roomy(name string, slots int) protocol.PutHost {
	h := put(name, slots)
	h.Replace = true
	return h
}

func (h *standIn) hadSteers(session string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.proc(session).steered)
}

func (h *standIn) bounds(session string) []conversation.Limits {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.proc(session).limits)
}

// If a decision is on its way to codex when a close comes, the decision is delivered once.

func TestACloseWhileADecisionIsInFlightDeliversItOnce(t *testing.T) {
	for _, f := range []fault{diesBefore, diesAfter} {
		r := newReal(t)
		r.work()
		id := r.session("s", session.Options{})
		r.say(id, "m1", "ask make test")
		r.becomes(id, protocol.Waiting)
		r.host.set(id, f)
		r.decide(id, 1, "accept", "")
		v := r.close(id)
		if v.Turn.Status != "interrupted" {
			t.Errorf("worker %s: session is %+v", f, v)
		}
		states := map[string]protocol.ApprovalState{}
		for _, a := range asked[[]protocol.Approval](r, protocol.SessionID(id), protocol.QueryApprovals) {
			states[a.ID] = a.State
		}
		if states[id+".1"] != protocol.ApprovalAcknowledged || states[id+".2"] != protocol.ApprovalVoid {
			t.Errorf("worker %s: approvals are %v", f, states)
		}
	}
}

func TestAnInterruptBeforeCodexAcknowledgedTheTurnHolds(t *testing.T) {
	for _, f := range []fault{diesBefore, diesAfter, isSilent} {
		r := newReal(t)
		r.work()
		id := r.session("s", session.Options{})
		r.becomes(id, protocol.Idle)
		r.host.set(id, f)
		r.say(id, "m1", "stay")
		r.update(protocol.SessionID(id), protocol.SignalInterrupt, nil, protocol.Interrupt{By: "bob"})
		r.ended(id, "m1", "interrupted")
		if ran := r.host.ran(id); len(ran) != 1 {
			t.Errorf("worker %s: turns were %v", f, ran)
		}
		r.close(id)
	}
}

func TestADecisionAfterItsApprovalBecameVoidIsRefusedByEveryDoor(t *testing.T) {
	r := newReal(t)
	r.work()
	id := r.session("s", session.Options{})
	r.say(id, "m1", "ask make")
	r.becomes(id, protocol.Waiting)
	yes := r.decision(id, 1, "accept", "")
	r.host.kill(id, protocol.Decided)
	r.update(protocol.SessionID(id), protocol.SignalInterrupt, nil, protocol.Interrupt{})
	r.ended(id, "m1", "interrupted")
	if err := r.tryUpdate(protocol.SessionID(id), protocol.SignalDecide, nil, yes); typeOf(err) != protocol.RefusedState {
		t.Errorf("the decision was answered %v", err)
	}
	r.signal(protocol.SessionID(id), protocol.SignalDecide, yes)
	r.until("it is refused", func() bool { return len(r.view(id).Refusals) == 1 })
	r.close(id)
}
