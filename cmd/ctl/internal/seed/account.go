package seed

import (
	"fmt"
	"strings"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/internal/protocol"
)

func identityOf(v protocol.SeedView) string {
	if v.Account == nil {
		return ""
	}
	return v.Account.Identity
}

func planOf(v protocol.SeedView) string {
	if v.Account == nil {
		return ""
	}
	return v.Account.Plan
}

// usedText is short, for lists.
func usedText(v protocol.SeedView) string {
	a := v.Account
	switch {
	case a == nil:
		return ""
	case a.State == protocol.UsedUp:
		return "used up"
	case a.UsedPercent == nil:
		return ""
	}
	return fmt.Sprintf("%d %%", *a.UsedPercent)
}

func resetText(v protocol.SeedView) string {
	a := v.Account
	switch {
	case a == nil:
		return ""
	case a.State != "" && a.Until != nil:
		return show.When(a.Until)
	case a.ResetsAt != nil:
		return show.When(a.ResetsAt)
	}
	return ""
}

func useColour(v protocol.SeedView) core.Style {
	if v.Account == nil {
		return ""
	}
	switch v.Account.State {
	case protocol.UsedUp:
		return core.Red
	case protocol.NearlyUsedUp:
		return core.Yellow
	}
	return ""
}

// usageText tells of the plan and of each window.
func usageText(a *protocol.SeedAccountView) string {
	if a == nil {
		return ""
	}
	var parts []string
	if a.Plan != "" {
		parts = append(parts, "plan "+a.Plan)
	}
	if text := show.RateText(a.Limits); text != "" {
		parts = append(parts, text+" (seen "+core.Age(a.Limits.At)+")")
	}
	if a.State != "" && a.Until != nil {
		parts = append(parts, map[string]string{protocol.NearlyUsedUp: "nearly used up", protocol.UsedUp: "used up"}[a.State]+
			" until "+a.Until.UTC().Format("2006-01-02 15:04 MST"))
	}
	return strings.Join(parts, "; ")
}
