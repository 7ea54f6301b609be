package conversation

import (
	"fmt"
	"slices"
)

// PersonalityNames are the names that codex knows.
var PersonalityNames = []string{personalityNone, "friendly", "pragmatic"}

// personalityNone removes any personality from the model's instructions.
const personalityNone = "none"

// CheckPersonality refuses names that no codex knows.
func CheckPersonality(name string) error {
	if name == "" || slices.Contains(PersonalityNames, name) {
		return nil
	}
	return fmt.Errorf("unknown personality %.100q: use none, friendly or pragmatic", name)
}
