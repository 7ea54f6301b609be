package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// A budget bounds what a session may use: tokens in all, and the time of one
// turn. It can be changed at any time; a pump that is attached is called back
// and the next one works with the new bounds.

func (s *session) checkBudget(b Budget) error {
	if err := s.ends(); err != nil {
		return err
	}
	if err := short([]text{{"by", b.By, maxWord}}); err != nil {
		return refuse(RefusedBadInput, "budget of session %s: %v", s.id, err)
	}
	if b.Tokens == nil && b.TurnTimeout == "" {
		return refuse(RefusedBadInput, "budget of session %s: neither tokens nor turn_timeout is given", s.id)
	}
	if b.Tokens != nil && *b.Tokens < 0 {
		return refuse(RefusedBadInput, "budget of session %s: %d tokens; 0 means no bound", s.id, *b.Tokens)
	}
	if b.TurnTimeout != "" {
		if d, err := time.ParseDuration(b.TurnTimeout); err != nil || d <= 0 {
			return refuse(RefusedBadInput, "budget of session %s: turn_timeout %.100q is no duration such as 90m or 2h", s.id, b.TurnTimeout)
		}
	}
	return nil
}

func (s *session) takeBudget(b Budget) (SessionView, error) {
	if err := s.checkBudget(b); err != nil {
		return SessionView{}, err
	}
	if b.Tokens != nil {
		s.opt.Tokens = *b.Tokens
	}
	if b.TurnTimeout != "" {
		d, err := time.ParseDuration(b.TurnTimeout)
		if err != nil {
			return SessionView{}, refuse(RefusedBadInput, "budget of session %s: %v", s.id, err)
		}
		s.opt.TurnTimeout = d
	}
	s.st.BudgetN++
	id, state := s.budgetID(), acknowledged
	if s.st.Running { // the pump that knows it has yet to come
		state, s.st.BudgetNews = decidedHere, true
	}
	s.track(id, kindBudget, s.st.TurnN, state)
	v := s.budgetView()
	s.note(activities.Note{Type: activities.EntryState, Text: fmt.Sprintf("budget: %s, %s for a turn", tokensText(v.Tokens), v.TurnTimeout),
		Data: map[string]string{"by": b.By, "tokens": fmt.Sprint(v.Tokens), "turn_timeout": v.TurnTimeout}})
	if s.st.Error != nil && s.st.Error.Kind == "budget" && !s.overBudget() {
		s.st.Error = nil
	}
	s.st.UpdatedAt = workflow.Now(s.ctx)
	return s.view(), nil
}

func (s *session) budgetID() string { return fmt.Sprintf("%s.b%d", s.id, s.st.BudgetN) }

// budgetReached records how far the newest budget came.
func (s *session) budgetReached(state string) {
	for _, m := range s.st.Messages {
		if m.Kind == kindBudget && m.ID == s.budgetID() {
			s.track(m.ID, kindBudget, m.Turn, state)
			return
		}
	}
}

func (s *session) budgetView() *BudgetView {
	return &BudgetView{Tokens: s.opt.Tokens, Used: s.tokensUsed(), TurnTimeout: s.opt.TurnTimeout.String()}
}

func tokensText(n int64) string {
	if n == 0 {
		return "any number of tokens"
	}
	return fmt.Sprintf("%d tokens in all", n)
}

func (s *session) tokensUsed() int64 { return s.st.Pump.Usage.Input + s.st.Pump.Usage.Output }

// overBudget says that no turn may begin.
func (s *session) overBudget() bool { return s.opt.Tokens > 0 && s.tokensUsed() >= s.opt.Tokens }

// tokensLeft is what the running turn may still use; 0 means any number. One
// that is over the bound already has a last token, with which it is ended.
func (s *session) tokensLeft() int64 {
	if s.opt.Tokens == 0 {
		return 0
	}
	return max(s.opt.Tokens-s.tokensUsed(), 1)
}

func (s *session) spent() *Failure {
	return &Failure{Kind: "budget", Message: fmt.Sprintf("the session has used %d tokens of the %d that it may use", s.tokensUsed(), s.opt.Tokens),
		Hint: fmt.Sprintf("`ctl session set %s --budget tokens=N` gives it more", s.id)}
}
