package session

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// A budget bounds the total use of a session, and the time of one turn. If it changes, the
// workflow cancels an attached pump, and the next one has the new bounds. The pump counts
// all uses except turns.

// boundsPart keeps a turn from beginning while the budget is used up or a limit holds.
type boundsPart struct {
	*core
	turns     *turnsPart
	messages  *messagesPart
	approvals *approvalsPart
	views     *viewsPart

	wake *kit.Wake
}

type boundState struct {
	Limit *limitWait `json:"limit,omitempty"`
	// Switched is the newest change to another seed at the end of a quota.
	Switched   *protocol.SwitchedView `json:"switched,omitempty"`
	BudgetN    int                    `json:"budget_n,omitempty"`
	BudgetNews bool                   `json:"budget_news,omitempty"` // the attached pump does not know the newest bounds
	// MoneyStep is by how much an accept raises the bound on money: what a person gave last.
	MoneyStep protocol.Money `json:"money_step,omitempty"`
	TokenStep int64          `json:"token_step,omitempty"` // likewise of the bound on tokens
}

func givenBounds(b protocol.Budget) []struct {
	name string
	n    *int64
} {
	return []struct {
		name string
		n    *int64
	}{{"tokens", b.Tokens}, {"turns", b.Turns}, {"approvals", b.Approvals}, {"commands", b.Commands}}
}

func negative(b protocol.Bounds) bool {
	return min(b.Tokens, b.Turns, b.Approvals, b.Commands, int64(b.Time), int64(b.Money)) < 0
}

func (s *boundsPart) checkBudget(b protocol.Budget) error {
	if err := s.ends(); err != nil {
		return err
	}
	if err := kit.Short([]kit.Text{{What: "by", Is: b.By, Max: kit.MaxWord}}); err != nil {
		return kit.Refuse(protocol.RefusedBadInput, "budget of session %s: %v", s.id, err)
	}
	some := b.TurnTimeout != "" || b.Time != "" || b.Money != nil
	for _, g := range givenBounds(b) {
		some = some || g.n != nil
		if g.n != nil && *g.n < 0 {
			return kit.Refuse(protocol.RefusedBadInput, "budget of session %s: %d %s: a budget must not be negative (0 means no bound)", s.id, *g.n, g.name)
		}
	}
	if !some {
		return kit.Refuse(protocol.RefusedBadInput, "budget of session %s: none of tokens, turns, time, turn_timeout, approvals, commands and money is given", s.id)
	}
	if err := s.checkMoney(b); err != nil {
		return err
	}
	if b.TurnTimeout != "" {
		if d, err := time.ParseDuration(b.TurnTimeout); err != nil || d <= 0 {
			return kit.Refuse(protocol.RefusedBadInput, "budget of session %s: turn_timeout %.100q is no duration such as 90m or 2h", s.id, b.TurnTimeout)
		}
	}
	if b.Time != "" {
		if d, err := time.ParseDuration(b.Time); err != nil || d < 0 {
			return kit.Refuse(protocol.RefusedBadInput, "budget of session %s: time %.100q is no duration such as 90m or 8h; 0 means no bound", s.id, b.Time)
		}
	}
	return nil
}

// SetBudget applies the values that b gives.
func (o *Options) SetBudget(b protocol.Budget) error {
	if b.TurnTimeout != "" {
		v, err := time.ParseDuration(b.TurnTimeout)
		if err != nil {
			return err
		}
		o.TurnTimeout = v
	}
	return b.SetBounds(&o.Bounds)
}

func (s *boundsPart) takeBudget(b protocol.Budget) (protocol.SessionView, error) {
	if err := s.checkBudget(b); err != nil {
		return protocol.SessionView{}, err
	}
	if err := s.opt.SetBudget(b); err != nil {
		return protocol.SessionView{}, kit.Refuse(protocol.RefusedBadInput, "budget of session %s: %v", s.id, err)
	}
	s.st.BudgetN++
	id, state := s.budgetID(), Acknowledged
	if s.st.Running { // the next pump gets the new bounds
		state, s.st.BudgetNews = decidedHere, true
	}
	s.track(id, kindBudget, s.st.TurnN, state)
	s.noteBudget(b.By)
	if b.Money != nil {
		s.st.MoneyStep = *b.Money
	}
	if b.Tokens != nil && s.credentials() == protocol.CredentialsGateway {
		s.st.TokenStep = *b.Tokens
	}
	if s.pauses() && (b.Money != nil || s.st.Limit.Of != protocol.BudgetOfSession) {
		s.goOn()
	}
	if s.st.Error != nil && s.st.Error.Kind == protocol.RefusedBudget && !s.overBudget() {
		s.st.Error = nil
	}
	s.st.UpdatedAt = workflow.Now(s.ctx)
	return s.view(), nil
}

func (s *boundsPart) noteBudget(by string) {
	data := map[string]string{"by": by, "turn_timeout": s.opt.TurnTimeout.String()}
	var words []string
	for _, u := range s.uses() {
		switch {
		case u.Limit == 0:
			continue
		case u.Name == "time":
			data[u.Name] = s.opt.Bounds.Time.String()
			words = append(words, data[u.Name]+" for its turns together")
		default:
			data[u.Name] = fmt.Sprint(u.Limit)
			words = append(words, fmt.Sprintf("%d %s in all", u.Limit, u.Name))
		}
	}
	if m := s.opt.Bounds.Money; m > 0 {
		data[protocol.BudgetMoney] = m.String()
		words = append(words, m.String()+" in money")
	}
	if len(words) == 0 {
		words = []string{"no bound in all"}
	}
	s.note(conversation.Note{Type: protocol.EntryState, Data: data,
		Text: fmt.Sprintf("budget: %s, %s for a turn", strings.Join(words, ", "), s.opt.TurnTimeout)})
}

func (s *boundsPart) budgetID() string { return fmt.Sprintf("%s.b%d", s.id, s.st.BudgetN) }

// budgetReached records the delivery state of the newest budget.
func (s *boundsPart) budgetReached(state string) {
	for _, m := range s.st.Messages {
		if m.Kind == kindBudget && m.ID == s.budgetID() {
			s.track(m.ID, kindBudget, m.Turn, state)
			return
		}
	}
}

func (s *boundsPart) uses() []protocol.BudgetUse {
	st := s.st.Pump
	st.Turn, st.Skipped = s.st.TurnN, s.st.Skipped
	all := conversation.BudgetUses(s.opt.Bounds, &st)
	return all[:]
}

func (s *boundsPart) budgetView() *protocol.BudgetView {
	v := &protocol.BudgetView{TurnTimeout: s.opt.TurnTimeout.String()}
	counts := map[string]*protocol.BudgetCount{"tokens": &v.Tokens, "turns": &v.Turns, "approvals": &v.Approvals, "commands": &v.Commands}
	for _, u := range s.uses() {
		if c := counts[u.Name]; c != nil {
			*c = protocol.BudgetCount{Used: u.Used, Limit: u.Limit}
		}
		if u.Warned {
			v.Warnings = append(v.Warnings, u.Spend())
		}
	}
	s.moneyView(v)
	v.Time.Used = (time.Duration(s.st.Pump.Spent.TimeMS) * time.Millisecond).String()
	if s.opt.Bounds.Time > 0 {
		v.Time.Limit = s.opt.Bounds.Time.String()
	}
	return v
}

func (s *boundsPart) overBudget() bool {
	_, gone := s.gone()
	return gone
}

// gone returns the first bound that is used up.
func (s *boundsPart) gone() (protocol.BudgetUse, bool) {
	for _, u := range s.uses() {
		if u.Gone() {
			return u, true
		}
	}
	return protocol.BudgetUse{}, false
}

// exhausted reports whether the first bound that is used up is another than the turns.
func (s *boundsPart) exhausted() bool {
	u, gone := s.gone()
	return gone && u.Name != "turns"
}

// noTurnLeft returns the bound on turns if the queued messages will use it up.
func (s *boundsPart) noTurnLeft() (protocol.BudgetUse, bool) {
	for _, u := range s.uses() {
		if u.Name == "turns" && u.Limit > 0 && u.Used+int64(len(s.st.Queue)) >= u.Limit {
			return u, true
		}
	}
	return protocol.BudgetUse{}, false
}

func (s *boundsPart) spent() *protocol.Failure {
	u, _ := s.gone()
	return &protocol.Failure{Kind: protocol.RefusedBudget, Message: u.Spend(), Hint: u.Raise(s.id)}
}
