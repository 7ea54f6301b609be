package conversation

import (
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// Spent is the use of the budget that PumpState has nowhere else. It is a function of the
// journal and the inputs.
type Spent struct {
	Commands int64 `json:"commands,omitempty"`
	TimeMS   int64 `json:"time_ms,omitempty"`
	// CountedMS is the time up to which the turn's time was counted: 0 before the turn, -1
	// if counting starts at the next time in the journal.
	CountedMS int64           `json:"counted_ms,omitempty"`
	Warned    protocol.Bounds `json:"warned,omitzero"`
	// Over is the bound for which the pump interrupts the turn.
	Over string `json:"over,omitempty"`
	// Stopped says that a person interrupted the turn in an earlier pump.
	Stopped bool `json:"stopped,omitempty"`
}

// BudgetUses returns all bounds in the order of the command line.
func BudgetUses(b protocol.Bounds, st *PumpState) [5]protocol.BudgetUse {
	w := st.Spent.Warned
	use := func(name string, used, limit, warned int64) protocol.BudgetUse {
		return protocol.BudgetUse{Name: name, Used: used, Limit: limit, Warned: limit > 0 && warned == limit}
	}
	return [...]protocol.BudgetUse{
		use(protocol.BudgetTokens, spentOf(st.Usage), b.Tokens, w.Tokens),
		use(protocol.BudgetTurns, int64(st.Turn-st.Skipped), b.Turns, w.Turns),
		use(protocol.BudgetTime, st.Spent.TimeMS, b.Time.Milliseconds(), w.Time.Milliseconds()),
		use(protocol.BudgetApprovals, int64(st.Tally.InSession), b.Approvals, w.Approvals),
		use(protocol.BudgetCommands, st.Spent.Commands, b.Commands, w.Commands),
	}
}

func budgetWarned(b *protocol.Bounds, u protocol.BudgetUse) {
	switch u.Name {
	case protocol.BudgetTokens:
		b.Tokens = u.Limit
	case protocol.BudgetTurns:
		b.Turns = u.Limit
	case protocol.BudgetTime:
		b.Time = time.Duration(u.Limit) * time.Millisecond
	case protocol.BudgetApprovals:
		b.Approvals = u.Limit
	case protocol.BudgetCommands:
		b.Commands = u.Limit
	}
}

// useIsOver reports whether a turn must end. The last token, approval or command is
// allowed; for time, reaching the limit is enough.
func useIsOver(u protocol.BudgetUse) bool {
	switch {
	case u.Limit <= 0, u.Name == protocol.BudgetTurns:
		return false
	case u.Name == protocol.BudgetTime:
		return u.Used >= u.Limit
	}
	return u.Used > u.Limit
}

func useIsNear(u protocol.BudgetUse) bool {
	return u.Limit > 0 && u.Used >= u.Limit-u.Limit/5 && !useIsOver(u)
}

func spentOf(u protocol.Usage) int64 { return u.Input + u.Output }
