package conversation

import "encoding/json"

// RateLimits are those of the account that codex uses, as codex told them last.
// What codex does not know it leaves out; then what it said before stands.
type RateLimits struct {
	Primary   *RateWindow `json:"primary,omitempty"`
	Secondary *RateWindow `json:"secondary,omitempty"`
	Plan      string      `json:"plan,omitempty"`
	Reached   string      `json:"reached,omitempty"` // codex's word for which limit is reached, if one is
	AtMS      int64       `json:"at_ms"`
}

// A RateWindow is how much of what a window of time allows is used.
type RateWindow struct {
	UsedPercent   int   `json:"used_percent"`
	WindowMinutes int64 `json:"window_minutes,omitempty"`
	ResetsAt      int64 `json:"resets_at,omitempty"` // seconds since 1970
}

// Context is how much of the model's context window the thread fills, in tokens.
type Context struct {
	Used   int64 `json:"used"`
	Window int64 `json:"window"`
}

// codexLimits is codex's name of the account's own limits; others are of single
// models.
const codexLimits = "codex"

type rateWindow struct {
	Used   int   `json:"usedPercent"`
	Window int64 `json:"windowDurationMins"`
	Resets int64 `json:"resetsAt"`
}

func (w *rateWindow) ours(was *RateWindow) *RateWindow {
	if w == nil {
		return was
	}
	return &RateWindow{UsedPercent: w.Used, WindowMinutes: w.Window, ResetsAt: w.Resets}
}

// rateLimitsUpdated comes with each answer of the model, as a rule with nothing
// in it where the provider is not OpenAI.
func (m *machine) rateLimitsUpdated(p json.RawMessage) {
	var n struct {
		Limits struct {
			ID        string      `json:"limitId"`
			Primary   *rateWindow `json:"primary"`
			Secondary *rateWindow `json:"secondary"`
			Plan      string      `json:"planType"`
			Reached   string      `json:"rateLimitReachedType"`
		} `json:"rateLimits"`
	}
	l := &n.Limits
	if json.Unmarshal(p, &n) != nil || l.ID != "" && l.ID != codexLimits {
		return
	}
	if l.Primary == nil && l.Secondary == nil && l.Plan == "" && l.Reached == "" {
		return
	}
	var was RateLimits
	if m.st.RateLimits != nil {
		was = *m.st.RateLimits
	}
	m.st.RateLimits = &RateLimits{
		Primary: l.Primary.ours(was.Primary), Secondary: l.Secondary.ours(was.Secondary),
		Plan: excerpt(m.redact(orWord(l.Plan, was.Plan)), 100), Reached: excerpt(m.redact(l.Reached), 100), AtMS: m.st.AtMS,
	}
	m.tellUse()
}

// tellUse says to whoever watches what was used by now.
func (m *machine) tellUse() {
	if m.opt.Used != nil {
		m.opt.Used(Use{m.st.Usage, m.st.TurnUsage, m.st.Context, m.st.RateLimits})
	}
}
