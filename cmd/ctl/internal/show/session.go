package show

import (
	"fmt"
	"strings"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// BudgetText describes a budget.
func BudgetText(b *protocol.BudgetView) string {
	if b == nil {
		return ""
	}
	var out []string
	for _, c := range []struct {
		name string
		protocol.BudgetCount
	}{{"tokens", b.Tokens}, {"turns", b.Turns}, {"approvals", b.Approvals}, {"commands", b.Commands}} {
		if c.Limit > 0 {
			out = append(out, fmt.Sprintf("%d of %d %s used", c.Used, c.Limit, c.name))
		}
	}
	if b.Time.Limit != "" {
		out = append(out, fmt.Sprintf("%s of %s used", b.Time.Used, RoundTime(b.Time.Limit)))
	}
	if b.Money != nil && b.Money.Limit > 0 {
		out = append(out, fmt.Sprintf("%s of %s in money used", b.Money.Used, b.Money.Limit))
	}
	if b.TurnTimeout != "" {
		out = append(out, "a turn may take "+RoundTime(b.TurnTimeout))
	}
	return strings.Join(out, "; ")
}

// BudgetWarnings lists bounds almost reached.
func BudgetWarnings(b *protocol.BudgetView) string {
	if b == nil {
		return ""
	}
	return strings.Join(b.Warnings, "; ")
}

// ConfineText says what commands may do.
func ConfineText(words map[string]string) string {
	if words["sandbox"] == "" {
		return ""
	}
	text := words["sandbox"]
	if text == protocol.ByProfile {
		text = "profile " + words["profile"]
	}
	for _, w := range []struct{ key, says string }{{"read", "may read "}, {"write", "may write "}, {"network", "network "}} {
		if words[w.key] != "" {
			text += "; " + w.says + strings.ReplaceAll(words[w.key], "\n", ", ")
		}
	}
	return text
}

// PolicyLine describes a policy.
func PolicyLine(v *protocol.PolicyView) string {
	if v == nil {
		return ""
	}
	text := v.State + " " + v.Digest[:min(12, len(v.Digest))]
	if v.Error != "" {
		text += ": everything is declined: " + v.Error
	}
	return text
}

// AttemptsText says since when something fails, and when it is retried.
func AttemptsText(w *protocol.WaitingView) string {
	if w == nil {
		return ""
	}
	return fmt.Sprintf("%s; %d failed since %s (%s)", core.Age(w.NextAt), w.Attempt, core.Age(w.Since), w.Kind)
}

// WidestWait bounds a column, so that long errors do not hide others. `session show` prints
// all.
const WidestWait = 70

// ProgressText returns the newest progress report.
func ProgressText(p *protocol.ProgressView) string {
	if p == nil {
		return ""
	}
	s := p.String()
	if !p.At.IsZero() {
		s = fmt.Sprintf("%s (turn %d, %s)", s, p.Turn, core.Age(p.At))
	}
	return s
}
