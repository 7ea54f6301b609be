package conversation

import (
	"fmt"
	"slices"
)

// PersonalityNames are those that codex knows.
var PersonalityNames = []string{personalityNone, "friendly", "pragmatic"}

// personalityNone takes any personality out of what the model is told.
const personalityNone = "none"

// CheckPersonality refuses what no codex knows.
func CheckPersonality(name string) error {
	if name == "" || slices.Contains(PersonalityNames, name) {
		return nil
	}
	return fmt.Errorf("personality %.100q is none of none, friendly, pragmatic", name)
}

// checkPersonality is called once codex has introduced itself. A new thread is
// refused what it would not get; one that goes on on a newer codex goes on.
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
