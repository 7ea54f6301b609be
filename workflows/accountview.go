package workflows

import (
	"time"

	"fairlead.dev/fairlead/activities"
)

// ContextView is how full the model's context window is, in tokens.
type ContextView struct {
	Used   int64 `json:"used"`
	Window int64 `json:"window"`
}

// RateLimitsView are an account's rate limits; what codex did not tell is left out.
type RateLimitsView struct {
	Primary   *RateWindowView `json:"primary,omitempty"`
	Secondary *RateWindowView `json:"secondary,omitempty"`
	Plan      string          `json:"plan,omitempty"`
	Reached   string          `json:"reached,omitempty"`
	At        time.Time       `json:"at"`
}

// RateWindowView is how much of what a window of time allows is used.
type RateWindowView struct {
	UsedPercent   int       `json:"used_percent"`
	WindowMinutes int64     `json:"window_minutes,omitempty"`
	ResetsAt      time.Time `json:"resets_at,omitzero"`
}

// ViewRateLimits shows rate limits; nil for none.
func ViewRateLimits(l *activities.RateLimits) *RateLimitsView {
	if l == nil {
		return nil
	}
	return &RateLimitsView{
		Primary: viewWindow(l.Primary), Secondary: viewWindow(l.Secondary),
		Plan: l.Plan, Reached: l.Reached, At: time.UnixMilli(l.AtMS).UTC(),
	}
}

func viewWindow(w *activities.RateWindow) *RateWindowView {
	if w == nil {
		return nil
	}
	v := &RateWindowView{UsedPercent: w.UsedPercent, WindowMinutes: w.WindowMinutes}
	if w.ResetsAt > 0 {
		v.ResetsAt = time.Unix(w.ResetsAt, 0).UTC()
	}
	return v
}

// ViewContext shows how full the context window is; nil where nobody knows.
func ViewContext(c *activities.ContextUse) *ContextView {
	if c == nil {
		return nil
	}
	return &ContextView{Used: c.Used, Window: c.Window}
}
