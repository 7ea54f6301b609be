package conversation

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// Bounds on the entries that one turn's reports make. What is over a bound is counted, and
// the count is on record at the turn's end. Of plans, the newest is on record there, too.
const (
	maxPlans        = 20
	maxServerNews   = 40
	maxToolReports  = 60 // and each call records only its reports 1, 2, 4, 8 …, and the last
	maxQuietHooks   = 10 // that completed and said nothing
	maxHooks        = 50 // all others
	maxReroutes     = 10
	maxContextNews  = 20
	maxNoticeText   = 4000
	maxNoticeWord   = 200
	maxServerName   = 100
	maxServerError  = 200
	maxReportText   = 200
	maxHookMessages = 10
)

// contextMarks are the percentages of the context window whose passing is on record.
var contextMarks = []int64{25, 50, 75, 90, 95}

// Noticed is what a pump knows of codex's reports beside the items.
type Noticed struct {
	// Newest is replaced and never changed. A new turn begins without plan and reroute.
	Newest *protocol.Notices `json:"newest,omitempty"`
	// Late says that no entry has the newest plan yet.
	Late bool `json:"late,omitempty"`
	// Servers are the newest states of MCP servers that are on record.
	Servers []protocol.MCPServer `json:"servers,omitempty"`
	// Mark is the highest of contextMarks that the thread has passed.
	Mark int64 `json:"mark,omitempty"`
	// The others count what came in this turn.
	Plans       int `json:"plans,omitempty"`
	ServerNews  int `json:"server_news,omitempty"`
	ToolReports int `json:"tool_reports,omitempty"`
	QuietHooks  int `json:"quiet_hooks,omitempty"`
	Hooks       int `json:"hooks,omitempty"`
	Reroutes    int `json:"reroutes,omitempty"`
	ContextNews int `json:"context_news,omitempty"`
}

// The noticed part records plans, MCP servers, progress of MCP tools, hooks, reroutes and
// the use of the context. It owns Notices of the state, and Reports and Report of its items.
// It may call the items.
type noticed struct {
	*core
	items *items
	// starting are the MCP servers of the session's thread whose start this pump has read,
	// and not yet what became of it.
	starting []string
}

// told sets the newest notices to a changed copy.
func (n *noticed) told(change func(*protocol.Notices)) {
	var now protocol.Notices
	if was := n.st.Notices.Newest; was != nil {
		now = *was
	}
	change(&now)
	n.st.Notices.Newest = &now
	if now.Plan == nil && now.Rerouted == nil && len(now.MCPServers) == 0 {
		n.st.Notices.Newest = nil
	}
}

// oneMore counts and reports whether the count is within its bound.
func oneMore(count *int, bound int) bool {
	*count++
	return *count <= bound
}

// report makes an entry, which names the thread if that is a sub-agent's.
func (n *noticed) report(of wire.Notice, e protocol.Entry) {
	e.Turn = n.st.Turn
	n.ofThread(&e, of.ThreadID)
	n.entry(e)
}

func (n *noticed) planUpdated(p json.RawMessage) {
	var in struct {
		wire.Notice
		Explanation string `json:"explanation"`
		Plan        []struct {
			Step   string `json:"step"`
			Status string `json:"status"`
		} `json:"plan"`
	}
	if json.Unmarshal(p, &in) != nil {
		return
	}
	plan := &protocol.Plan{Turn: n.st.Turn, Explanation: n.cut(in.Explanation, protocol.MaxPlanText), Steps: []protocol.PlanStep{}}
	for i, s := range in.Plan {
		if i == protocol.MaxPlanSteps {
			plan.More = len(in.Plan) - i
			break
		}
		plan.Steps = append(plan.Steps, protocol.PlanStep{Text: n.cut(s.Step, protocol.MaxPlanStep), Status: n.cut(s.Status, maxNoticeWord)})
	}
	if !n.st.ours(in.Notice) {
		if oneMore(&n.st.Notices.Plans, maxPlans) {
			n.report(in.Notice, planEntry(plan))
		}
		return
	}
	if was := n.st.Notices.Newest; was != nil && reflect.DeepEqual(was.Plan, plan) {
		return
	}
	n.told(func(now *protocol.Notices) { now.Plan = plan })
	n.st.Notices.Late = !oneMore(&n.st.Notices.Plans, maxPlans)
	if !n.st.Notices.Late {
		n.report(in.Notice, planEntry(plan))
	}
}

func planEntry(p *protocol.Plan) protocol.Entry {
	e := protocol.Entry{Type: protocol.EntryPlan, Text: p.String(), Plan: p.Steps}
	setData(&e, "count", p.Count())
	if p.More > 0 {
		setData(&e, "more", strconv.Itoa(p.More))
	}
	return e
}

// serverStatus records what becomes of the start of an MCP server, once for each change. A
// sub-agent starts the servers again: a server that is ready is then not recorded.
func (n *noticed) serverStatus(p json.RawMessage) {
	var in struct {
		wire.Notice
		Name   string `json:"name"`
		Status string `json:"status"`
		Error  string `json:"error"`
		Reason string `json:"failureReason"`
	}
	if json.Unmarshal(p, &in) != nil || in.Name == "" {
		return
	}
	s := protocol.MCPServer{Name: n.cut(in.Name, maxServerName), Status: n.cut(in.Status, maxServerName), Error: n.cut(in.Error, maxServerError)}
	if n.st.ours(in.Notice) {
		n.told(func(now *protocol.Notices) { now.MCPServers = withServer(now.MCPServers, s) })
		n.starts(s)
	}
	if s.Status == "starting" || slices.Contains(n.st.Notices.Servers, s) || s.Status == "ready" && !n.st.ours(in.Notice) {
		return
	}
	n.st.Notices.Servers = withServer(n.st.Notices.Servers, s)
	if !oneMore(&n.st.Notices.ServerNews, maxServerNews) {
		return
	}
	e := protocol.Entry{Type: protocol.EntryMCPServer, Status: s.Status, Text: "MCP server " + s.Name + " is " + s.Status}
	switch {
	case s.Status == "failed":
		e.Text = "MCP server " + s.Name + " failed to start"
	case s.Status == "cancelled":
		e.Text = "the start of MCP server " + s.Name + " was cancelled"
	}
	if in.Error != "" {
		e.Text += ": " + n.cut(in.Error, maxNoticeText)
	}
	setData(&e, "server", s.Name)
	setData(&e, "reason", n.cut(in.Reason, maxNoticeWord))
	n.report(in.Notice, e)
}

func (n *noticed) starts(s protocol.MCPServer) {
	n.starting = slices.DeleteFunc(n.starting, func(name string) bool { return name == s.Name })
	if s.Status == "starting" && len(n.starting) < protocol.MaxMCPServers {
		n.starting = append(n.starting, s.Name)
	}
}

// withServer returns a list with s, without its older state and without the oldest over the
// bound.
func withServer(all []protocol.MCPServer, s protocol.MCPServer) []protocol.MCPServer {
	var now []protocol.MCPServer
	at := slices.IndexFunc(all, func(o protocol.MCPServer) bool { return o.Name == s.Name })
	now = append(now, all...)
	if at >= 0 {
		now[at] = s
		return now
	}
	now = append(now, s)
	return now[max(0, len(now)-protocol.MaxMCPServers):]
}

// toolProgress passes each report of an MCP tool on to viewers, and records the first, the
// second, the fourth and so on. The tool's end records the last.
func (n *noticed) toolProgress(p json.RawMessage) {
	var in struct {
		wire.Notice
		Message string `json:"message"`
	}
	if json.Unmarshal(p, &in) != nil || in.Message == "" {
		return
	}
	it := n.st.openItem(n.st.keyOf(in.ThreadID, in.ItemID))
	if it == nil || it.Type != "mcpToolCall" {
		return
	}
	if at, text := n.items.show(it, in.Message+"\n"); text != "" {
		n.sink.Delta(protocol.Delta{Item: it.ID, Type: protocol.EntryToolProgress, Turn: it.Turn, At: at, Text: text, Agent: n.st.agentOf(it.Thread)})
	}
	it.Reports++
	it.Report = n.cut(in.Message, maxReportText)
	if it.Reports&(it.Reports-1) == 0 && oneMore(&n.st.Notices.ToolReports, maxToolReports) {
		n.recordReport(it)
	}
}

// toolEnds records the last report of a call that ends.
func (n *noticed) toolEnds(it *OpenItem) {
	if it.Report != "" {
		n.recordReport(it)
	}
}

func (n *noticed) recordReport(it *OpenItem) {
	e := protocol.Entry{Type: protocol.EntryToolProgress, Turn: it.Turn, Item: it.ID, Text: it.Report}
	setData(&e, "report", strconv.Itoa(it.Reports))
	setData(&e, "thread", it.Thread)
	it.Report = ""
	n.entry(e)
}

func (n *noticed) hookCompleted(p json.RawMessage) {
	var in struct {
		wire.Notice
		Run struct {
			Event   string `json:"eventName"`
			Handler string `json:"handlerType"`
			Path    string `json:"sourcePath"`
			Source  string `json:"source"`
			Status  string `json:"status"`
			TookMS  int64  `json:"durationMs"`
			Entries []struct {
				Kind string `json:"kind"`
				Text string `json:"text"`
			} `json:"entries"`
		} `json:"run"`
	}
	if json.Unmarshal(p, &in) != nil || in.Run.Event == "" {
		return
	}
	run := in.Run
	if run.Status == "completed" && len(run.Entries) == 0 {
		if !oneMore(&n.st.Notices.QuietHooks, maxQuietHooks) {
			return
		}
	} else if !oneMore(&n.st.Notices.Hooks, maxHooks) {
		return
	}
	e := protocol.Entry{Type: protocol.EntryHook, Status: n.cut(run.Status, maxNoticeWord)}
	text := []string{fmt.Sprintf("hook %s %s", n.cut(run.Event, maxNoticeWord), e.Status)}
	for i, one := range run.Entries {
		if i == maxHookMessages {
			text = append(text, fmt.Sprintf("and %d messages more", len(run.Entries)-i))
			break
		}
		text = append(text, n.cut(one.Kind, maxNoticeWord)+": "+n.cut(one.Text, maxNoticeText))
	}
	e.Text = strings.Join(text, "\n")
	setData(&e, "event", n.cut(run.Event, maxNoticeWord))
	setData(&e, "handler", n.cut(run.Handler, maxNoticeWord))
	setData(&e, "path", n.cut(run.Path, maxNoticeText))
	setData(&e, "source", n.cut(run.Source, maxNoticeWord))
	n.report(in.Notice, e)
}

func (n *noticed) rerouted(p json.RawMessage) {
	var in struct {
		wire.Notice
		From   string `json:"fromModel"`
		To     string `json:"toModel"`
		Reason string `json:"reason"`
	}
	if json.Unmarshal(p, &in) != nil || in.To == "" {
		return
	}
	r := &protocol.Reroute{From: n.cut(in.From, maxNoticeWord), To: n.cut(in.To, maxNoticeWord), Reason: n.cut(in.Reason, maxNoticeWord)}
	if n.st.ours(in.Notice) {
		n.told(func(now *protocol.Notices) { now.Rerouted = r })
	}
	if !oneMore(&n.st.Notices.Reroutes, maxReroutes) {
		return
	}
	e := protocol.Entry{Type: protocol.EntryReroute, Text: "model " + r.To + " answers in place of " + r.From}
	if r.Reason != "" {
		e.Text += ": " + r.Reason
	}
	setData(&e, "from", r.From)
	setData(&e, "to", r.To)
	setData(&e, "reason", r.Reason)
	n.report(in.Notice, e)
}

// contextUsed records that the thread has passed a mark of its context window. After a
// compaction the marks can be passed again.
func (n *noticed) contextUsed() {
	c := n.st.Context
	if c == nil || c.Window <= 0 || c.Used < 0 {
		return
	}
	percent := min(int64(float64(c.Used)/float64(c.Window)*100), 100)
	mark := int64(0)
	for _, m := range contextMarks {
		if percent >= m {
			mark = m
		}
	}
	was := n.st.Notices.Mark
	n.st.Notices.Mark = mark
	if mark <= was || !oneMore(&n.st.Notices.ContextNews, maxContextNews) {
		return
	}
	e := protocol.Entry{Type: protocol.EntryContext, Turn: n.st.Turn, Text: fmt.Sprintf("%d of %d tokens of the context are used (%d %%)", c.Used, c.Window, percent)}
	setData(&e, "used", strconv.FormatInt(c.Used, 10))
	setData(&e, "window", strconv.FormatInt(c.Window, 10))
	setData(&e, "percent", strconv.FormatInt(percent, 10))
	n.entry(e)
}

// turnBegins forgets the last turn's plan, reroute and counts.
func (n *noticed) turnBegins() {
	if was := n.st.Notices.Newest; was != nil {
		n.told(func(now *protocol.Notices) { now.Plan, now.Rerouted = nil, nil })
	}
	n.countAnew()
}

func (n *noticed) countAnew() {
	s := &n.st.Notices
	*s = Noticed{Newest: s.Newest, Servers: s.Servers, Mark: s.Mark}
}

// recordLate records at the end of a turn or process what was over a bound. The entries'
// ids come from the turn, so no other entry has them. It changes nothing.
func (n *noticed) recordLate() {
	if n.st.TurnID == "" {
		return
	}
	s := &n.st.Notices
	id := func(word string) string {
		return fmt.Sprintf("i%d.turn%d-%s", n.st.Cursor.Incarnation, n.st.Turn, word)
	}
	if s.Late && s.Newest != nil && s.Newest.Plan != nil {
		e := planEntry(s.Newest.Plan)
		e.ID, e.At, e.Turn = id("plan"), n.at(), n.st.Turn
		n.emit(e)
	}
	var left []string
	for _, c := range []struct {
		count, bound int
		what         string
	}{
		{s.Plans, maxPlans, "plans"}, {s.ServerNews, maxServerNews, "reports on MCP servers"}, {s.ToolReports, maxToolReports, "reports of MCP tools"},
		{s.QuietHooks, maxQuietHooks, "hooks that completed"}, {s.Hooks, maxHooks, "hooks"}, {s.Reroutes, maxReroutes, "reroutes"},
		{s.ContextNews, maxContextNews, "reports on the context"},
	} {
		if c.count > c.bound {
			left = append(left, fmt.Sprintf("%d more %s", c.count-c.bound, c.what))
		}
	}
	if len(left) > 0 {
		n.emit(protocol.Entry{ID: id("left-out"), At: n.at(), Turn: n.st.Turn, Type: protocol.EntryState, Status: "left_out",
			Text: "not on record one by one: " + strings.Join(left, ", ")})
	}
}

// turnEnds is called before the turn's end is on record.
func (n *noticed) turnEnds() {
	n.recordLate()
	n.countAnew()
}
