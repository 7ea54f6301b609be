package activities

import "fairlead.dev/fairlead/conversation"

// Kinds of endings that workflows branch on; conversation.Endings says what
// each of them means.
const (
	EndAuth           = conversation.EndAuth
	EndQuota          = conversation.EndQuota
	EndOverloaded     = conversation.EndOverloaded
	EndModelNotFound  = conversation.EndModelNotFound
	EndProcessExit    = conversation.EndProcessExit
	EndStartTimeout   = conversation.EndStartTimeout
	EndRequestTimeout = conversation.EndRequestTimeout
	EndSilent         = conversation.EndSilent
	EndQuietAfterTool = conversation.EndQuietAfterTool
	EndOversize       = conversation.EndOversize
	EndOther          = conversation.EndOther
	EndRateLimit      = conversation.EndRateLimit
	EndTurnTimeout    = conversation.EndTurnTimeout
	EndHostLost       = conversation.EndHostLost
	EndInterrupted    = conversation.EndInterrupted
	EndBudget         = conversation.EndBudget
)

// HintOf returns what an operator can do about a kind.
func HintOf(kind string) string { return conversation.HintOf(kind) }

// EndingKinds are all kinds of endings of turns.
func EndingKinds() (kinds []string) {
	for _, e := range conversation.Endings {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}
