package restores

import (
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows/session"
)

// BudgetExample is one of --budget.
const BudgetExample = "--budget tokens=200000,turns=20,time=8h,turn=2h,approvals=50,commands=500"

// ParseBudget reads --budget. time bounds all turns together, turn each one. 0 removes a
// bound; bounds that are not named stay unset.
func ParseBudget(text string) (protocol.Budget, error) {
	var b protocol.Budget
	counts := map[string]**int64{"tokens": &b.Tokens, "turns": &b.Turns, "approvals": &b.Approvals, "commands": &b.Commands}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if seen[name] {
			return b, errkind.Usage("--budget: %s is given twice", name).Hinted(BudgetExample)
		}
		seen[name] = true
		if to := counts[name]; to != nil {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 {
				return b, errkind.Usage("--budget: %s=%s: want a whole number, at least 0", name, value).Hinted("%s=200; %s=0 means no bound", name, name)
			}
			*to = &n
			continue
		}
		d, err := time.ParseDuration(value)
		switch {
		case name != "time" && name != "turn":
			return b, errkind.Usage("--budget: %q is not one of tokens=N, turns=N, time=D, turn=D, approvals=N, commands=N", part).Hinted(BudgetExample)
		case err != nil || d < 0 || name == "turn" && d == 0:
			return b, errkind.Usage("--budget: %s=%s is not a duration", name, value).Hinted("%s=90m or %s=2h", name, name)
		case name == "time":
			b.Time = d.String()
		default:
			b.TurnTimeout = d.String()
		}
	}
	return b, nil
}

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
	b, err := ParseBudget(words)
	if err == nil {
		err = opt.SetBudget(b)
	}
	return err
}
