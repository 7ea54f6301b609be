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

// Verify reports whether what is shown of a request gives its digest, and makes anew what is
// shown beside that. Programs that let people approve what they saw must call it.
func Verify(r *protocol.Request) error { return conversation.Verify(r) }

// ChangePaths returns the path of each change as people are shown it.
func ChangePaths(r *protocol.Request) []string { return conversation.ChangePaths(r) }

// PermissionWords describes each permission in raw, which has codex's form, in a few words.
func PermissionWords(raw json.RawMessage) []string { return conversation.PermissionWords(raw) }
