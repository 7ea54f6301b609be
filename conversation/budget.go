package conversation

import (
	"fmt"
	"time"
)

// A Budget bounds what a session may use in all; 0 means no bound. The pump
// interrupts a turn that exceeds it; the workflow enforces Turns. The counts are in
// PumpState, so they are exact however many pumps and attempts a turn took.
type Budget struct {
	Tokens    int64 `json:"tokens,omitempty"` // input and output
	Turns     int64 `json:"turns,omitempty"`
	Approvals int64 `json:"approvals,omitempty"` // requests for a decision, including those to a policy
	Commands  int64 `json:"commands,omitempty"`  // begun
	// Time is the time of the turns by codex's clock, without the time in which
	// approvals waited for people.
	Time time.Duration `json:"time,omitempty"`
}

// Spent is what a session has used of a budget, in addition to what PumpState
// counts anyway. It is a function of the journal and the inputs of the pumps.
type Spent struct {
	Commands int64 `json:"commands,omitempty"`
	TimeMS   int64 `json:"time_ms,omitempty"`
	// CountedMS is the time up to which the running turn's time was counted; 0 before
	// the turn began, -1 if counting starts at the journal's next time.
	CountedMS int64 `json:"counted_ms,omitempty"`
	// Warned holds the bounds that a warning was already given for.
	Warned Budget `json:"warned,omitzero"`
	// Over names the bound that the running turn is interrupted for.
	Over string `json:"over,omitempty"`
	// Stopped says that a person interrupted the running turn in an earlier pump.
	Stopped bool `json:"stopped,omitempty"`
}

// The names of the bounds on the command line.
const (
	BudgetTokens    = "tokens"
	BudgetTurns     = "turns"
	BudgetTime      = "time"
	BudgetApprovals = "approvals"
	BudgetCommands  = "commands"
)

// A BudgetUse is one bound and how much of it is used; times are in milliseconds.
type BudgetUse struct {
	Name        string
	Used, Limit int64
	Warned      bool // a warning was given that it is nearly reached
}

// BudgetUses returns all bounds of the budget, in the order of the command line.
func BudgetUses(b Budget, st *PumpState) [5]BudgetUse {
	w := st.Spent.Warned
	use := func(name string, used, limit, warned int64) BudgetUse {
		return BudgetUse{Name: name, Used: used, Limit: limit, Warned: limit > 0 && warned == limit}
	}
	return [...]BudgetUse{
		use(BudgetTokens, spentOf(st.Usage), b.Tokens, w.Tokens),
		use(BudgetTurns, int64(st.Turn-st.Skipped), b.Turns, w.Turns),
		use(BudgetTime, st.Spent.TimeMS, b.Time.Milliseconds(), w.Time.Milliseconds()),
		use(BudgetApprovals, int64(st.Tally.InSession), b.Approvals, w.Approvals),
		use(BudgetCommands, st.Spent.Commands, b.Commands, w.Commands),
	}
}

func budgetWarned(b *Budget, u BudgetUse) {
	switch u.Name {
	case BudgetTokens:
		b.Tokens = u.Limit
	case BudgetTurns:
		b.Turns = u.Limit
	case BudgetTime:
		b.Time = time.Duration(u.Limit) * time.Millisecond
	case BudgetApprovals:
		b.Approvals = u.Limit
	case BudgetCommands:
		b.Commands = u.Limit
	}
}

// useIsOver reports whether a turn must end for this bound. The last token, approval or
// command is still allowed; for time, reaching the limit is enough.
func useIsOver(u BudgetUse) bool {
	switch {
	case u.Limit <= 0, u.Name == BudgetTurns:
		return false
	case u.Name == BudgetTime:
		return u.Used >= u.Limit
	}
	return u.Used > u.Limit
}

// Gone reports whether no further turn may begin.
func (u BudgetUse) Gone() bool { return u.Limit > 0 && u.Used >= u.Limit }

// useIsNear reports whether four fifths are used.
func useIsNear(u BudgetUse) bool { return u.Limit > 0 && u.Used >= u.Limit-u.Limit/5 && !useIsOver(u) }

// String returns the use and the limit in words.
func (u BudgetUse) String() string {
	if u.Name == BudgetTime {
		return fmt.Sprintf("%s of the %s", span(u.Used), span(u.Limit))
	}
	return fmt.Sprintf("%d of the %d %s", u.Used, u.Limit, u.Name)
}

func span(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d >= time.Minute {
		d = d.Round(time.Second)
	}
	return d.String()
}

// Spend is a sentence that the bound is reached; Raise says what to do.
func (u BudgetUse) Spend() string {
	if u.Name == BudgetTime {
		return "the session's turns have taken " + u.String() + " that they may take"
	}
	return "the session has used " + u.String() + " that it may use"
}

// Raise says how to raise the bound.
func (u BudgetUse) Raise(session string) string {
	value := "N"
	if u.Name == BudgetTime {
		value = "D"
	}
	return fmt.Sprintf("`ctl session set %s --budget %s=%s` gives it more; then send a message to go on", session, u.Name, value)
}

// spentOf returns the tokens that count against a budget.
func spentOf(u Usage) int64 { return u.Input + u.Output }
