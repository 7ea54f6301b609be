package conversation

// A turn can stand still although codex lives: a tool has ended, and the model
// never goes on. Silence does not show that, since codex answers.

// toolEnded begins to count, unless something else is at work. An end that no
// item tells of (codex has been seen to hide a command that the sandbox
// stopped) shows by the tokens, which are counted behind it.
func (m *machine) toolEnded() {
	for _, it := range m.st.Items {
		if it.Turn == m.st.Turn && !it.Background && it.Thread == "" {
			return
		}
	}
	m.st.ToolEnded, m.quietAt = true, m.now
}

// words are the items that the model says, or people.
var words = map[string]bool{"userMessage": true, "agentMessage": true, "reasoning": true, "plan": true}

// itemEnded takes an item of the running turn.
func (m *machine) itemEnded(kind string) {
	if m.modelSpoke(); !words[kind] {
		m.toolEnded()
	}
}

// stillTrying is a word of codex's that it is waiting for the model.
func (m *machine) stillTrying() { m.quietAt = m.now }

// maxRetrying bounds what is kept of why codex tries again.
const maxRetrying = 300

// retries keeps why, for whoever ends a turn that goes on like this: codex has
// been seen to wait for its network without end.
func (m *machine) retries(why *Problem) {
	m.stillTrying()
	m.st.Retrying = excerpt(m.redact(why.Message), maxRetrying)
}

// modelSpoke ends both.
func (m *machine) modelSpoke() { m.st.ToolEnded, m.st.Retrying = false, "" }

// retried adds to a deadline what codex was at.
func (m *machine) retried(text string) string {
	if m.st.Retrying == "" {
		return text
	}
	return text + "; codex was trying to reach its provider again: " + m.st.Retrying
}

// mayBeQuiet says that time counts in which the model says nothing. While
// something is asked, it is not the model that is waited for.
func (m *machine) mayBeQuiet() bool {
	return m.lim.Quiet > 0 && m.st.TurnID != "" && m.st.ToolEnded && len(m.st.Open) == 0
}
