package activities

import (
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// Use is what a session has used by now, as viewers of an attached pump see it
// before the pump returns.
type Use struct {
	Usage      protocol.Usage       `json:"usage"`      // of the session
	TurnUsage  protocol.Usage       `json:"turn_usage"` // of the running turn
	Context    *protocol.ContextUse `json:"context,omitempty"`
	RateLimits *protocol.RateLimits `json:"rate_limits,omitempty"`
}

func useOf(st conversation.PumpState) *Use {
	return &Use{Usage: st.Usage, TurnUsage: st.TurnUsage, Context: st.Context, RateLimits: st.RateLimits}
}

// used takes what an attached pump's session has used; news of it is told at once.
func (p *presence) used(u conversation.Use) {
	p.mu.Lock()
	p.now.Use = &Use{Usage: u.Usage, TurnUsage: u.TurnUsage, Context: u.Context, RateLimits: u.RateLimits}
	p.mu.Unlock()
	p.tell()
}
