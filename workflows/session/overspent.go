package session

import (
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// The model gateway ends a turn when a budget does not permit its next request. The turn then
// pauses: its message waits before all others, and a person is asked. It goes on when the
// person accepts, when the budget is raised, or when the budget's period ends. Nobody has to
// answer: a decline, or an approval that expires, leaves the message waiting.

// AfterBudgetText replaces the message of a turn that a budget ended after it had effects.
const AfterBudgetText = "The last turn was cut off because its budget was used up; there is more now. " +
	"What the turn had begun may be half done or done: look at the present state first, do not blindly repeat what has effects, then go on with the task."

const budgetPauses = "a budget pauses the turn"

const (
	// MaxBudgetTries bounds the tries, one soon after the other, of a turn whose budget should
	// have been renewed. After that, only a person has the turn go on.
	MaxBudgetTries = 4
	// soonAfter is well below the shortest period of a budget.
	soonAfter = 12 * time.Hour
	// mostTokens bounds what accepts raise a budget in tokens to.
	mostTokens = 1 << 62
)

// budgetMet handles a turn that the model gateway ended for a budget.
func (s *boundsPart) budgetMet(t *conversation.TurnEnd) {
	last := s.st.Limit
	s.st.Limit = nil
	if workflow.GetVersion(s.ctx, budgetPauses, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return
	}
	if s.turns.toEnd() || s.overBudget() || s.st.Said == nil && !t.Effects {
		return
	}
	p, now := t.Problem, workflow.Now(s.ctx)
	l := &limitWait{Kind: p.Kind, Since: now, Of: p.Of, Spent: p.Message, Endless: p.ResetAt.IsZero()}
	if last != nil && last.Kind == p.Kind && s.runs(last.Message) && now.Sub(last.Since) < soonAfter {
		l.Tries = last.Tries
	}
	if l.Tries >= MaxBudgetTries {
		l.Endless = true
	}
	if !l.Endless {
		l.Reset, l.Until = p.ResetAt, p.ResetAt.Add(leastWait)
		if !p.ResetAt.After(now) { // another clock, or not the gateway's words
			l.Until = now.Add(limitPauses[min(l.Tries, len(limitPauses)-1)])
		}
		l.Until = l.Until.Add(s.jitter(MostJitter))
		l.Tries++
	}
	m := s.st.Shape.of(protocol.Message{Text: AfterBudgetText})
	if !t.Effects {
		m = *s.st.Said
	}
	l.Message = s.sayLater(m)
	s.st.Limit = l
	s.note(conversation.Note{Type: protocol.EntryState, Text: fmt.Sprintf("the turn pauses until the budget is raised; turn %d goes on then", s.st.TurnN+1),
		Data: map[string]string{"message": l.Message, "budget": p.Of, "why": p.Message}})
}

// asksForMore asks a person whether a paused turn may go on.
func (s *boundsPart) asksForMore() {
	s.approvals.noMoreAsked("the question is asked anew")
	l := s.st.Limit
	args := protocol.BudgetAsked{Of: l.Of, Why: l.Spent}
	if l.Of == protocol.BudgetOfSession && s.opt.Bounds.Money > 0 {
		if s.st.MoneyStep == 0 {
			s.st.MoneyStep = s.opt.Bounds.Money
		}
		args.Limit, args.Raised = s.opt.Bounds.Money, min(s.opt.Bounds.Money+s.st.MoneyStep, protocol.MostMoney)
	}
	if n := s.opt.Bounds.Tokens; l.Of == protocol.BudgetOfTokens && n > 0 {
		if s.st.TokenStep == 0 {
			s.st.TokenStep = n
		}
		args.LimitTokens, args.RaisedTokens = n, min(n, mostTokens-s.st.TokenStep)+s.st.TokenStep
	}
	//workflowcheck:ignore // JSON of a struct is a pure function
	text, err := json.Marshal(args)
	if err != nil {
		return // not reached
	}
	r := protocol.Request{Kind: protocol.KindBudget, Incarnation: s.st.Incarnation, Args: string(text), Reason: l.Spent,
		Offered: []string{string(protocol.Accept), string(protocol.Decline)}, Digested: &protocol.Digested{}}
	c, _ := r.Content()
	//workflowcheck:ignore // a pure function
	r.Digest = c.Digest()
	//workflowcheck:ignore // a pure function
	if err := conversation.Verify(&r); err != nil {
		s.log.Error("the request for more budget does not give its digest", "session", s.id, "error", err)
	}
	s.approvals.asked(r)
}

// moreDecided takes a person's decision about a paused turn.
func (s *boundsPart) moreDecided(a *approvalState, d protocol.Decision) {
	a.Decision, a.Delivery = &d, Acknowledged
	if a.State == protocol.ApprovalOpen {
		a.State = protocol.ApprovalAcknowledged
	}
	s.note(conversation.Note{Type: protocol.EntryDecision, Turn: a.Turn,
		Text: fmt.Sprintf("%s %s", d.Outcome, s.approvalID(a.N)), Data: s.approvals.decisionData(a, d)})
	if d.Outcome != string(protocol.Accept) {
		return
	}
	var asked protocol.BudgetAsked
	//workflowcheck:ignore // JSON is a pure function
	err := json.Unmarshal([]byte(a.Request.Args), &asked)
	if err == nil && asked.Raised > s.opt.Bounds.Money && s.opt.Bounds.Money > 0 {
		s.opt.Bounds.Money = asked.Raised
		s.noteBudget(d.By)
	}
	if err == nil && asked.RaisedTokens > s.opt.Bounds.Tokens && s.opt.Bounds.Tokens > 0 {
		s.opt.Bounds.Tokens = asked.RaisedTokens
		s.noteBudget(d.By)
	}
	s.goOn()
}

// goOn ends the pause of a turn.
func (s *boundsPart) goOn() {
	if s.pauses() {
		s.st.Limit.Endless, s.st.Limit.Until, s.st.Limit.Tries = false, workflow.Now(s.ctx), 0
	}
}

// pauses reports whether a turn pauses for a budget.
func (s *boundsPart) pauses() bool { return s.waitsForLimit() && s.st.Limit.Kind == protocol.EndBudget }

// noMoreAsked ends the approvals of a pause that is over.
func (s *approvalsPart) noMoreAsked(why string) {
	for _, a := range s.st.Open() {
		if a.Request.Kind == protocol.KindBudget {
			s.void(a, why)
		}
	}
}

// asksBudgetAlone reports whether no other approval is open.
func (s *boundsPart) asksBudgetAlone() bool {
	for _, a := range s.st.Open() {
		if a.Request.Kind != protocol.KindBudget {
			return false
		}
	}
	return true
}

// UseGateway has the model gateway serve a session with a budget in money that does not say how it
// gets its credential: nobody else sees what the model costs.
func (o *Options) UseGateway() {
	if o.Bounds.Money > 0 && o.Credentials == "" && (o.Seed != "" || o.SeedPool != "") {
		o.Credentials = protocol.CredentialsGateway
	}
}

// moneyView shows the bound on money.
func (s *boundsPart) moneyView(v *protocol.BudgetView) {
	limit, used := s.opt.Bounds.Money, protocol.Money(0)
	if u := s.st.Served; u != nil {
		used = max(u.Money, u.Spent)
	}
	if limit == 0 && used == 0 {
		return
	}
	v.Money = &protocol.BudgetMoneyView{Used: used, Limit: limit}
	if limit > 0 && used >= limit-limit/5 {
		v.Warnings = append(v.Warnings, protocol.BudgetUse{Name: protocol.BudgetMoney, Used: int64(used), Limit: int64(limit)}.Spend())
	}
}

func checkMoney(o Options) error {
	switch {
	case o.Bounds.Money < 0 || o.Bounds.Money > protocol.MostMoney:
		return fmt.Errorf("a budget of %s in money is not between 0 and %s", o.Bounds.Money, protocol.MostMoney)
	case o.Bounds.Money > 0 && o.Credentials != protocol.CredentialsGateway:
		return fmt.Errorf("a budget in money needs --credentials gateway: nobody else sees what the model costs")
	}
	return nil
}

func (s *boundsPart) checkMoney(b protocol.Budget) error {
	if b.Money == nil {
		return nil
	}
	o := s.opt
	o.Bounds.Money, o.Credentials = *b.Money, s.credentials()
	if err := checkMoney(o); err != nil {
		return kit.Refuse(protocol.RefusedBadInput, "budget of session %s: %v", s.id, err)
	}
	return nil
}
