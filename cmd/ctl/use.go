package main

import (
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/workflows"
)

// freshenUse updates the usage of a session, which the session itself learns when its pump
// returns.
func freshenUse(v *workflows.SessionView, u *activities.Use) {
	if u == nil {
		return
	}
	turns := v.Usage.Turns
	v.Usage = useView(*u)
	v.Usage.Turns = turns
	if l := workflows.ViewRateLimits(u.RateLimits); l != nil {
		v.RateLimits = l
	}
}

func useView(u activities.Use) workflows.UsageView {
	return workflows.UsageView{Input: u.Usage.Input, Output: u.Usage.Output, Cached: u.Usage.Cached, Context: workflows.ViewContext(u.Context)}
}

// useLine is a usage line of follow -o json.
type useLine struct {
	Event      string                    `json:"event"`
	Usage      workflows.UsageView       `json:"usage"`
	TurnUsage  workflows.UsageView       `json:"turn_usage"`
	RateLimits *workflows.RateLimitsView `json:"rate_limits,omitempty"`
}

func lineOf(u activities.Use) useLine {
	turn := u
	turn.Usage, turn.Context = u.TurnUsage, nil
	return useLine{"usage", useView(u), useView(turn), workflows.ViewRateLimits(u.RateLimits)}
}

// text returns the line for people. It is empty if nothing was used.
func (l useLine) text() string {
	parts := []string{tokens(l.Usage)}
	if c := contextText(l.Usage.Context); c != "" {
		parts = append(parts, c)
	}
	if r := rateText(l.RateLimits); r != "" {
		parts = append(parts, r)
	}
	if parts[0] == "" {
		return ""
	}
	return "· tokens: " + strings.Join(parts, "; ")
}

func contextText(c *workflows.ContextView) string {
	if c == nil || c.Window <= 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d of the context (%d %%)", c.Used, c.Window, 100*c.Used/c.Window)
}

func rateText(l *workflows.RateLimitsView) string {
	if l == nil {
		return ""
	}
	var parts []string
	for _, w := range []*workflows.RateWindowView{l.Primary, l.Secondary} {
		if w == nil {
			continue
		}
		s := fmt.Sprintf("%d %%", w.UsedPercent)
		if w.WindowMinutes > 0 {
			s += " of " + (time.Duration(w.WindowMinutes) * time.Minute).String()
		}
		if !w.ResetsAt.IsZero() {
			s += ", until " + w.ResetsAt.UTC().Format("2006-01-02 15:04 MST")
		}
		parts = append(parts, s)
	}
	if l.Reached != "" {
		parts = append(parts, "reached: "+clean(l.Reached))
	}
	return strings.Join(parts, "; ")
}
