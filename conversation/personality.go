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
	return fmt.Errorf("personality %.100q is none of none, friendly, pragmatic", name)
}

// checkPersonality is called after initialize. A new thread is refused if codex
// would ignore its personality; a thread that continues on a newer codex gets a
// warning.
func (m *machine) checkPersonality() {
	name := m.in.Thread.Personality
	if name == "" || name == personalityNone || Has(m.st.CodexVersion, Personalities) {
		return
	}
	if method, _ := m.opens(); method != methodStart {
		m.warn("codex " + m.st.CodexVersion + " has no personalities any more: " + name + " changes nothing from here on")
		return
	}
	m.giveUp(Refused, problem("version", "codex "+m.st.CodexVersion+" takes the personality "+name+" and does nothing about it (no version from 0.169 on does); leave it out, or say how to speak in the instructions"))
}
