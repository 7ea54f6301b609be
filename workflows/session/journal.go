package session

import (
	"fmt"

	"fairlead.dev/fairlead/conversation"
)

// Pumps trim the read part of a journal if the host can do this. On other hosts, a session
// with a long journal starts codex again before its next turn, because a new process has a
// new journal.
const (
	LongJournal = 64 << 20
	// hugeJournal is the length from which the session does not wait for commands that the
	// agent left running in the background. They end with the process.
	hugeJournal = 4 * LongJournal
)

// journalFull reports whether to renew the journal before the next turn.
func (s *processPart) journalFull() bool {
	p := s.st.Pump
	return s.st.Alive && s.turns.canBegin() && p.Untrimmable && len(s.st.Sends) == 0 &&
		(p.Cursor.Offset > LongJournal && len(p.Items) == 0 || p.Cursor.Offset > hugeJournal)
}

func (s *processPart) renewJournal() {
	s.note(conversation.Note{Type: "state", Text: fmt.Sprintf("the host cannot trim codex's journal of %d MB: the thread goes on in a new process", s.st.Pump.Cursor.Offset>>20)})
	if f, _ := s.restart(); f != nil {
		s.cannotStart(f)
	}
}
