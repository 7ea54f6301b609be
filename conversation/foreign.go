package conversation

import (
	"encoding/json"
	"fmt"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// With an active goal, codex begins turns by itself, without a user message: 12 to 17 ms
// after each turn's end, until the goal is complete or a turn is interrupted, and when the
// thread is resumed (measured on 0.169).
//
// A turn belongs to a message only if codex says so: by its answer, or by the id of the
// user message in the turn. All other turns are foreign. A foreign turn has its own number
// and end, and settles no message. A message waits for its end, because codex would take it
// into the running turn. If codex takes an already written message into such a turn, it
// answers with that turn's id, and the turn belongs to the message.

// anotherGrace is how long a pump waits after a turn's end: for codex to begin another turn, or to
// say what became of the MCP servers that it has begun to start.
const anotherGrace = time.Second

// foreignBegins makes id the running turn. It records nothing yet: codex may announce a
// message's turn before it answers (seen on 0.169 under load).
func (t *turns) foreignBegins(id string) {
	t.begin(id, t.in.NextTurn)
	t.st.Foreign, t.st.Unsaid, t.st.Structured = true, true, false
}

// sayForeign records once for each turn that codex began it by itself. It is called when
// codex does something in the turn: by then codex would have answered a message.
func (t *turns) sayForeign() {
	if !t.st.Foreign || !t.st.Unsaid {
		return
	}
	t.st.Unsaid, t.st.Restless = false, true
	t.entry(protocol.Entry{Type: protocol.EntryState, Turn: t.st.Turn, Status: "begun", Text: fmt.Sprintf("codex began turn %d by itself", t.st.Turn),
		Data: map[string]string{"begun_by": "codex", "turn_id": t.st.TurnID}})
}

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

// endedBefore ends the turn of a message that an earlier process took. A turn already begun
// by this process gets the next number.
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
	var a wire.TurnAnswer // the answer to a message of another pump
	return json.Unmarshal(msg.Result, &a) == nil && a.Turn.ID != "" && a.Turn.ID != t.end.ID
}

func (t *turns) mayBeginAnother() bool {
	return t.st.Restless && t.st.TurnID == "" && t.end.Status != "interrupted" && t.now-t.endedAt < anotherGrace
}

// awaitsServers reports whether codex may be about to say that an MCP server has failed.
// Otherwise nobody reads that before the next turn.
func (t *turns) awaitsServers() bool {
	return len(t.noticed.starting) > 0 && t.now-t.endedAt < anotherGrace
}

// foreignNews reports whether the workflow has yet to learn of a turn that certainly
// belongs to no message.
func (t *turns) foreignNews() bool {
	if !t.st.Foreign || t.in.State.Foreign && t.in.State.TurnID == t.st.TurnID {
		return false
	}
	return !t.delivery.mayBegin()
}

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
