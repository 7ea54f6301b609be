package conversation

import (
	"encoding/json"
	"strings"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// codex tells the model of an aborted turn by a user message of its own:
//
//	<turn_aborted>
//	The user interrupted the previous turn on purpose. …
//	</turn_aborted>
//
// From 0.125 to 0.169 the message is in the rollout and in what the model gets. On the wire it
// is neither an item nor part of a thread that is read (measured).

// abortMark returns what codex says in such a message. Text beside the element is a
// person's, so it makes the message another one.
func abortMark(it wire.Item) (said string, ok bool) {
	if it.Type != "userMessage" {
		return "", false
	}
	var parts []struct {
		Text string `json:"text"`
	}
	text := it.Text
	if json.Unmarshal(it.Content, &parts) == nil && len(parts) == 1 {
		text = parts[0].Text
	}
	said, ok = strings.CutPrefix(strings.TrimSpace(text), "<turn_aborted>")
	if ok {
		said, ok = strings.CutSuffix(said, "</turn_aborted>")
	}
	return strings.TrimSpace(said), ok
}

// abortMarked reports whether codex itself wrote the message of a finished item, to say
// that a turn was aborted. A message of ours has its id, but not in old versions: there it is
// the first item of its turn, or a steer.
func (t *turns) abortMarked(n wire.ItemNotice) (said string, ok bool) {
	said, ok = abortMark(n.Item)
	if !ok || n.Item.ClientID != "" {
		return "", false
	}
	if !wire.Has(t.st.CodexVersion, wire.ClientIDs) && t.st.ours(n.Notice) && (t.st.TurnItems == 0 || t.delivery.says(userText(n.Item.Content))) {
		return "", false
	}
	return said, true
}

// abortRead records the mark, and ends the running turn if the mark is in it.
func (t *turns) abortRead(n wire.ItemNotice, said string) {
	e := protocol.Entry{Type: protocol.EntryState, Turn: t.st.Turn, Item: n.Item.ID, Status: "aborted", Text: "codex marked the turn as aborted"}
	if said != "" {
		e.Text += ": " + said
	}
	t.ofThread(&e, n.ThreadID)
	t.entry(e)
	if t.st.ours(n.Notice) && t.st.TurnID != "" && (n.TurnID == "" || n.TurnID == t.st.TurnID) {
		t.endTurn("interrupted", nil)
	}
}

// says reports whether a message of this text is among those for codex.
func (d *delivery) says(text string) bool {
	for _, s := range d.sends {
		if (s.Kind == SendTurn || s.Kind == SendSteer) && strings.TrimSpace(s.Text) == strings.TrimSpace(text) {
			return true
		}
	}
	return false
}
