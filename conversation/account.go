package conversation

import (
	"encoding/json"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// codexLimits is codex's id for account-wide limits; others are for one model.
const codexLimits = "codex"

type rateWindow struct {
	Used   int   `json:"usedPercent"`
	Window int64 `json:"windowDurationMins"`
	Resets int64 `json:"resetsAt"`
}

func (w *rateWindow) ours(was *protocol.RateWindow) *protocol.RateWindow {
	if w == nil {
		return was
	}
	return &protocol.RateWindow{UsedPercent: w.Used, WindowMinutes: w.Window, ResetsAt: w.Resets}
}

// rateLimitsUpdated handles a notification that is usually empty if the provider is not
// OpenAI.
func (t *turns) rateLimitsUpdated(p json.RawMessage) {
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
	var was protocol.RateLimits
	if t.st.RateLimits != nil {
		was = *t.st.RateLimits
	}
	t.st.RateLimits = &protocol.RateLimits{
		Primary: l.Primary.ours(was.Primary), Secondary: l.Secondary.ours(was.Secondary),
		Plan: wire.Excerpt(t.redact(orWord(l.Plan, was.Plan)), 100), Reached: wire.Excerpt(t.redact(l.Reached), 100), AtMS: t.st.AtMS,
	}
	t.tellUse()
}

func (c *core) tellUse() {
	if c.opt.Used != nil {
		c.opt.Used(Use{c.st.Usage, c.st.TurnUsage, c.st.Context, c.st.RateLimits})
	}
}

// usageUpdated handles a notification that follows each answer of the model. An unchanged
// total is a repetition.
func (t *turns) usageUpdated(p json.RawMessage) {
	var n wire.UsageNotice
	if json.Unmarshal(p, &n) != nil || !t.st.ours(n.Notice) {
		return
	}
	total, last := n.Usage.Total.Usage(), n.Usage.Last.Usage()
	before := t.st.Total
	t.st.Total = total
	if w := n.Usage.Window; w > 0 {
		t.st.Context = &protocol.ContextUse{Used: n.Usage.Last.All, Window: w}
		t.noticed.contextUsed()
	}
	if t.st.TurnID == "" || n.TurnID != t.st.TurnID {
		return
	}
	if total == before {
		return
	}
	part := protocol.Usage{Input: total.Input - before.Input, Output: total.Output - before.Output, Cached: total.Cached - before.Cached}
	if before == (protocol.Usage{}) || part.Input < 0 || part.Output < 0 || part.Cached < 0 {
		part = last
	}
	addUsage(&t.st.TurnUsage, part)
	addUsage(&t.st.Usage, part)
	t.tellUse()
	// codex counts an answer's tokens after the tools that it called have replied
	// (measured). So the model does not wait for items that still run.
	for i := range t.st.Items {
		t.st.Items[i].Background = true
	}
	t.quiet.toolEnded()
	t.spending.check()
}

func addUsage(u *protocol.Usage, v protocol.Usage) {
	u.Input += v.Input
	u.Output += v.Output
	u.Cached += v.Cached
}
