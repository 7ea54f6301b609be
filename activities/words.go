package activities

import (
	"encoding/json"

	"fairlead.dev/fairlead/conversation"
)

// Words of the conversation that workflows branch on.
const (
	ToolAskHuman = conversation.ToolAskHuman
	ToolDeliver  = conversation.ToolDeliver
	ToolProgress = conversation.ToolProgress

	SendTurn      = conversation.SendTurn
	SendSteer     = conversation.SendSteer
	SendDecision  = conversation.SendDecision
	SendInterrupt = conversation.SendInterrupt

	ActCompact = conversation.ActCompact
	ActReview  = conversation.ActReview

	Accept  = conversation.Accept
	Decline = conversation.Decline
	Cancel  = conversation.Cancel
	Answer  = conversation.Answer
	Grant   = conversation.Grant
	Amend   = conversation.Amend

	KindCommand     = conversation.KindCommand
	KindFileChange  = conversation.KindFileChange
	KindPermissions = conversation.KindPermissions
	KindUserInput   = conversation.KindUserInput
	KindElicitation = conversation.KindElicitation

	Decided      = conversation.Decided
	Sent         = conversation.Sent
	Acknowledged = conversation.Acknowledged
	Rejected     = conversation.Rejected
	Void         = conversation.Void

	Overloaded    = conversation.Overloaded
	TurnBegun     = conversation.TurnBegun
	TurnEnded     = conversation.TurnEnded
	ProcessEnded  = conversation.ProcessEnded
	TimedOut      = conversation.TimedOut
	Refused       = conversation.Refused
	PumpCancelled = conversation.PumpCancelled

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

// CheckAnswers checks that answers fit the questions, and returns them as codex is to have
// them.
func CheckAnswers(questions []Question, answers map[string][]string) (map[string][]string, error) {
	return conversation.CheckAnswers(questions, answers)
}

// Within returns why a grant is not part of what was asked for.
func Within(grant, asked json.RawMessage) error { return conversation.Within(grant, asked) }

// Part is what a person gives of the permissions that codex asks for.
type Part = conversation.Part

// PermissionWords describes each of some permissions, in codex's shape, in a few words.
func PermissionWords(raw json.RawMessage) []string { return conversation.PermissionWords(raw) }
