package conversation

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// A delivery brings the Sends to codex, in order, each at most once, and finds out how far
// each got. It owns Begins and Interrupted of the state. It may call the asks, the turns
// and the demands.
type delivery struct {
	*core
	asks    *asks
	turns   *turns
	demands *demands

	sends       []*send
	barred      bool
	interruptAt time.Duration // when codex accepted an interrupt of the turn; 0 if it has not
}

// resume takes the sends of the input and of an earlier pump.
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

func (d *delivery) addOwn(what Send, uncertain bool) *send {
	s := &send{Send: what, state: protocol.Decided, own: true, uncertain: uncertain}
	d.sends = append(d.sends, s)
	return s
}

// upToDate starts the time limits of answers, which come after the backlog.
func (d *delivery) upToDate() {
	for _, s := range d.sends {
		if s.wrote {
			s.first = d.now
		}
	}
}

func (d *delivery) mayBegin() bool {
	for _, s := range d.sends {
		if s.Kind == SendTurn && !s.settled() && (s.wrote || s.uncertain) {
			return true
		}
	}
	return false
}

func (d *delivery) settled() bool {
	for _, s := range d.sends {
		if !s.settled() && !d.tellWaits(s) {
			return false
		}
	}
	return true
}

func (d *delivery) report() (all []protocol.Delivery) {
	for _, s := range d.sends {
		if s.own {
			continue
		}
		all = append(all, protocol.Delivery{ID: s.ID, State: s.told(), Error: wire.Excerpt(d.redact(s.text), maxProblem)})
	}
	return all
}

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
			continue // tried again until the turn's deadline
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

// resumeJudged adds a policy's answers from an earlier pump.
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

func (d *delivery) turnBegins() { d.st.Interrupted = false }

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
