package pumps

import (
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// tokensOf returns what a budget in tokens counts.
func tokensOf(u protocol.Usage) int64 { return u.Input + u.Output }

func useOf(st conversation.PumpState) *protocol.Use {
	return &protocol.Use{Usage: st.Usage, TurnUsage: st.TurnUsage, Context: st.Context, RateLimits: st.RateLimits}
}

func (p *presence) used(u conversation.Use) {
	p.mu.Lock()
	p.now.Use = &protocol.Use{Usage: u.Usage, TurnUsage: u.TurnUsage, Context: u.Context, RateLimits: u.RateLimits}
	p.mu.Unlock()
	p.tell()
}
