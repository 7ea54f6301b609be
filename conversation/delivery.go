package conversation

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// A delivery brings the Sends to codex, in order, each at most once, and finds out how far
// each got. The part owns Begins and Interrupted of the state. It may call the asks, the
// turns, because messages begin turns, and the demands, which give a decision its form.
type delivery struct {
	*core
	asks    *asks
	turns   *turns
	demands *demands

	sends       []*send
	barred      bool          // codex has answered the barrier
	interruptAt time.Duration // when codex accepted an interrupt of the running turn; 0 if it has not
}

// resume takes the sends of the input, and adds the sends that an earlier pump decided on.
func (d *delivery) resume() {
	d.takeTell()
	for _, s := range d.in.Sends {
		d.sends = append(d.sends, &send{Send: s, state: protocol.Decided, uncertain: s.Uncertain || d.opt.Attempt > 1})
	}
	d.resumeJudged()
	d.takeBegun()
	if d.st.Interrupted {
		d.interruptAt = 1
	}
}

// addOwn adds a send that the pump makes itself.
func (d *delivery) addOwn(what Send, uncertain bool) *send {
	s := &send{Send: what, state: protocol.Decided, own: true, uncertain: uncertain}
	d.sends = append(d.sends, s)
	return s
}

// upToDate starts the time limits of the answers, because answers come after the backlog.
func (d *delivery) upToDate() {
	for _, s := range d.sends {
		if s.wrote {
			s.first = d.now
		}
	}
}

// mayBegin reports whether a message may have begun the running turn.
func (d *delivery) mayBegin() bool {
	for _, s := range d.sends {
		if s.Kind == SendTurn && !s.settled() && (s.wrote || s.uncertain) {
			return true
		}
	}
	return false
}

// settled reports whether no send is left to write or to be answered.
func (d *delivery) settled() bool {
	for _, s := range d.sends {
		if !s.settled() && !d.tellWaits(s) {
			return false
		}
	}
	return true
}

// report returns how far each Send got.
func (d *delivery) report() (all []protocol.Delivery) {
	for _, s := range d.sends {
		if s.own {
			continue
		}
		all = append(all, protocol.Delivery{ID: s.ID, State: s.told(), Error: wire.Excerpt(d.redact(s.text), maxProblem)})
	}
	return all
}

// wake registers when a send or its answer is due.
func (d *delivery) wake(soon func(time.Duration)) {
	for _, s := range d.sends {
		switch {
		case s.settled():
		case s.wrote:
			soon(s.first + d.lim.Request)
		case s.next > 0:
			soon(s.next)
		}
	}
	if d.interruptAt > 0 {
		soon(d.interruptAt + d.lim.Request)
	}
}

// expire gives up the pump if codex does not take a send in time.
func (d *delivery) expire() {
	for _, s := range d.sends {
		since := s.asked
		if s.wrote {
			since = s.first
		}
		if s.settled() || !s.tried || d.now-since < d.lim.Request {
			continue
		}
		if !s.wrote && s.own {
			d.giveUp(TimedOut, problem(protocol.EndRequestTimeout, fmt.Sprintf("codex would not interrupt the turn that is over its budget within %s", d.lim.Request)))
			return
		}
		if !s.wrote && s.early {
			d.giveUp(TimedOut, problem(protocol.EndRequestTimeout, fmt.Sprintf("codex would not interrupt the running turn within %s: it says that none is active", d.lim.Request)))
			return
		}
		if !s.wrote { // codex reported overload all the time
			if d.st.TurnID == "" {
				d.tooBusy()
				return
			}
			continue // the send is tried again until the turn's deadline
		}
		d.giveUp(TimedOut, problem(protocol.EndRequestTimeout, fmt.Sprintf("codex did not acknowledge the %s %q within %s", s.Kind, s.ID, d.lim.Request)))
		return
	}
}

func (d *delivery) find(id string) *send {
	for _, s := range d.sends {
		if s.ID == id {
			return s
		}
	}
	return nil
}

// tellSettled calls Options.Settled once for each settled send.
func (d *delivery) tellSettled() {
	if d.opt.Settled == nil {
		return
	}
	for _, s := range d.sends {
		if s.settled() && !s.announced && !s.own {
			s.announced = true
			d.opt.Settled(protocol.Delivery{ID: s.ID, State: s.state, Error: wire.Excerpt(d.redact(s.text), maxProblem)})
		}
	}
}

// resumeJudged adds the sends of the answers that a policy gave in an earlier pump.
func (d *delivery) resumeJudged() {
	for _, o := range d.st.Open {
		if o.Judged != nil {
			d.addOwn(*o.Judged, true)
		}
	}
}

func (d *delivery) interruptOfOurs() *send {
	return d.addOwn(Send{ID: budgetID(d.st.TurnID), Kind: SendInterrupt}, false)
}

func (d *delivery) interruptedByOthers() bool {
	if d.st.Spent.Stopped {
		return true
	}
	for _, s := range d.sends {
		if !s.own && s.state != protocol.Rejected && s.state != protocol.Void && (s.Kind == SendInterrupt || s.Kind == SendDecision && s.Outcome == protocol.Cancel) {
			return true
		}
	}
	return false
}

// turnBegins forgets the interrupt of an earlier turn.
func (d *delivery) turnBegins() { d.st.Interrupted = false }

// settleAtEnd settles the Sends that belonged to the turn.
func (d *delivery) settleAtEnd(status string) {
	d.st.Interrupted = false
	for _, s := range d.sends {
		maybe := s.wrote || s.uncertain
		switch {
		case s.settled():
		case s.Kind == SendInterrupt && maybe && status == "interrupted":
			s.settle(protocol.Acknowledged, "")
		case s.Kind == SendDecision && maybe && s.Outcome == protocol.Cancel && status == "interrupted" && d.st.openAt(s.RPC) >= 0:
			s.settle(protocol.Acknowledged, "")
		case s.Kind == SendInterrupt, s.Kind == SendDecision && (!maybe || d.st.openAt(s.RPC) >= 0):
			s.settle(protocol.Void, "the turn ended first")
		case s.Kind == SendSteer && !maybe:
			s.settle(protocol.Void, "the turn ended first")
		}
	}
}
