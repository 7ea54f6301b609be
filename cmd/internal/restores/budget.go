package restores

import (
	"fairlead.dev/fairlead/internal/budget"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows/session"
)

// sameBudget gives a session that continues from a snapshot the former budget, unused.
// --budget and --turn-timeout replace single bounds. An unknown budget must be stated, or
// the session could use more.
func sameBudget(opt *session.Options, m snapshots.Manifest, former protocol.SessionView, asked *protocol.Budget, given func(flag string) bool) error {
	words := m.Budget
	if former.Budget != nil { // perhaps changed since the snapshot
		words = former.Budget.Words()
	}
	if words == "" && !given("budget") {
		return errkind.Usage("restore snapshot %s: neither the snapshot nor session %s says what the budget was", m.ID, m.Session).
			Hinted("say it with --budget; tokens=0 is no bound")
	}
	turn := opt.TurnTimeout
	if err := budgetOf(opt, words); err != nil {
		return err
	}
	if given("turn-timeout") {
		opt.TurnTimeout = turn
	}
	if asked == nil {
		return nil
	}
	return opt.SetBudget(*asked)
}

// budgetOf sets the bounds that words name.
func budgetOf(opt *session.Options, words string) error {
	if words == "" {
		return nil
	}
	b, err := budget.Parse(words)
	if err == nil {
		err = opt.SetBudget(b)
	}
	return err
}
