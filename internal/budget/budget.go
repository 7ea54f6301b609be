// Package budget reads budgets of sessions as people write them, in the form of --budget.
package budget

import (
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// Example is a budget of a session as a flag.
const Example = "--budget tokens=200000,turns=20,time=8h,turn=2h,approvals=50,commands=500"

// Parse reads --budget. time bounds all turns together, turn each one. 0 removes a
// bound; bounds that are not named stay unset.
func Parse(text string) (protocol.Budget, error) {
	var b protocol.Budget
	counts := map[string]**int64{"tokens": &b.Tokens, "turns": &b.Turns, "approvals": &b.Approvals, "commands": &b.Commands}
	seen := map[string]bool{}
	const known = "tokens=N, turns=N, time=D, turn=D, approvals=N, commands=N, money=M"
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if seen[name] {
			return b, errkind.Usage("--budget: %s is given twice", name).Hinted(Example)
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
		if name == protocol.BudgetMoney {
			m, err := protocol.ParseMoney(value)
			if err != nil {
				return b, errkind.Usage("--budget: money=%v", err).Hinted("money=2.50; money=0 means no bound")
			}
			b.Money = &m
			continue
		}
		d, err := time.ParseDuration(value)
		switch {
		case name != "time" && name != "turn":
			return b, errkind.Usage("--budget: %q is not one of %s", part, known).Hinted(Example)
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
