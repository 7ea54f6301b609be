package conversation

import "fmt"

// What a session has to tell its thread goes as one developer message into the
// thread's history, by thread/inject_items. Measured on 0.125 to 0.169: that
// begins no turn, asks no model and shows in no list of turns; the model has the
// message, once, in every turn from the next one on, also after a resume or a
// fork. On an idle thread it is in the rollout before codex answers (killed
// right behind the answer, 15 of 15 were there). The other ways are worse: what
// is injected into a running turn is lost with its process, answered or not;
// developerInstructions do nothing at thread/resume; additionalContext at
// turn/start is not known before 0.147, and comes again after each resume.

// sendTell is a send of the pump's own making: PumpInput.Tell on its way.
const sendTell SendKind = "tell"

type injectParams struct {
	ThreadID string        `json:"threadId"`
	Items    []messageItem `json:"items"`
}

// A messageItem is a message as the model's provider takes it.
type messageItem struct {
	Type    string      `json:"type"` // message
	Role    string      `json:"role"` // developer
	Content []textInput `json:"content"`
}

func (t *Tell) validate() error {
	if t != nil && (t.ID == "" || t.Text == "") {
		return fmt.Errorf("tell %q: it needs an id and a text", t.ID)
	}
	return nil
}

// takeTell puts what is to be told before all other sends. What another process
// may have had is not told again: no history of codex's says whether it had.
func (m *machine) takeTell() {
	t := m.in.Tell
	if t == nil {
		return
	}
	s := &send{Send: Send{ID: t.ID, Kind: sendTell, Text: t.Text, Incarnation: t.Incarnation}, state: Decided,
		uncertain: m.opt.Attempt > 1 || t.Incarnation > 0}
	m.sends = append(m.sends, s)
	if t.Incarnation == 0 || t.Incarnation == m.st.Cursor.Incarnation {
		return
	}
	s.settle(Void, "the process that may have been told is gone, and it is not told twice")
	m.emit(Entry{ID: "tell." + t.ID, At: m.at(), Turn: m.st.Turn, Type: EntryState, Status: "warning",
		Text: "codex may have been told this, or not; it is not told twice: " + t.Text, Data: map[string]string{"tell": t.ID}})
}

// tellWaits says that a message has to wait for the running turn's end: within
// a turn it would be lost if codex's process died.
func (m *machine) tellWaits(s *send) bool {
	return s.Kind == sendTell && !s.wrote && m.st.TurnID != ""
}

func (m *machine) sendTell(s *send) {
	m.ourRequest(s, methodInject, injectParams{ThreadID: m.st.ThreadID,
		Items: []messageItem{{Type: "message", Role: "developer", Content: []textInput{{Type: "input_text", Text: s.Text}}}}})
}

// told puts on record what codex has been told.
func (m *machine) told(s *send) {
	m.entry(Entry{Type: EntryState, Turn: m.st.Turn, Status: "told", Text: s.Text, Data: map[string]string{"tell": s.ID}})
}
