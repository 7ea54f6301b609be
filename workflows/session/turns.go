package session

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

type turnsPart struct {
	*core
	messages  *messagesPart
	approvals *approvalsPart
	bounds    *boundsPart
	choices   *choicesPart
	snaps     *snapsPart
	leases    *leasesPart
	parking   *parkingPart
	moving    *movingPart
	ending    *endingPart
	pushes    *pushesPart
	follows   *followsPart

	another bool // codex began another turn after that
	leaving bool // the session leaves a lost host: codex's history there cannot be read
}

type turnState struct {
	Queue       []queuedMessage     `json:"queue,omitempty"`
	Seen        []seenMessage       `json:"seen,omitempty"` // messages that left the queue; newest last
	Turns       []protocol.TurnView `json:"turns,omitempty"`
	TurnN       int                 `json:"turn_n"`            // newest that began
	Skipped     int                 `json:"skipped,omitempty"` // numbers up to TurnN without a turn
	NextN       int                 `json:"next_n"`            // newest promised to a message
	Running     bool                `json:"running"`
	Foreign     string              `json:"foreign,omitempty"`    // id of the running turn, if codex began it by itself
	Held        bool                `json:"held,omitempty"`       // the queue waits for the next message
	Downed      bool                `json:"downed,omitempty"`     // held only because no host or seed was available
	HasTurn     bool                `json:"has_turn"`             // the thread has a rollout
	MayHaveTurn bool                `json:"may_turn,omitempty"`   // codex may have got a message
	TurnSpent   time.Duration       `json:"turn_spent,omitempty"` // time with a pump attached to the running turn
	Cut         *protocol.Failure   `json:"cut,omitempty"`        // why a turn was cut off whose message codex may or may not have had
	Said        *protocol.Message   `json:"said,omitempty"`       // the running turn's message, if it may be sent again
	Shape       *outputShape        `json:"shape,omitempty"`
	AuthRetries int                 `json:"auth_retries,omitempty"` // turns in a row that repeated a message
	GoOns       int                 `json:"go_ons,omitempty"`       // turns in a row that were cut off and continued
	GoOnN       int                 `json:"go_on_n,omitempty"`      // counts the session's own messages
	Interrupt   *protocol.Interrupt `json:"interrupt,omitempty"`
	InterruptN  int                 `json:"interrupt_n,omitempty"`
}

func (s *turnsPart) canBegin() bool {
	return len(s.st.Queue) > 0 && !s.st.Held && !s.st.Running && s.st.Close == nil && !s.bounds.overBudget() && !s.bounds.limited() && s.parking.leaves() == nil && !s.ending.outlived() && len(s.pushes.wanted) == 0
}

func (s *turnsPart) beginTurn() {
	m := s.st.Queue[0]
	s.st.Queue = s.st.Queue[1:]
	s.st.remember(m.Message, m.N)
	s.st.skipTo(m.N)
	s.st.putTurn(protocol.TurnView{Session: s.id, N: m.N, MessageID: m.ID, Act: string(m.Do), Status: "inProgress", StartedAt: workflow.Now(s.ctx)})
	s.st.Running, s.st.Foreign, s.st.Park, s.st.QuietAt = true, "", nil, time.Time{}
	s.st.TurnSpent, s.st.Fruitless = 0, 0
	s.st.Error = nil
	s.st.Interrupt = nil
	s.approvals.noMoreAsked("the turn goes on")
	if m.Model != "" || m.Effort != "" {
		s.choices.choose(m.Model, m.Effort, m.AnyModel)
	}
	s.keepSaid(m.Message)
	s.approvals.requestedBy(m.Message, true)
	s.track(m.ID, kindMessage, m.N, decidedHere)
	s.st.Sends = append(s.st.Sends, pendingSend{By: m.By, Send: withExtras(m.Message, conversation.Send{
		ID: m.ID, Kind: conversation.SendTurn, Text: m.Text, Blob: m.Blob,
		Turn: m.N, Model: s.st.Model, Effort: s.st.Effort, Do: m.Do, Review: m.Review,
	})})
	s.become(protocol.Running)
}

// putBack queues the running turn's message again, under its number, if codex certainly
// never had it.
func (s *turnsPart) putBack() (done bool) {
	p := s.st.Sending(conversation.SendTurn)
	if !s.st.Running || p == nil || p.maybe() || s.inDoubt() || s.toEnd() {
		return false
	}
	send := p.Send
	s.unbegin(func() { s.dropSends("the process that was to have it is gone") })
	s.note(conversation.Note{Type: "state", Turn: send.Turn, Text: fmt.Sprintf("message %s never reached codex: it is queued again, as turn %d", send.ID, send.Turn),
		Data: map[string]string{"message": send.ID}})
	return true
}

// unbegin queues the running turn's message again. drop handles the other sends.
func (s *turnsPart) unbegin(drop func()) {
	p := s.st.Sending(conversation.SendTurn)
	send, by := p.Send, p.By
	s.st.Sends = slices.DeleteFunc(s.st.Sends, func(p pendingSend) bool { return p.Send.Kind == conversation.SendTurn })
	drop()
	s.st.Turns = slices.DeleteFunc(s.st.Turns, func(t protocol.TurnView) bool { return t.N == send.Turn })
	s.st.Queue = slices.Insert(s.st.Queue, 0, queuedMessage{N: send.Turn, Message: protocol.Message{ID: send.ID, Text: send.Text, Blob: send.Blob, By: by,
		Model: send.Model, Effort: send.Effort, AnyModel: true, Do: send.Do, Review: send.Review,
		Inputs: send.Inputs, Schema: send.Schema, SchemaBlob: send.SchemaBlob}})
	s.st.TurnN--
	s.st.Running, s.st.Busy, s.st.Said, s.st.Shape, s.st.TickAt = false, false, nil, nil, time.Time{}
	s.track(send.ID, kindMessage, send.Turn, queuedHere)
}

func (s *turnsPart) delivered(d protocol.Delivery) {
	if s.moving.toldOf(d) {
		return
	}
	for i := range s.st.Sends {
		p := s.st.Sends[i]
		if p.Send.ID != d.ID {
			continue
		}
		a := s.st.approval(p.Approval)
		s.track(d.ID, kindOf(p.Send.Kind), p.Send.Turn, string(d.State))
		if a != nil {
			a.Delivery = string(d.State)
		}
		switch d.State {
		case protocol.Decided:
			// certainly not written: the next pump writes it
			s.st.Sends[i].Handed, s.st.Sends[i].Send.Uncertain = false, false
			return
		case protocol.Sent:
			s.st.Sends[i].Send.Uncertain = true
			if a != nil && a.State == protocol.ApprovalDecided {
				a.State = protocol.ApprovalSent
			}
			if p.Send.Kind == conversation.SendTurn {
				s.st.MayHaveTurn = true
			}
			return
		}
		s.st.Sends = append(s.st.Sends[:i:i], s.st.Sends[i+1:]...)
		switch d.State {
		case protocol.Acknowledged:
			if a != nil && (a.State == protocol.ApprovalDecided || a.State == protocol.ApprovalSent) {
				a.State = protocol.ApprovalAcknowledged
			}
			if p.Send.Kind == conversation.SendTurn {
				s.st.HasTurn = true
			}
		case protocol.Void:
			s.approvals.void(a, cmp.Or(d.Error, "codex does not wait for it any more"))
			switch p.Send.Kind {
			case conversation.SendSteer:
				s.requeue(p)
			case conversation.SendTurn: // not even the thread's history shows whether codex had it
				s.voidTurn(d.Error)
			}
		default: // rejected
			s.approvals.void(a, "codex refused the answer: "+d.Error)
			if p.Send.Kind == conversation.SendTurn {
				s.giveUpTurn("failed", &protocol.Failure{Kind: "bad_request", Message: whyRefused("the message", d)})
			} else {
				s.note(conversation.Note{Type: "error", Text: whyRefused("a "+string(p.Send.Kind), d)})
			}
		}
		return
	}
}

// voidTurn ends a turn of which nobody can tell whether codex began it.
func (s *turnsPart) voidTurn(why string) {
	f := s.st.Cut
	if f == nil {
		f = &protocol.Failure{Kind: "protocol", Message: why}
	}
	s.interrupted("unknown", f)
}

func (s *turnsPart) turnEnded(t *conversation.TurnEnd) {
	if s.foreignEnded(t) || !s.st.Running {
		return
	}
	if t == nil {
		t = &conversation.TurnEnd{ID: s.st.Pump.TurnID, Status: "unknown"}
	}
	if s.historySaid(t) {
		return
	}
	s.mayHaveDone(t.Effects, t.Status != "unknown")
	s.st.HasTurn, s.st.GoOns = true, 0
	s.approvals.forgetDecided()
	held := s.authFailed(t)
	s.bounds.limitMet(t)
	if v := s.st.turn(s.st.TurnN); v != nil {
		s.leases.seedShown(v.StartedAt, t.Status, t.Problem)
	}
	s.endTurn(t.Status, kit.FailureOfProblem(t.Problem), func(v *protocol.TurnView) { endTurn(v, t, v.EndedAt) })
	s.follows.turnEnded(t)
	s.become(protocol.Idle)
	switch {
	case s.st.Close != nil:
	case s.bounds.exhausted():
		s.st.Error = s.bounds.spent()
	case held:
		s.holdForAuth(t.Problem)
	case s.bounds.limited():
		s.st.Error = kit.FailureOfProblem(t.Problem)
		s.become(protocol.Waiting)
		if s.bounds.pauses() {
			s.bounds.asksForMore()
		}
	}
}

// endTurn puts codex's report of a turn into the view. Without a reported time, now is the
// end.
func endTurn(v *protocol.TurnView, t *conversation.TurnEnd, now time.Time) {
	v.TurnID, v.FinalText, v.FinalTruncated = t.ID, t.FinalText, t.FinalTruncated
	v.Items, v.DiffStat = t.Items, t.DiffStat
	v.Structured, v.FinalAt, v.Finish = t.Structured, t.FinalAt, t.Finish
	v.Usage = protocol.UsageView{Input: t.Usage.Input, Output: t.Usage.Output, Cached: t.Usage.Cached, Turns: 1}
	v.EndedAt = now
	if t.StartedAtMS > 0 {
		v.StartedAt = time.UnixMilli(t.StartedAtMS).UTC()
	}
	if t.EndedAtMS > 0 {
		v.EndedAt = time.UnixMilli(t.EndedAtMS).UTC()
	}
}

// giveUpTurn ends the running turn although codex has not reported its end.
func (s *turnsPart) giveUpTurn(status string, f *protocol.Failure) {
	if !s.st.Running {
		return
	}
	p := s.st.Sending(conversation.SendTurn)
	s.mayHaveDone(s.st.Pump.TurnEffects, status == "failed" || p != nil && !p.maybe())
	s.endTurn(status, f, func(v *protocol.TurnView) {
		v.TurnID, v.FinalText, v.FinalTruncated = s.st.Pump.TurnID, s.st.Pump.FinalText, s.st.Pump.FinalTruncated
		if f := s.st.Pump.Finish; f != nil && f.Turn == s.st.TurnN {
			v.Finish = f
		}
	})
	s.note(conversation.Note{Type: "state", Text: fmt.Sprintf("turn %d ended as %s", s.st.TurnN, status), Data: failureData(f)})
	s.st.Pump.TurnID, s.st.Pump.Foreign = "", false
}

func failureData(f *protocol.Failure) map[string]string {
	if f == nil {
		return nil
	}
	return map[string]string{"kind": f.Kind, "message": f.Message, "hint": f.Hint}
}

func (s *turnsPart) endTurn(status string, f *protocol.Failure, fill func(*protocol.TurnView)) {
	now := workflow.Now(s.ctx)
	s.st.Running, s.st.Busy, s.st.Said, s.st.Shape, s.st.TickAt = false, false, nil, nil, time.Time{}
	s.snaps.turnToKeep()
	if status != "completed" {
		s.follows.turnBroken(status)
	}
	if v := s.st.turn(s.st.TurnN); v != nil {
		v.Status, v.EndedAt, v.Error = status, now, f
		fill(v)
		v.EndedBy = s.endedBy(status, f)
		if status == "interrupted" && f == nil {
			v.Error = s.whyInterrupted()
		}
	}
	s.st.UpdatedAt = now
	s.st.Error, s.st.Cut, s.st.BudgetNews = nil, nil, false
	s.st.Foreign, s.st.CloseDue = "", false
	// The newest bounds apply from the next turn on.
	why := fmt.Sprintf("turn %d ended (%s)", s.st.TurnN, status)
	s.approvals.voidOpen(why)
	s.dropSends(why)
	s.bounds.budgetReached(Acknowledged)
	s.st.trim()
	switch {
	case !s.opt.CloseAfter || len(s.st.Queue) > 0 && !s.bounds.overBudget() || s.st.Close != nil:
	case s.another && !s.bounds.overBudget():
		s.st.CloseDue = true
	default:
		s.st.Close = &protocol.Close{By: s.opt.By}
	}
}

// holdQueue holds the queue until a person goes on. A session that closes after its last
// turn has no such person: it goes on with the accepted messages, and then closes.
func (s *turnsPart) holdQueue() {
	switch {
	case len(s.st.Queue) == 0 || s.opt.CloseAfter && s.bounds.overBudget():
		s.st.Held = false
		if s.opt.CloseAfter && s.st.Close == nil {
			s.st.Close = &protocol.Close{By: s.opt.By}
		}
	default:
		s.st.Held = !s.opt.CloseAfter
	}
}

// dropSends gives up what was to reach a turn that has ended. A decision that codex may
// have had stays "sent". A steer that codex cannot have had becomes a turn of its own.
func (s *turnsPart) dropSends(why string) {
	sends := s.st.Sends
	s.st.Sends = nil
	for _, p := range sends {
		s.approvals.forget(p.Send.AnswersBlob)
		a, state := s.st.approval(p.Approval), voided
		if p.maybe() {
			state = SentThere
		}
		if a != nil {
			a.Delivery = state
		}
		if a != nil && a.State == protocol.ApprovalDecided && !p.maybe() {
			s.approvals.void(a, why+" before the decision reached codex")
		} else if a != nil && a.State == protocol.ApprovalDecided {
			a.State = protocol.ApprovalSent
		}
		s.track(p.Send.ID, kindOf(p.Send.Kind), p.Send.Turn, state)
		switch {
		case p.Send.Kind != conversation.SendSteer:
		case p.maybe():
			s.note(conversation.Note{Type: "error", Text: fmt.Sprintf("it is not known whether message %s reached the turn before it ended", p.Send.ID)})
		default:
			s.requeue(p)
		}
	}
}

// requeue makes a turn of a message that came too late to steer.
func (s *turnsPart) requeue(p pendingSend) {
	if p.Named {
		s.messages.tooLate(p)
		return
	}
	s.st.NextN++
	s.track(p.Send.ID, string(conversation.SendSteer), s.st.NextN, queuedHere)
	s.st.Queue = append(s.st.Queue, queuedMessage{N: s.st.NextN, Message: protocol.Message{ID: p.Send.ID, Text: p.Send.Text, Blob: p.Send.Blob, Mode: "steer", Inputs: p.Send.Inputs, By: p.By}})
	s.note(conversation.Note{Type: "state", Text: fmt.Sprintf("turn %d ended before message %s could steer it: it becomes turn %d", s.st.TurnN, p.Send.ID, s.st.NextN)})
}

func interruptedBy(i *protocol.Interrupt) string {
	by := i.By
	if by == "" {
		by = "somebody"
	}
	if i.Reason != "" {
		return fmt.Sprintf("interrupted by %s: %s", by, i.Reason)
	}
	return "interrupted by " + by
}

// settle sets the status of a session to which no activity is attached.
func (s *turnsPart) settle() {
	if !s.st.Running && s.st.QuietAt.IsZero() {
		s.st.QuietAt = workflow.Now(s.ctx)
	}
	switch {
	case s.st.Status == protocol.Failed || s.st.Close != nil:
	case s.st.Running && (len(s.st.Open()) > 0 || s.st.waitsForChildren()):
		s.become(protocol.Waiting)
	case s.st.Running:
		s.become(protocol.Running)
	case s.bounds.limited():
		s.become(protocol.Waiting)
	case s.st.Status == protocol.Interrupted && !s.canBegin():
	default:
		s.become(protocol.Idle)
	}
}
