package show

import (
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// FreshenUse updates a session's usage, which the session learns only when its pump
// returns.
func FreshenUse(v *protocol.SessionView, u *protocol.Use) {
	if u == nil {
		return
	}
	turns := v.Usage.Turns
	v.Usage = useView(*u)
	v.Usage.Turns = turns
	if l := protocol.ViewRateLimits(u.RateLimits); l != nil {
		v.RateLimits = l
	}
}

func useView(u protocol.Use) protocol.UsageView {
	return protocol.UsageView{Input: u.Usage.Input, Output: u.Usage.Output, Cached: u.Usage.Cached, Context: protocol.ViewContext(u.Context)}
}

// UseLine is a line of follow -o json.
type UseLine struct {
	Event      string                   `json:"event"`
	Usage      protocol.UsageView       `json:"usage"`
	TurnUsage  protocol.UsageView       `json:"turn_usage"`
	RateLimits *protocol.RateLimitsView `json:"rate_limits,omitempty"`
}

// LineOf returns the line for u.
func LineOf(u protocol.Use) UseLine {
	turn := u
	turn.Usage, turn.Context = u.TurnUsage, nil
	return UseLine{"usage", useView(u), useView(turn), protocol.ViewRateLimits(u.RateLimits)}
}

// Text is empty if nothing was used.
func (l UseLine) Text() string {
	parts := []string{Tokens(l.Usage)}
	if c := ContextText(l.Usage.Context); c != "" {
		parts = append(parts, c)
	}
	if r := RateText(l.RateLimits); r != "" {
		parts = append(parts, r)
	}
	if parts[0] == "" {
		return ""
	}
	return "· tokens: " + strings.Join(parts, "; ")
}

// ContextText says how full the context is.
func ContextText(c *protocol.ContextView) string {
	if c == nil || c.Window <= 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d of the context (%d %%)", c.Used, c.Window, 100*c.Used/c.Window)
}

// RateText says how much of the limits is used.
func RateText(l *protocol.RateLimitsView) string {
	if l == nil {
		return ""
	}
	var parts []string
	for _, w := range []*protocol.RateWindowView{l.Primary, l.Secondary} {
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
		parts = append(parts, "reached: "+core.Clean(l.Reached))
	}
	return strings.Join(parts, "; ")
}

// Tokens formats tokens.
func Tokens(u protocol.UsageView) string {
	if u.Input+u.Output == 0 {
		return ""
	}
	return fmt.Sprintf("%d in (%d cached), %d out", u.Input, u.Cached, u.Output)
}

// CredentialsText says how a session gets the credential of its seed, and who chose that.
func CredentialsText(v protocol.SessionView) string {
	way := v.Options["credentials"]
	switch by := v.Options["credentials_by"]; {
	case v.Seed == "":
		return ""
	case way == "":
		return protocol.CredentialsPlanted
	case by == protocol.BySeed:
		return way + " (the default of seed " + v.Seed + ")"
	case by == protocol.ByOrganisation:
		return way + " (the default of the workers' configuration)"
	case by == protocol.ByLocalHost:
		return way + " (the default of seed " + v.Seed + " is gateway, which does not serve this host)"
	}
	return way + " (as the session asked)"
}

// EgressText says what commands of a session may reach through workers, and what they did reach.
func EgressText(v protocol.SessionView) string {
	text := v.Options["egress"]
	if text != "" && v.Egress != nil {
		text += "; "
	}
	if v.Egress != nil {
		text += v.Egress.Text()
	}
	return text
}
