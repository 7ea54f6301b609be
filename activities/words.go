package activities

import "fairlead.dev/fairlead/conversation"

// Words of the conversation that workflows branch on.
const (
	SendTurn      = conversation.SendTurn
	SendSteer     = conversation.SendSteer
	SendDecision  = conversation.SendDecision
	SendInterrupt = conversation.SendInterrupt

	Accept  = conversation.Accept
	Decline = conversation.Decline
	Cancel  = conversation.Cancel

	Decided      = conversation.Decided
	Sent         = conversation.Sent
	Acknowledged = conversation.Acknowledged
	Rejected     = conversation.Rejected
	Void         = conversation.Void

	TurnEnded    = conversation.TurnEnded
	ProcessEnded = conversation.ProcessEnded
	TimedOut     = conversation.TimedOut
	Refused      = conversation.Refused

	EntryUser       = conversation.EntryUser
	EntryAssistant  = conversation.EntryAssistant
	EntryReasoning  = conversation.EntryReasoning
	EntryCommand    = conversation.EntryCommand
	EntryFileChange = conversation.EntryFileChange
	EntryTool       = conversation.EntryTool
	EntryRequest    = conversation.EntryRequest
	EntryDecision   = conversation.EntryDecision
	EntryState      = conversation.EntryState
	EntryError      = conversation.EntryError
)

// PumpInput is what a pump is told.
type PumpInput = conversation.PumpInput

// Delta is a piece of text that streams before its item is finished.
type Delta = conversation.Delta
