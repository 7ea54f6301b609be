package activities

import (
	"encoding/json"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// CheckAnswers checks that answers fit the questions, and returns them as codex is to have
// them.
func CheckAnswers(questions []protocol.Question, answers map[string][]string) (map[string][]string, error) {
	return conversation.CheckAnswers(questions, answers)
}

// Within returns why a grant is not part of what was asked for.
func Within(grant, asked json.RawMessage) error { return conversation.Within(grant, asked) }

// Part is what a person gives of the permissions that codex asks for.
type Part = conversation.Part

// PermissionWords describes each of some permissions, in codex's shape, in a few words.
func PermissionWords(raw json.RawMessage) []string { return conversation.PermissionWords(raw) }
