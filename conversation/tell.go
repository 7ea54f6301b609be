package conversation

import (
	"fmt"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// A Tell is one developer message in the thread's history, by thread/inject_items. Measured
// on 0.125 to 0.169: that begins no turn, calls no model and appears in no list of turns.
// The model sees the message once in every turn from the next one on, even after a resume
// or a fork. On an idle thread it is in the rollout before codex answers (15 of 15 when
// killed right after the answer).
//
// Injected into a running turn, the message is lost if the process dies, even after codex's
// answer. developerInstructions have no effect at thread/resume. additionalContext at
// turn/start does not exist before 0.147 and comes again after each resume.

const sendTell SendKind = "tell"

type injectParams struct {
	ThreadID string        `json:"threadId"`
	Items    []messageItem `json:"items"`
}

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

// takeTell puts the Tell first. If another process may have it, it is not sent again,
// because codex's history does not show it.
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
	s.settle(protocol.Void, "the codex process that may have received this message is gone; the message is not sent again, so that codex does not get it twice")
	d.emit(protocol.Entry{ID: "tell." + t.ID, At: d.at(), Turn: d.st.Turn, Type: protocol.EntryState, Status: "warning",
		Text: "codex may have received this message, or not; it is not sent again: " + t.Text, Data: map[string]string{"tell": t.ID}})
}

// tellWaits reports whether a Tell waits for the running turn's end.
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
