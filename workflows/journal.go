package workflows

import (
	"fmt"

	"fairlead.dev/fairlead/activities"
)

// Where a host can give back the space of a journal that was read, pumps see to
// it. Where it cannot, a journal ends with its process: a session whose journal
// has grown long begins a new one before its next turn.
const (
	longJournal = 64 << 20
	// hugeJournal is where commands that the agent left running in the
	// background are no reason to wait any more: they end with the process.
	hugeJournal = 4 * longJournal
)

// journalFull says that now is the moment: nothing runs and nothing is on its way.
func (s *session) journalFull() bool {
	p := s.st.Pump
	return s.st.Alive && s.canBegin() && p.Untrimmable && len(s.st.Sends) == 0 &&
		(p.Cursor.Offset > longJournal && len(p.Items) == 0 || p.Cursor.Offset > hugeJournal)
}

// renewJournal goes on with the thread in a new process.
func (s *session) renewJournal() {
	s.note(activities.Note{Type: "state", Text: fmt.Sprintf("the host cannot trim codex's journal of %d MB: the thread goes on in a new process", s.st.Pump.Cursor.Offset>>20)})
	if f := s.restart(); f != nil {
		s.cannotStart(f)
	}
}
