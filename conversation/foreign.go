package conversation

import (
	"encoding/json"
	"fmt"
	"time"
)

// codex begins turns by itself. With the feature goals and an active goal it begins
// one 12 to 17 ms after each turn's end, until the goal is complete or a turn is
// interrupted, and one as soon as the thread is resumed (measured on 0.169). Such a
// turn has no user message.
//
// A turn belongs to a message only if codex says so: by its answer, or by the id of
// the user message in the turn. All other turns are foreign. A foreign turn has its
// own number and end, and settles no message. A message waits for its end, because
// codex would take it into the running turn. If codex does take one that was on its
// way, it answers with that turn's id, and the turn is the message's.

// anotherGrace is how long a pump waits after the end of a turn for the next one
// that codex may begin.
const anotherGrace = time.Second

// foreignBegins makes id the running turn, which belongs to no known message. codex
// may announce a message's turn before it answers (seen on 0.169 under load), so
// nothing is recorded yet.
func (m *machine) foreignBegins(id string) {
	m.beginTurn(id, m.in.NextTurn)
	m.st.Foreign, m.st.Unsaid, m.st.Structured = true, true, false
}

// sayForeign records once that codex began the running turn by itself. It is called
// when codex does something in the turn: an answer that gives the turn to a message
// would have come before.
func (m *machine) sayForeign() {
	if !m.st.Foreign || !m.st.Unsaid {
		return
	}
	m.st.Unsaid, m.st.Restless = false, true
	m.entry(Entry{Type: EntryState, Turn: m.st.Turn, Status: "begun", Text: fmt.Sprintf("codex began turn %d by itself", m.st.Turn),
		Data: map[string]string{"begun_by": "codex", "turn_id": m.st.TurnID}})
}

// turnOf makes id the turn of a message. That turn may be running already.
func (m *machine) turnOf(s *send, id string) {
	if id == "" {
		return
	}
	if m.st.TurnID != id {
		m.beginTurn(id, s.Turn)
		return
	}
	if !m.st.Foreign {
		return
	}
	said := !m.st.Unsaid
	m.st.Foreign, m.st.Unsaid, m.st.Structured = false, false, m.delivery.structured(s.Turn)
	if s.Turn > 0 {
		m.st.Turn = s.Turn
	}
	if !said {
		return
	}
	m.entry(Entry{Type: EntryState, Turn: m.st.Turn, Text: fmt.Sprintf("codex took message %s into turn %d, which it had begun by itself", s.ID, m.st.Turn),
		Data: map[string]string{"message": s.ID, "turn_id": id}})
}

// endedBefore ends the turn of a message that an earlier process took. A turn that
// this process began by itself is running already and gets the next number.
func (m *machine) endedBefore(id, status string, n int) {
	switch status {
	case "completed", "interrupted", "failed":
	default:
		status = "unknown"
	}
	m.turnEnd, m.endedAt = &TurnEnd{N: n, ID: id, Status: status}, m.now
	if status == "failed" {
		m.turnEnd.Problem = problem(EndOther, "codex did not say why the turn failed")
	}
	m.st.Turn = n + 1
}

// ofNextTurn reports whether a line after the end of a turn is about another turn.
func (m *machine) ofNextTurn(msg *message) bool {
	switch {
	case msg.Method == "turn/started":
		return true
	case msg.Method == "turn/completed":
		return m.st.TurnID != ""
	case !msg.isResponse():
		return false
	}
	id, ok := stringID(msg.ID)
	if !ok {
		return false
	}
	if id, _, ok = sendOf(id); !ok {
		return false
	}
	if s := m.delivery.find(id); s != nil {
		return s.Kind == SendTurn && !s.settled()
	}
	var a turnAnswer // to a message of another pump
	return json.Unmarshal(msg.Result, &a) == nil && a.Turn.ID != "" && a.Turn.ID != m.turnEnd.ID
}

// mayBeginAnother reports whether codex may be about to begin a turn by itself.
func (m *machine) mayBeginAnother() bool {
	return m.st.Restless && m.st.TurnID == "" && m.turnEnd.Status != "interrupted" && m.now-m.endedAt < anotherGrace
}

// foreignNews reports whether the workflow has yet to learn of a turn that codex
// began, and the turn is known to belong to no message.
func (m *machine) foreignNews() bool {
	if !m.st.Foreign || m.in.State.Foreign && m.in.State.TurnID == m.st.TurnID {
		return false
	}
	return !m.delivery.mayBegin()
}

// goalChanged handles a change of the thread's goal.
func (m *machine) goalChanged(method string, p json.RawMessage) {
	var n struct {
		notice
		Goal struct {
			Status string `json:"status"`
		} `json:"goal"`
	}
	if json.Unmarshal(p, &n) != nil || !m.st.ours(n.notice) {
		return
	}
	m.st.Restless = method == "thread/goal/updated" && n.Goal.Status == "active"
}
