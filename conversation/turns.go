package conversation

import (
	"encoding/json"
	"strings"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// The turns part follows the thread's turns. It owns the fields of the state about the
// running turn, and Foreign, Unsaid, Restless and Idle. It may call the delivery, the
// requests, the spending, the turn's time, the quiet, the items, the
// noticed and the calls.
type turns struct {
	*core
	items    *items
	quiet    *quiet
	time     *turnTime
	delivery *delivery
	requests *requests
	calls    *calls
	spending *spending
	noticed  *noticed

	end     *TurnEnd // of the turn that has ended in this pump
	endedAt time.Duration
	fault   *protocol.Problem // codex's last report on the turn, if an error
	idleAt  time.Duration     // when codex last said whether it works on the turn
	diff    *protocol.TurnDiff
}

// begin makes id the running turn, number n; 0 means the next number.
func (t *turns) begin(id string, n int) {
	if id == "" || t.st.TurnID == id {
		return
	}
	if n == 0 {
		n = t.st.Turn + 1
	}
	t.st.TurnID, t.st.Turn, t.st.Inner = id, n, ""
	t.fault = nil
	t.st.TurnItems, t.st.TurnUsage, t.st.TurnStartedMS = 0, protocol.Usage{}, t.st.AtMS
	t.st.FinalText, t.st.FinalTruncated, t.st.DiffStat, t.st.Idle = "", false, "", false
	t.st.TurnEffects, t.st.Progress, t.st.Finish = false, nil, nil
	t.st.TurnTools, t.st.Touched = 0, nil
	t.st.FinalAt, t.st.Structured, t.st.Foreign, t.st.Unsaid = 0, t.delivery.structured(n), false, false
	t.quiet.modelSpoke()
	t.delivery.turnBegins()
	t.noticed.turnBegins()
	t.spending.clear()
	t.time.turnBegins()
	t.spending.check()
}

func (t *turns) started(p json.RawMessage, at int64) {
	var n wire.TurnNotice
	if json.Unmarshal(p, &n) != nil {
		return
	}
	if !t.st.ours(wire.Notice{ThreadID: n.ThreadID}) {
		t.st.Restless = true // a sub-agent, which may wake its parent
		return
	}
	if at == 0 {
		at = n.Turn.StartedAt * 1000
		t.time.dated(at)
	}
	switch s := t.delivery.find(t.st.Begins); {
	case t.st.TurnID != "" || n.Turn.ID == "":
	case s != nil: // accepted earlier and named only here
		t.begin(n.Turn.ID, s.Turn)
		t.delivery.named(s)
	default:
		t.foreignBegins(n.Turn.ID)
	}
	if n.Turn.ID != t.st.TurnID {
		t.st.Inner = n.Turn.ID
	}
	if n.Turn.ID == t.st.TurnID {
		t.st.Idle = false
		t.delivery.nowActive()
		if at > 0 {
			t.st.TurnStartedMS = at
		}
		t.time.counts(at)
	}
}

func (t *turns) completed(p json.RawMessage) {
	var n wire.TurnNotice
	if err := json.Unmarshal(p, &n); err != nil {
		t.log.Warn("unreadable turn/completed", "error", err)
		if t.st.TurnID != "" {
			t.endTurn("unknown", problem("protocol", "codex's word on the turn's end cannot be read"))
		}
		return
	}
	if t.st.TurnID == "" || n.Turn.ID != t.st.TurnID {
		// Nobody answers the requests of a sub-agent's ended turn.
		t.requests.drop(func(o OpenRequest) bool { return o.TurnID != "" && o.TurnID == n.Turn.ID })
		return
	}
	t.time.dated(n.Turn.CompletedAt * 1000)
	var why *protocol.Problem
	if n.Turn.Error != nil {
		why = t.reset(classify(*n.Turn.Error))
	}
	t.endTurn(n.Turn.Status, why)
}

// endedUnclearly ends the running turn if the line is about its end.
func (t *turns) endedUnclearly(p json.RawMessage, why *protocol.Problem) {
	var n wire.TurnNotice
	if json.Unmarshal(p, &n) == nil && t.st.TurnID != "" && n.Turn.ID == t.st.TurnID {
		t.endTurn("unknown", why)
	}
}

func (t *turns) aborted(p json.RawMessage) {
	var n wire.TurnNotice
	if json.Unmarshal(p, &n) != nil || t.st.TurnID == "" || !t.st.ours(wire.Notice{ThreadID: n.ThreadID}) {
		return
	}
	if id := orWord(n.TurnID, n.Turn.ID); id != "" && id != t.st.TurnID {
		return
	}
	t.endTurn("interrupted", nil)
}

// idle ends a turn whose end codex never reported. A turn that could not begin, such as a
// review outside a repository, ends this way: codex reports only the error (measured on
// 0.125 and 0.169).
func (t *turns) idle() {
	if t.fault != nil {
		t.endTurn("failed", t.fault)
		return
	}
	t.endTurn("unknown", problem("protocol", "codex reports the thread idle, but did not report how the turn ended"))
}

// endTurn ends the running turn and settles its sends.
func (t *turns) endTurn(status string, why *protocol.Problem) {
	t.sayForeign()
	switch status {
	case "completed", "interrupted", "failed":
	default:
		status = "unknown"
	}
	if status == "failed" && why == nil {
		why = problem("other", "codex did not say why the turn failed")
	}
	if why == nil {
		why = t.spending.exceeded(status)
	}
	why = t.opt.Redactor.problem(why)
	if status != "completed" {
		t.keepBroken()
	}
	t.end = &TurnEnd{
		N: t.st.Turn, ID: t.st.TurnID, Status: status,
		FinalText: t.st.FinalText, FinalTruncated: t.st.FinalTruncated,
		Items: t.st.TurnItems, Usage: t.st.TurnUsage, DiffStat: t.st.DiffStat, Problem: cutProblem(why),
		FinalAt: t.st.FinalAt, Structured: t.st.Structured, Tools: t.st.TurnTools, Touched: t.st.Touched,
		Effects: t.st.TurnEffects, Foreign: t.st.Foreign, StartedAtMS: t.st.TurnStartedMS, EndedAtMS: t.st.AtMS,
	}
	t.declared(t.end)
	status, why = t.end.Status, orProblem(why, t.end.Problem)
	t.endedAt = t.now
	if t.line.End > t.st.Cursor.Offset { // otherwise no line reported the end
		t.items.recordUnfinished(status != "completed")
		t.noticed.turnEnds()
		e := protocol.Entry{Type: protocol.EntryState, Turn: t.st.Turn, Status: status, Text: "turn " + status}
		if why != nil {
			e.Text += ": " + why.Message
			setData(&e, "problem", why.Kind)
		}
		t.entry(e)
	}
	t.delivery.settleAtEnd(status)
	t.st.TokenAsks = nil
	ended := t.st.TurnID
	t.requests.drop(func(o OpenRequest) bool { return o.TurnID == ended || o.TurnID == "" })
	t.st.dropCalls(func(c OpenCall) bool { return c.TurnID == ended || c.TurnID == "" })
	t.items.turnEnds()
	t.st.TurnID, t.st.TurnItems, t.st.TurnUsage, t.st.TurnStartedMS = "", 0, protocol.Usage{}, 0
	t.st.TurnTools, t.st.Touched = 0, nil
	t.st.Inner = ""
	t.st.FinalText, t.st.FinalTruncated, t.st.DiffStat, t.st.Idle = "", false, "", false
	t.spending.clear()
	t.time.turnEnds()
	t.st.FinalAt, t.st.Structured = 0, false
	t.st.TurnEffects, t.st.Foreign, t.st.Finish = false, false, nil
	t.quiet.modelSpoke()
}

// keepBroken adds the messages that were not finished to what the turn said.
func (t *turns) keepBroken() {
	for i := range t.st.Items {
		if it := &t.st.Items[i]; it.Type == "agentMessage" && it.Thread == "" && it.Turn == t.st.Turn && it.Pos > 0 {
			text, _ := t.items.said(it)
			t.addFinal(text)
		}
	}
}

func (t *turns) statusChanged(p json.RawMessage) {
	var n wire.StatusNotice
	if json.Unmarshal(p, &n) != nil || !t.st.ours(wire.Notice{ThreadID: n.ThreadID}) || t.st.TurnID == "" {
		return
	}
	t.st.Idle = n.Status.Type != "active"
	t.idleAt = t.now
}

func (t *turns) threadClosed(p json.RawMessage) {
	var n wire.Notice
	if json.Unmarshal(p, &n) == nil && n.ThreadID == t.st.ThreadID && t.st.TurnID != "" {
		t.st.Idle, t.idleAt = true, t.now
	}
}

func (t *turns) errorNotice(p json.RawMessage) {
	var n wire.ErrorNotice
	if json.Unmarshal(p, &n) != nil {
		return
	}
	why := classify(n.Error)
	e := protocol.Entry{Type: protocol.EntryError, Turn: t.st.Turn, Text: why.Message, Status: "failed"}
	if n.WillRetry {
		e.Status = "retrying"
		if t.st.ours(n.Notice) && t.st.TurnID != "" {
			t.quiet.retries(why)
		}
	} else if t.st.ours(n.Notice) && t.st.TurnID != "" && n.TurnID == t.st.TurnID {
		t.fault = why
	}
	setData(&e, "problem", why.Kind)
	t.ofThread(&e, n.ThreadID)
	t.entry(e)
}

func (t *turns) warning(p json.RawMessage) {
	var n wire.WarningNotice
	if json.Unmarshal(p, &n) != nil {
		return
	}
	text := n.Message
	if text == "" {
		text = n.Summary
	}
	if n.Details != "" {
		text += ": " + n.Details
	}
	if strings.Contains(text, "will use the bundled bubblewrap") {
		return // expected: hosts need not have their own bubblewrap
	}
	t.warnOf(n.ThreadID, text)
}

func (t *turns) wake(soon func(time.Duration)) {
	if t.end != nil {
		soon(t.endedAt + anotherGrace)
		soon(t.endedAt + cleanGrace)
	}
}
