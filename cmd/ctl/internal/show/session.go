package show

import (
	"fmt"
	"strings"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// BudgetText describes the budget of a session. It is empty if the budget is unknown.
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
	if b.TurnTimeout != "" {
		out = append(out, "a turn may take "+RoundTime(b.TurnTimeout))
	}
	return strings.Join(out, "; ")
}

// BudgetWarnings lists the bounds that are almost reached.
func BudgetWarnings(b *protocol.BudgetView) string {
	if b == nil {
		return ""
	}
	return strings.Join(b.Warnings, "; ")
}

// ConfineText describes in one line what a session's commands may do.
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

// PolicyLine describes a session's policy in one line.
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

// AttemptsText says how long an operation has been failing, and when it is tried again.
func AttemptsText(w *protocol.WaitingView) string {
	if w == nil {
		return ""
	}
	return fmt.Sprintf("%s; %d failed since %s (%s)", core.Age(w.NextAt), w.Attempt, core.Age(w.Since), w.Kind)
}

// WidestWait bounds the column that says what a session waits for, so that a long error
// does not push other columns off the screen. `session show` prints all of it.
const WidestWait = 70

// ProgressText returns the newest progress report and its age, in one line.
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
