package workflows

import (
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// canBegin says whether a queued message can become a turn.
func (s *session) canBegin() bool {
	return len(s.st.Queue) > 0 && !s.st.Running && s.st.Close == nil
}

// beginTurn makes the oldest queued message the running turn.
func (s *session) beginTurn() bool {
	if !s.canBegin() {
		return false
	}
	if !s.st.Alive && !s.restart() {
		return true // it failed, or is to close: the loop sees which
	}
	m := s.st.Queue[0]
	s.st.Queue = s.st.Queue[1:]
	s.st.TurnN++
	s.st.Running = true
	s.st.Error = nil
	s.st.Interrupt = nil
	now := workflow.Now(s.ctx)
	if t := s.st.turn(s.st.TurnN); t != nil {
		t.Status, t.StartedAt = "inProgress", now
	}
	s.st.Sends = append(s.st.Sends, pendingSend{Send: activities.Send{
		ID: m.ID, Kind: activities.SendTurn, Text: m.Text, Blob: m.Blob,
		Turn: s.st.TurnN, Model: m.Model, Effort: m.Effort,
	}})
	s.become(Running)
	return true
}

// wantsPump says whether somebody has to be attached to codex.
func (s *session) wantsPump() bool {
	if !s.st.Alive || s.st.Status == Failed {
		return false
	}
	for _, p := range s.st.Sends {
		if !p.Handed || p.Send.Uncertain {
			return true
		}
	}
	if !s.st.Running {
		return false
	}
	return len(s.st.open()) == 0 || s.st.Busy
}

// hasNews says whether a running pump should be called back for something new.
func (s *session) hasNews() bool {
	for _, p := range s.st.Sends {
		if !p.Handed {
			return true
		}
	}
	return false
}

// pump runs one pump activity and applies what it brings.
func (s *session) pump() error {
	if s.st.Status != Starting {
		s.become(Running)
	}
	if s.st.Close != nil {
		s.become(Closing)
	}
	s.publish()
	in := s.pumpInput()
	actx, cancel := workflow.WithCancel(attached(s.ctx, s.pumpSummary()))
	defer cancel()
	fut := workflow.ExecuteActivity(actx, sessions.RunPump, in)
	if err := s.follow(fut, cancel); err != nil {
		return err
	}
	var out activities.RunPumpResult
	err := fut.Get(s.ctx, &out)
	switch {
	case err == nil:
		s.st.Handing = nil
		s.apply(out)
	case temporal.IsCanceledError(err):
		// Called back between two attempts: what it delivered is in the journal.
		for i := range s.st.Sends {
			if s.st.Sends[i].Handed {
				s.st.Sends[i].Send.Uncertain = true
			}
		}
	default:
		s.pumpFailed(err)
	}
	return nil
}

// follow waits for the pump. When there is something new to say, it calls the
// pump back, which then returns a normal result.
func (s *session) follow(fut workflow.Future, cancel workflow.CancelFunc) error {
	called := false
	callBack := func() {
		if !called {
			called = true
			cancel()
		}
	}
	for !fut.IsReady() {
		awake := func() bool { return fut.IsReady() || (!called && s.hasNews()) || s.newlyClosing() }
		var err error
		ok := true
		if s.st.Close != nil && s.st.Running {
			ok, err = s.awaitFor(closeGrace, awake)
			if err == nil && !ok {
				s.giveUpTurn("interrupted", nil)
			}
		} else if open := s.st.open(); len(open) > 0 && !called {
			ok, err = s.awaitFor(s.untilExpiry(open), awake)
		} else {
			err = s.await(awake)
		}
		switch {
		case err != nil:
			return err
		case fut.IsReady():
			return nil
		case !ok:
			s.expire()
			callBack()
		default:
			s.queueInterruptForClose()
			callBack()
		}
	}
	return nil
}

// pumpInput hands everything that is due to the next pump.
func (s *session) pumpInput() activities.RunPumpInput {
	s.st.PumpN++
	var out []activities.Send
	for i := range s.st.Sends {
		p := &s.st.Sends[i]
		out = append(out, p.Send)
		p.Handed = true
	}
	// A pump that brought no result may have written these already: then the
	// next one writes the very same ones, and newer ones wait their turn.
	if len(s.st.Handing) == 0 {
		s.st.Handing, s.st.Notes = s.st.Notes, nil
	}
	in := activities.RunPumpInput{
		Claim: s.claim(), Layout: *s.st.Layout, Seed: s.st.Seed,
		Pump: activities.PumpInput{
			Session: s.id, State: s.st.Pump, Thread: s.thread(), Resume: s.st.HasTurn,
			Sends: out, Notes: s.st.Handing,
			Prefix: fmt.Sprintf("g%d.p%d", s.st.Generation, s.st.PumpN),
			Limits: activities.Limits{Turn: s.opt.TurnTimeout},
		},
	}
	return in
}

func (s *session) thread() activities.ThreadSpec {
	return activities.ThreadSpec{
		CWD: s.st.Layout.WorkDir, Sandbox: s.opt.Sandbox, Permissions: s.st.Permissions,
		ApprovalPolicy: s.opt.ApprovalPolicy, Model: s.opt.Model, Effort: s.opt.Effort, Mark: s.id,
	}
}

func (s *session) claim() activities.Claim {
	return activities.Claim{Session: s.id, Host: s.st.Lease.Spec, Generation: s.st.Generation, Pump: s.st.PumpN}
}

func (s *session) pumpSummary() string {
	if s.st.Running {
		return fmt.Sprintf("turn %d on %s", s.st.TurnN, s.st.Lease.Spec.Name)
	}
	return "deliver on " + s.st.Lease.Spec.Name
}

// pumpFailed is a pump that no retry can help: the host refuses us.
func (s *session) pumpFailed(err error) {
	f := failureOf(fmt.Sprintf("talk to codex on %s", s.st.Lease.Spec.Name), err)
	s.giveUpTurn("unknown", f)
	s.fail(f)
}

// apply takes over what a pump learnt.
func (s *session) apply(out activities.RunPumpResult) {
	r := out.Pump
	s.st.Pump = r.State
	s.st.Busy = r.Busy
	if r.State.Opened == s.st.Incarnation {
		s.st.EarlyEnds = 0
	}
	for _, d := range r.Deliveries {
		s.delivered(d)
	}
	for _, rpc := range r.Resolved {
		s.withdrawn(rpc)
	}
	for _, req := range r.Requests {
		s.asked(req)
	}
	switch r.Reason {
	case activities.TurnEnded:
		s.turnEnded(r.Turn)
	case activities.ProcessEnded:
		s.processEnded(out.Process, r.Problem)
	case activities.TimedOut:
		s.retire(r.Problem)
	case activities.Refused:
		s.refusedByCodex(r.Problem)
	}
}

// delivered moves a send on, and the approval or turn that it belongs to.
func (s *session) delivered(d activities.Delivery) {
	for i := range s.st.Sends {
		p := &s.st.Sends[i]
		if p.Send.ID != d.ID {
			continue
		}
		a := s.st.approval(p.Approval)
		switch d.State {
		case activities.Decided:
			p.Handed = false // not written: the next pump is to
			return
		case activities.Sent:
			p.Send.Uncertain = true
			if a != nil && a.State == ApprovalDecided {
				a.State = ApprovalSent
			}
			return
		case activities.Acknowledged:
			if a != nil && (a.State == ApprovalDecided || a.State == ApprovalSent) {
				a.State = ApprovalAcknowledged
			}
			if p.Send.Kind == activities.SendTurn {
				s.st.HasTurn = true
			}
		case activities.Void:
			if a != nil && a.State != ApprovalExpired {
				a.State = ApprovalVoid
			}
		case activities.Rejected:
			if a != nil && a.State != ApprovalExpired {
				a.State = ApprovalVoid
			}
			if p.Send.Kind == activities.SendTurn && s.st.Running {
				s.giveUpTurn("failed", &Failure{Kind: "bad_request", Message: "codex refused the message: " + d.Error})
			} else if p.Send.Kind != activities.SendInterrupt {
				s.note(activities.Note{Type: "error", Text: fmt.Sprintf("codex refused a %s: %s", p.Send.Kind, d.Error)})
			}
		}
		s.st.Sends = append(s.st.Sends[:i], s.st.Sends[i+1:]...)
		return
	}
}

// turnEnded records how the running turn ended.
func (s *session) turnEnded(t *activities.TurnEnd) {
	if t == nil || !s.st.Running {
		return
	}
	s.st.HasTurn = true
	s.endTurn(t.Status, failureOfProblem(t.Problem), func(v *TurnView) {
		v.TurnID, v.FinalText, v.FinalTruncated = t.ID, t.FinalText, t.FinalTruncated
		v.Items, v.DiffStat = t.Items, t.DiffStat
		v.Usage = UsageView{Input: t.Usage.Input, Output: t.Usage.Output, Cached: t.Usage.Cached, Turns: 1}
		if t.StartedAtMS > 0 {
			v.StartedAt = time.UnixMilli(t.StartedAtMS).UTC()
		}
		if t.EndedAtMS > 0 {
			v.EndedAt = time.UnixMilli(t.EndedAtMS).UTC()
		}
	})
	s.become(Idle)
}

// giveUpTurn ends the running turn without codex having said so.
func (s *session) giveUpTurn(status string, f *Failure) {
	if !s.st.Running {
		return
	}
	s.endTurn(status, f, func(v *TurnView) {
		v.TurnID, v.FinalText, v.FinalTruncated = s.st.Pump.TurnID, s.st.Pump.FinalText, s.st.Pump.FinalTruncated
	})
	s.note(activities.Note{Type: "state", Text: fmt.Sprintf("turn %d ended as %s", s.st.TurnN, status), Data: failureData(f)})
	s.st.Pump.TurnID = ""
}

func failureData(f *Failure) map[string]string {
	if f == nil {
		return nil
	}
	return map[string]string{"kind": f.Kind, "message": f.Message, "hint": f.Hint}
}

func (s *session) endTurn(status string, f *Failure, fill func(*TurnView)) {
	now := workflow.Now(s.ctx)
	s.st.Running, s.st.Busy = false, false
	if v := s.st.turn(s.st.TurnN); v != nil {
		v.Status, v.EndedAt, v.Error = status, now, f
		fill(v)
		if by := s.st.Interrupt; by != nil && status == "interrupted" && f == nil {
			v.Error = &Failure{Kind: "interrupted", Message: interruptedBy(by)}
		}
	}
	s.st.UpdatedAt = now
	s.st.Error = nil
	// What codex asked within the turn is asked no more.
	for _, a := range s.st.open() {
		a.State = ApprovalVoid
	}
	kept := s.st.Sends[:0]
	for _, p := range s.st.Sends {
		if p.Send.Kind == activities.SendTurn && p.Send.Turn > s.st.TurnN {
			kept = append(kept, p)
			continue
		}
		if a := s.st.approval(p.Approval); a != nil && a.State == ApprovalDecided {
			a.State = ApprovalVoid
		}
	}
	s.st.Sends = kept
	s.st.trim()
	if s.opt.CloseAfter && len(s.st.Queue) == 0 && s.st.Close == nil {
		s.st.Close = &Close{By: s.opt.By}
	}
}

func interruptedBy(i *Interrupt) string {
	by := i.By
	if by == "" {
		by = "somebody"
	}
	if i.Reason != "" {
		return fmt.Sprintf("interrupted by %s: %s", by, i.Reason)
	}
	return "interrupted by " + by
}

// withdrawn voids an approval that codex asks for no more.
func (s *session) withdrawn(rpc json.RawMessage) {
	for _, a := range s.st.open() {
		if a.Request.Incarnation == s.st.Incarnation && string(a.Request.RPC) == string(rpc) {
			a.State = ApprovalVoid
		}
	}
}
