package workflows

import (
	"fmt"

	"fairlead.dev/fairlead/conversation"
)

// If a host can free the space of a journal that was read, pumps do so. If not, the journal ends
// with its process: a session with a long journal begins a new process before its next turn.
const (
	longJournal = 64 << 20
	// At hugeJournal the session no longer waits for commands that the agent left running in the
	// background: they end with the process.
	hugeJournal = 4 * longJournal
)

// journalFull reports whether to renew the journal now, when nothing runs or is on its way.
func (s *processPart) journalFull() bool {
	p := s.st.Pump
	return s.st.Alive && s.turns.canBegin() && p.Untrimmable && len(s.st.Sends) == 0 &&
		(p.Cursor.Offset > longJournal && len(p.Items) == 0 || p.Cursor.Offset > hugeJournal)
}

func (s *processPart) renewJournal() {
	s.note(conversation.Note{Type: "state", Text: fmt.Sprintf("the host cannot trim codex's journal of %d MB: the thread goes on in a new process", s.st.Pump.Cursor.Offset>>20)})
	if f, _ := s.restart(); f != nil {
		s.cannotStart(f)
	}
}
