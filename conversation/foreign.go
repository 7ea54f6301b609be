package conversation

import (
	"encoding/json"
	"fmt"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// codex begins turns by itself. If the feature goals is on and a goal is active, codex
// begins a turn 12 to 17 ms after each turn's end, until the goal is complete or a turn is
// interrupted. It also begins a turn as soon as the thread is resumed (measured on 0.169).
// Such a turn has no user message.
//
// A turn belongs to a message only if codex says so: by its answer, or by the id of the
// user message in the turn. All other turns are foreign. A foreign turn has its own number
// and end, and settles no message. A message waits for its end, because codex would take it
// into the running turn. If codex does take a message that was already written into such a
// turn, it answers with that turn's id. Then the turn belongs to the message.

// anotherGrace is how long a pump waits after the end of a turn for the next one
// that codex may begin.
const anotherGrace = time.Second

// foreignBegins makes id the running turn, which belongs to no known message. codex
// may announce a message's turn before it answers (seen on 0.169 under load), so
// nothing is recorded yet.
func (t *turns) foreignBegins(id string) {
	t.begin(id, t.in.NextTurn)
	t.st.Foreign, t.st.Unsaid, t.st.Structured = true, true, false
}

// sayForeign records that codex began the running turn by itself, once for each turn. It is
// called when codex does something in the turn. If the turn belonged to a message, codex
// would have answered that message before.
func (t *turns) sayForeign() {
	if !t.st.Foreign || !t.st.Unsaid {
		return
	}
	t.st.Unsaid, t.st.Restless = false, true
	t.entry(protocol.Entry{Type: protocol.EntryState, Turn: t.st.Turn, Status: "begun", Text: fmt.Sprintf("codex began turn %d by itself", t.st.Turn),
		Data: map[string]string{"begun_by": "codex", "turn_id": t.st.TurnID}})
}

// turnOf makes id the turn of a message. That turn may be running already.
func (t *turns) turnOf(s *send, id string) {
	if id == "" {
		return
	}
	if t.st.TurnID != id {
		t.begin(id, s.Turn)
		return
	}
	if !t.st.Foreign {
		return
	}
	said := !t.st.Unsaid
	t.st.Foreign, t.st.Unsaid, t.st.Structured = false, false, t.delivery.structured(s.Turn)
	if s.Turn > 0 {
		t.st.Turn = s.Turn
	}
	if !said {
		return
	}
	t.entry(protocol.Entry{Type: protocol.EntryState, Turn: t.st.Turn, Text: fmt.Sprintf("codex took message %s into turn %d, which it had begun by itself", s.ID, t.st.Turn),
		Data: map[string]string{"message": s.ID, "turn_id": id}})
}

// endedBefore ends the turn of a message that an earlier codex process took. If a turn that
// this process began by itself is already running, that turn gets the next number.
func (t *turns) endedBefore(id, status string, n int) {
	switch status {
	case "completed", "interrupted", "failed":
	default:
		status = "unknown"
	}
	t.end, t.endedAt = &TurnEnd{N: n, ID: id, Status: status}, t.now
	if status == "failed" {
		t.end.Problem = problem(protocol.EndOther, "codex did not say why the turn failed")
	}
	t.st.Turn = n + 1
}

// ofNextTurn reports whether a line after the end of a turn is about another turn.
func (t *turns) ofNextTurn(msg *wire.Message) bool {
	switch {
	case msg.Method == "turn/started":
		return true
	case msg.Method == "turn/completed":
		return t.st.TurnID != ""
	case !msg.IsResponse():
		return false
	}
	id, ok := wire.StringID(msg.ID)
	if !ok {
		return false
	}
	if id, _, ok = sendOf(id); !ok {
		return false
	}
	if s := t.delivery.find(id); s != nil {
		return s.Kind == SendTurn && !s.settled()
	}
	var a wire.TurnAnswer // the answer to a message that another pump sent
	return json.Unmarshal(msg.Result, &a) == nil && a.Turn.ID != "" && a.Turn.ID != t.end.ID
}

// mayBeginAnother reports whether codex may be about to begin a turn by itself.
func (t *turns) mayBeginAnother() bool {
	return t.st.Restless && t.st.TurnID == "" && t.end.Status != "interrupted" && t.now-t.endedAt < anotherGrace
}

// foreignNews reports whether the workflow has yet to learn of a turn that codex
// began, and the turn is known to belong to no message.
func (t *turns) foreignNews() bool {
	if !t.st.Foreign || t.in.State.Foreign && t.in.State.TurnID == t.st.TurnID {
		return false
	}
	return !t.delivery.mayBegin()
}

// goalChanged handles a change of the thread's goal.
func (t *turns) goalChanged(method string, p json.RawMessage) {
	var n struct {
		wire.Notice
		Goal struct {
			Status string `json:"status"`
		} `json:"goal"`
	}
	if json.Unmarshal(p, &n) != nil || !t.st.ours(n.Notice) {
		return
	}
	t.st.Restless = method == "thread/goal/updated" && n.Goal.Status == "active"
}
