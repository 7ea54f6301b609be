package activities

import (
	"encoding/json"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// CheckAnswers checks that answers fit the questions, and returns them in codex's form.
func CheckAnswers(questions []protocol.Question, answers map[string][]string) (map[string][]string, error) {
	return conversation.CheckAnswers(questions, answers)
}

// Within returns an error if a grant exceeds what was asked for.
func Within(grant, asked json.RawMessage) error { return conversation.Within(grant, asked) }

// Part is the part of the asked permissions that a person grants.
type Part = conversation.Part

// PermissionWords describes each permission in raw, which has codex's form, in a few words.
func PermissionWords(raw json.RawMessage) []string { return conversation.PermissionWords(raw) }
