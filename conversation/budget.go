package conversation

import "fmt"

// The budget of a turn: when codex tells that the turn has used more tokens
// than Limits.Tokens, the pump interrupts it by itself. The interrupt is a send
// of the pump's own. It names the turn, so a second one can hit no other, and
// PumpState.Budget tells the next pump how far the first one got.

// budgetID is the id of that send.
func budgetID(turn string) string { return "budget." + turn }

// resumeBudget takes up an interrupt that an earlier pump decided on.
func (m *machine) resumeBudget() {
	if m.st.TurnID == "" || m.st.Budget == "" {
		return
	}
	s := m.interruptOfOurs()
	s.uncertain = true
	if m.st.Budget == Acknowledged {
		s.settle(Acknowledged, "")
		m.interruptAt = 1 // it has as long to end the turn as if it came now
	}
}

func (m *machine) interruptOfOurs() *send {
	s := &send{Send: Send{ID: budgetID(m.st.TurnID), Kind: SendInterrupt}, state: Decided, own: true}
	m.sends = append(m.sends, s)
	return s
}

// checkBudget is called when the turn's usage has grown.
func (m *machine) checkBudget() {
	if m.lim.Tokens <= 0 || m.st.Budget != "" || m.st.TurnID == "" {
		return
	}
	if m.st.TurnUsage.spent()-m.spent <= m.lim.Tokens {
		return
	}
	m.st.Budget = Decided
	m.entry(Entry{Type: EntryState, Turn: m.st.Turn, Status: "budget",
		Text: fmt.Sprintf("the turn has used %d tokens, more than it was given: it is interrupted", m.st.TurnUsage.spent())})
	m.interruptOfOurs()
}

// keepBudget tells the next pump how far the interrupt got.
func (m *machine) keepBudget() {
	for _, s := range m.sends {
		switch {
		case !s.own || m.st.Budget == "":
		case s.settled():
			m.st.Budget = Acknowledged
		default:
			m.st.Budget = s.told()
		}
	}
}

// overBudget is why a turn was interrupted, if we did it.
func (m *machine) overBudget(status string) *Problem {
	if m.st.Budget == "" || status != "interrupted" {
		return nil
	}
	return problem("budget", fmt.Sprintf("the turn used %d tokens, more than it was given", m.st.TurnUsage.spent()))
}

// spent is what counts against a budget.
func (u Usage) spent() int64 { return u.Input + u.Output }
