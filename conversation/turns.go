package conversation

import (
	"encoding/json"
	"fmt"
	"strings"
)

// beginTurn makes id the running turn, number n of the session; 0 means the
// next one.
func (m *machine) beginTurn(id string, n int) {
	if id == "" || m.st.TurnID == id {
		return
	}
	if n == 0 {
		n = m.st.Turn + 1
	}
	m.st.TurnID, m.st.Turn, m.st.Inner = id, n, ""
	m.fault = nil
	m.st.TurnItems, m.st.TurnUsage, m.st.TurnStartedMS = 0, Usage{}, m.st.AtMS
	m.st.FinalText, m.st.FinalTruncated, m.st.DiffStat, m.st.Idle = "", false, "", false
	m.st.TurnEffects, m.st.Progress = false, nil
	m.st.FinalAt, m.st.Structured, m.st.Foreign, m.st.Unsaid = 0, m.delivery.structured(n), false, false
	m.quiet.modelSpoke()
	m.st.Budget, m.st.Spent.Over, m.st.Spent.CountedMS = "", "", 0
	m.st.Spent.Stopped, m.st.Interrupted, m.timeUp = false, false, false
	m.time.turnBegins()
	m.checkBudget()
}

func (m *machine) turnStarted(p json.RawMessage, at int64) {
	var n turnNotice
	if json.Unmarshal(p, &n) != nil {
		return
	}
	if !m.st.ours(notice{ThreadID: n.ThreadID}) {
		m.st.Restless = true // a sub-agent, which may wake its parent
		return
	}
	if at == 0 {
		at = n.Turn.StartedAt * 1000
		m.time.dated(at)
	}
	switch s := m.delivery.find(m.st.Begins); {
	case m.st.TurnID != "" || n.Turn.ID == "":
	case s != nil: // codex accepted it earlier and names its turn only here
		m.beginTurn(n.Turn.ID, s.Turn)
		s.settle(Acknowledged, "")
		m.st.Begins = ""
	default:
		m.foreignBegins(n.Turn.ID)
	}
	if n.Turn.ID != m.st.TurnID {
		m.st.Inner = n.Turn.ID
	}
	if n.Turn.ID == m.st.TurnID {
		m.st.Idle = false
		m.delivery.nowActive()
		if at > 0 {
			m.st.TurnStartedMS = at
		}
		m.time.counts(at)
	}
}

func (m *machine) turnCompleted(p json.RawMessage) {
	var n turnNotice
	if err := json.Unmarshal(p, &n); err != nil {
		m.log.Warn("unreadable turn/completed", "error", err)
		if m.st.TurnID != "" {
			m.endTurn("unknown", problem("protocol", "codex's word on the turn's end cannot be read"))
		}
		return
	}
	if m.st.TurnID == "" || n.Turn.ID != m.st.TurnID {
		// A sub-agent's turn: nobody answers its requests any more.
		m.dropOpen(func(o OpenRequest) bool { return o.TurnID != "" && o.TurnID == n.Turn.ID })
		return
	}
	m.time.dated(n.Turn.CompletedAt * 1000)
	var why *Problem
	if n.Turn.Error != nil {
		why = m.reset(classify(*n.Turn.Error))
	}
	m.endTurn(n.Turn.Status, why)
}

func (m *machine) turnAborted(p json.RawMessage) {
	var n turnNotice
	if json.Unmarshal(p, &n) != nil || m.st.TurnID == "" || !m.st.ours(notice{ThreadID: n.ThreadID}) {
		return
	}
	if id := orWord(n.TurnID, n.Turn.ID); id != "" && id != m.st.TurnID {
		return
	}
	m.endTurn("interrupted", nil)
}

// idleTurn ends a turn that codex no longer works on and never ended. A turn that
// could not begin, such as a review outside a repository, ends this way: codex
// reports the error and nothing else (measured on 0.125 and 0.169).
func (m *machine) idleTurn() {
	if m.fault != nil {
		m.endTurn("failed", m.fault)
		return
	}
	m.endTurn("unknown", problem("protocol", "codex calls the thread idle and never said how the turn ended"))
}

// endTurn ends the running turn, voids what waited for it and makes the pump
// return.
func (m *machine) endTurn(status string, why *Problem) {
	m.sayForeign()
	switch status {
	case "completed", "interrupted", "failed":
	default:
		status = "unknown"
	}
	if status == "failed" && why == nil {
		why = problem("other", "codex did not say why the turn failed")
	}
	if why == nil {
		why = m.overBudget(status)
	}
	why = m.opt.Redactor.problem(why)
	m.turnEnd = &TurnEnd{
		N: m.st.Turn, ID: m.st.TurnID, Status: status,
		FinalText: m.st.FinalText, FinalTruncated: m.st.FinalTruncated,
		Items: m.st.TurnItems, Usage: m.st.TurnUsage, DiffStat: m.st.DiffStat, Problem: why.excerpt(),
		FinalAt: m.st.FinalAt, Structured: m.st.Structured,
		Effects: m.st.TurnEffects, Foreign: m.st.Foreign, StartedAtMS: m.st.TurnStartedMS, EndedAtMS: m.st.AtMS,
	}
	m.endedAt = m.now
	if m.line.End > m.st.Cursor.Offset { // else no line reported the end
		m.items.recordUnfinished(status != "completed")
		e := Entry{Type: EntryState, Turn: m.st.Turn, Status: status, Text: "turn " + status}
		if why != nil {
			e.Text += ": " + why.Message
			e.set("problem", why.Kind)
		}
		m.entry(e)
	}
	m.delivery.settleAtEnd(status)
	m.st.TokenAsks = nil
	ended := m.st.TurnID
	m.dropOpen(func(o OpenRequest) bool { return o.TurnID == ended || o.TurnID == "" })
	m.st.dropCalls(func(c OpenCall) bool { return c.TurnID == ended || c.TurnID == "" })
	m.items.turnEnds()
	m.st.TurnID, m.st.TurnItems, m.st.TurnUsage, m.st.TurnStartedMS = "", 0, Usage{}, 0
	m.st.Inner = ""
	m.st.FinalText, m.st.FinalTruncated, m.st.DiffStat, m.st.Idle, m.st.Budget = "", false, "", false, ""
	m.st.Spent.Over, m.st.Spent.CountedMS, m.st.Spent.Stopped = "", 0, false
	m.st.FinalAt, m.st.Structured = 0, false
	m.st.TurnEffects, m.st.Foreign, m.st.Interrupted = false, false, false
	m.quiet.modelSpoke()
}

// diffStat counts a unified diff as git's --shortstat does.
func diffStat(diff string) string {
	files, added, removed := 0, 0, 0
	inHunk := false
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "diff --git "):
			files++
			inHunk = false
		case strings.HasPrefix(line, "@@"):
			inHunk = true
		case !inHunk:
		case strings.HasPrefix(line, "+"):
			added++
		case strings.HasPrefix(line, "-"):
			removed++
		}
	}
	if files == 0 {
		return ""
	}
	plural := func(n int, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprint(n, " ", many)
	}
	s := plural(files, "file changed", "files changed")
	if added > 0 {
		s += ", " + plural(added, "insertion(+)", "insertions(+)")
	}
	if removed > 0 {
		s += ", " + plural(removed, "deletion(-)", "deletions(-)")
	}
	return s
}

// usageUpdated handles a notification that comes once after each answer of the
// model. It has the thread's total and the newest part; an unchanged total marks a
// repetition.
func (m *machine) usageUpdated(p json.RawMessage) {
	var n usageNotice
	if json.Unmarshal(p, &n) != nil || !m.st.ours(n.notice) {
		return
	}
	total, last := n.Usage.Total.usage(), n.Usage.Last.usage()
	before := m.st.Total
	m.st.Total = total
	if w := n.Usage.Window; w > 0 {
		m.st.Context = &Context{Used: n.Usage.Last.All, Window: w}
	}
	if m.st.TurnID == "" || n.TurnID != m.st.TurnID {
		return
	}
	if total == before {
		return
	}
	part := Usage{total.Input - before.Input, total.Output - before.Output, total.Cached - before.Cached}
	if before == (Usage{}) || part.Input < 0 || part.Output < 0 || part.Cached < 0 {
		part = last
	}
	m.st.TurnUsage.add(part)
	m.st.Usage.add(part)
	m.tellUse()
	// codex counts an answer's tokens once the tools that it called have answered
	// (measured). The model does not wait for items that still run then.
	for i := range m.st.Items {
		m.st.Items[i].Background = true
	}
	m.quiet.toolEnded()
	m.checkBudget()
}

func (u *Usage) add(v Usage) {
	u.Input += v.Input
	u.Output += v.Output
	u.Cached += v.Cached
}

func (m *machine) statusChanged(p json.RawMessage) {
	var n statusNotice
	if json.Unmarshal(p, &n) != nil || !m.st.ours(notice{ThreadID: n.ThreadID}) || m.st.TurnID == "" {
		return
	}
	m.st.Idle = n.Status.Type != "active"
	m.idleAt = m.now
}

func (m *machine) threadClosed(p json.RawMessage) {
	var n notice
	if json.Unmarshal(p, &n) == nil && n.ThreadID == m.st.ThreadID && m.st.TurnID != "" {
		m.st.Idle, m.idleAt = true, m.now
	}
}

func (m *machine) errorNotice(p json.RawMessage) {
	var n errorNotice
	if json.Unmarshal(p, &n) != nil {
		return
	}
	why := classify(n.Error)
	e := Entry{Type: EntryError, Turn: m.st.Turn, Text: why.Message, Status: "failed"}
	if n.WillRetry {
		e.Status = "retrying"
		if m.st.ours(n.notice) && m.st.TurnID != "" {
			m.quiet.retries(why)
		}
	} else if m.st.ours(n.notice) && m.st.TurnID != "" && n.TurnID == m.st.TurnID {
		m.fault = why
	}
	e.set("problem", why.Kind)
	if !m.st.ours(n.notice) {
		e.set("thread", n.ThreadID)
	}
	m.entry(e)
}

func (m *machine) warning(p json.RawMessage) {
	var n warningNotice
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
		return // expected: hosts need not have their own
	}
	m.warn(text)
}
