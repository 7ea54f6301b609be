package conversation

import (
	"fmt"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// A Tell goes into the thread's history as one developer message, by thread/inject_items.
// Measured on 0.125 to 0.169: that begins no turn, calls no model and appears in no list of
// turns. The model sees the message once in every turn from the next one on, even after a
// resume or a fork. On an idle thread it is in the rollout before codex answers (15 of 15
// when killed right after the answer). The alternatives are worse. A message that is
// injected into a running turn is lost if the process dies, even after codex has answered.
// developerInstructions have no effect at thread/resume. additionalContext at turn/start
// does not exist before 0.147 and comes again after each resume.

// sendTell is the kind of the send for PumpInput.Tell.
const sendTell SendKind = "tell"

type injectParams struct {
	ThreadID string        `json:"threadId"`
	Items    []messageItem `json:"items"`
}

// A messageItem is a message in the model provider's shape.
type messageItem struct {
	Type    string           `json:"type"` // message
	Role    string           `json:"role"` // developer
	Content []wire.TextInput `json:"content"`
}

func (t *Tell) validate() error {
	if t != nil && (t.ID == "" || t.Text == "") {
		return fmt.Errorf("tell %q: it needs an id and a text", t.ID)
	}
	return nil
}

// takeTell puts the Tell before all other sends. If another codex process may have received
// the Tell, the pump does not send it again, because codex's history does not show whether
// the process did.
func (d *delivery) takeTell() {
	t := d.in.Tell
	if t == nil {
		return
	}
	s := &send{Send: Send{ID: t.ID, Kind: sendTell, Text: t.Text, Incarnation: t.Incarnation}, state: protocol.Decided,
		uncertain: d.opt.Attempt > 1 || t.Incarnation > 0}
	d.sends = append(d.sends, s)
	if t.Incarnation == 0 || t.Incarnation == d.st.Cursor.Incarnation {
		return
	}
	s.settle(protocol.Void, "the process that may have been told is gone, and it is not told twice")
	d.emit(protocol.Entry{ID: "tell." + t.ID, At: d.at(), Turn: d.st.Turn, Type: protocol.EntryState, Status: "warning",
		Text: "codex may have been told this, or not; it is not told twice: " + t.Text, Data: map[string]string{"tell": t.ID}})
}

// tellWaits reports whether a Tell must wait for the end of the running turn. Inside a
// turn, the Tell would be lost if the codex process died.
func (d *delivery) tellWaits(s *send) bool {
	return s.Kind == sendTell && !s.wrote && d.st.TurnID != ""
}

func (d *delivery) sendTell(s *send) {
	d.ourRequest(s, wire.MethodInject, injectParams{ThreadID: d.st.ThreadID,
		Items: []messageItem{{Type: "message", Role: "developer", Content: []wire.TextInput{{Type: "input_text", Text: s.Text}}}}})
}

func (d *delivery) told(s *send) {
	d.entry(protocol.Entry{Type: protocol.EntryState, Turn: d.st.Turn, Status: "told", Text: s.Text, Data: map[string]string{"tell": s.ID}})
}
