package workflows

import (
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// ContextView is how full the model's context window is, in tokens.
type ContextView struct {
	Used   int64 `json:"used"`
	Window int64 `json:"window"`
}

// RateLimitsView shows an account's rate limits. Values that codex did not report are left out.
type RateLimitsView struct {
	Primary   *RateWindowView `json:"primary,omitempty"`
	Secondary *RateWindowView `json:"secondary,omitempty"`
	Plan      string          `json:"plan,omitempty"`
	Reached   string          `json:"reached,omitempty"`
	At        time.Time       `json:"at"`
}

// RateWindowView shows how much of a rate-limit window is used.
type RateWindowView struct {
	UsedPercent   int       `json:"used_percent"`
	WindowMinutes int64     `json:"window_minutes,omitempty"`
	ResetsAt      time.Time `json:"resets_at,omitzero"`
}

// ViewRateLimits returns nil if l is nil.
func ViewRateLimits(l *protocol.RateLimits) *RateLimitsView {
	if l == nil {
		return nil
	}
	return &RateLimitsView{
		Primary: viewWindow(l.Primary), Secondary: viewWindow(l.Secondary),
		Plan: l.Plan, Reached: l.Reached, At: time.UnixMilli(l.AtMS).UTC(),
	}
}

func viewWindow(w *protocol.RateWindow) *RateWindowView {
	if w == nil {
		return nil
	}
	v := &RateWindowView{UsedPercent: w.UsedPercent, WindowMinutes: w.WindowMinutes}
	if w.ResetsAt > 0 {
		v.ResetsAt = time.Unix(w.ResetsAt, 0).UTC()
	}
	return v
}

// ViewContext returns nil if c is nil.
func ViewContext(c *protocol.ContextUse) *ContextView {
	if c == nil {
		return nil
	}
	return &ContextView{Used: c.Used, Window: c.Window}
}
