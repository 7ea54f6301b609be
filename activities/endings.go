package activities

import "fairlead.dev/fairlead/conversation"

// Kinds of endings that workflows branch on; conversation.Endings says what
// each of them means.
const (
	EndQuota       = conversation.EndQuota
	EndRateLimit   = conversation.EndRateLimit
	EndTurnTimeout = conversation.EndTurnTimeout
	EndHostLost    = conversation.EndHostLost
	EndInterrupted = conversation.EndInterrupted
	EndBudget      = conversation.EndBudget
)

// HintOf is what an operator can do about a kind.
func HintOf(kind string) string { return conversation.HintOf(kind) }

// EndingKinds are all kinds of endings of turns.
func EndingKinds() (kinds []string) {
	for _, e := range conversation.Endings {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}
