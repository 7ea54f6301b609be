package conversation

// A turn can be stuck although codex is alive: a tool has ended, and the model
// never goes on. Limits.Silence does not detect that, because codex answers.

// toolEnded starts the clock of Limits.Quiet, unless something else is running. If
// no item reports the end (codex has been seen to hide a command that the sandbox
// stopped), the token count after it shows it.
func (m *machine) toolEnded() {
	for _, it := range m.st.Items {
		if it.Turn == m.st.Turn && !it.Background && it.Thread == "" {
			return
		}
	}
	m.st.ToolEnded, m.quietAt = true, m.now
}

// words holds the item types that are text of the model or of people.
var words = map[string]bool{"userMessage": true, "agentMessage": true, "reasoning": true, "plan": true}

func (m *machine) itemEnded(kind string) {
	if m.modelSpoke(); !words[kind] {
		m.toolEnded()
	}
}

// stillTrying restarts the clock of Limits.Quiet.
func (m *machine) stillTrying() { m.quietAt = m.now }

const maxRetrying = 300

// retries keeps the reason for a turn that ends while codex still retries: codex
// has been seen to wait for its network without end.
func (m *machine) retries(why *Problem) {
	m.stillTrying()
	m.st.Retrying = excerpt(m.redact(why.Message), maxRetrying)
}

func (m *machine) modelSpoke() { m.st.ToolEnded, m.st.Retrying = false, "" }

// retried adds codex's retry to the text of a deadline.
func (m *machine) retried(text string) string {
	if m.st.Retrying == "" {
		return text
	}
	return text + "; codex was trying to reach its provider again: " + m.st.Retrying
}

// mayBeQuiet reports whether the model's silence counts. While a request is open,
// the model is not what the turn waits for.
func (m *machine) mayBeQuiet() bool {
	return m.lim.Quiet > 0 && m.st.TurnID != "" && m.st.ToolEnded && len(m.st.Open) == 0
}
