package show

import (
	"cmp"
	"fmt"
	"sort"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

// A Renderer prints a conversation as it happens, all text cleaned.
type Renderer struct {
	P       *core.Printer
	open    string             // the item being streamed
	kind    protocol.EntryType // of that item
	said    strings.Builder    // its text so far, unless it is a command
	upTo    int64              // position behind the text of a command so far
	midLine bool               // what was streamed does not end with a newline
	thread  string             // the sub-agent that was shown last
	Quiet   bool               // show no entries and deltas (ctl -q)
	SkipOwn bool               // do not repeat the user's messages
	far     time.Time          // time of the newest progress report
	told    map[string]bool    // reports of that time
}

func (r *Renderer) Event(ev api.Event) {
	if r.Quiet {
		return
	}
	switch ev.Kind {
	case api.KindDelta:
		r.delta(*ev.Delta)
	case api.KindEntry:
		r.Entry(*ev.Entry)
	case api.KindState:
		r.Progress(protocol.ViewOfProgress(ev.State.Progress))
	case api.KindVoid:
		r.EndLine()
		r.P.Printf("%s\n", r.P.Paint(core.Dim, fmt.Sprintf("— from entry %d on, what was shown is void; it comes again —", ev.Void)))
	}
}

// Progress shows each progress report once.
func (r *Renderer) Progress(now *protocol.ProgressView) {
	if !r.Further(now) || r.Quiet {
		return
	}
	r.EndLine()
	r.P.Printf("%s\n", r.P.Paint(core.Dim, "· progress: "+core.Clean(now.String())))
}

// Further reports whether a report is new: worker and workflow both send it, and an older
// codex's often share a time.
func (r *Renderer) Further(now *protocol.ProgressView) bool {
	if now == nil || now.At.Before(r.far) {
		return false
	}
	key := fmt.Sprintf("%d %s %s", now.Turn, now.At, now)
	if r.told[key] {
		return false
	}
	if r.told == nil || now.At.After(r.far) { // earlier times do not come again
		r.told = map[string]bool{}
	}
	r.told[key], r.far = true, now.At
	return true
}

func (r *Renderer) delta(d protocol.Delta) {
	margin := r.agent(d.Agent)
	if r.open != d.Item || r.kind != d.Type {
		r.EndLine()
		r.open, r.kind, r.upTo = d.Item, d.Type, d.At
		if d.Type == protocol.EntryCommand {
			r.P.Printf("%s%s %s\n", margin, r.P.Paint(core.Cyan, "$"), r.P.Paint(core.Cyan, core.Clean(cmp.Or(d.Command, "…"))))
		}
	}
	text := d.Text
	style := core.Style("")
	switch d.Type {
	case protocol.EntryCommand:
		if gap := d.At - r.upTo; gap > 0 {
			text = fmt.Sprintf("… %d bytes\n", gap) + text
			if r.midLine {
				text = "\n" + text
			}
		}
		r.upTo = d.At + int64(len(d.Text))
		margin, style = margin+"  ", core.Dim
	case protocol.EntryToolProgress:
		margin, style = margin+"  ", core.Dim
	case protocol.EntryReasoning:
		style = core.Dim
		fallthrough
	default:
		r.said.WriteString(d.Text)
	}
	r.stream(margin, style, text)
}

// stream prints a piece of text with a margin before each of its lines.
func (r *Renderer) stream(margin string, style core.Style, text string) {
	for line := range strings.Lines(core.Clean(text)) {
		if !r.midLine {
			r.P.Printf("%s", margin)
		}
		r.midLine = !strings.HasSuffix(line, "\n")
		r.P.Printf("%s", r.P.Paint(style, strings.TrimSuffix(line, "\n")))
		if !r.midLine {
			r.P.Printf("\n")
		}
	}
}

// agent says once whose words follow, and returns the margin for them.
func (r *Renderer) agent(a *protocol.Agent) (margin string) {
	if a == nil {
		r.thread = ""
		return ""
	}
	margin = strings.Repeat("  ", a.Depth()-1) + "│ "
	if r.thread != a.Thread {
		r.EndLine()
		r.P.Printf("%s%s\n", margin, r.P.Paint(core.Bold, core.Clean(cmp.Or(a.Name, a.Thread))+":"))
	}
	r.thread = a.Thread
	return margin
}

// TreeEntry prints an entry with the margin of its sub-agent.
func (r *Renderer) TreeEntry(e records.TreeEntry) {
	if e.Depth > 0 && e.Agent == nil {
		e.Agent = &protocol.Agent{Thread: e.SubAgent()} // of an older worker
	}
	r.Entry(e.Entry)
}

func (r *Renderer) EndLine() {
	if r.open != "" {
		if r.midLine {
			r.P.Printf("\n")
		}
		r.open, r.midLine = "", false
		r.said.Reset()
	}
}

// Entry prints an entry. A sub-agent's has a margin and no colours.
func (r *Renderer) Entry(e protocol.Entry) {
	if r.open != "" && r.open == e.Item && r.kind == e.Type && e.Type == protocol.EntryCommand {
		r.endCommand(e)
		return
	}
	if e.Agent != nil && (r.open != e.Item || r.kind != e.Type || r.open == "") {
		r.EndLine()
		margin := r.agent(e.Agent)
		var b strings.Builder
		own := &Renderer{P: core.NewPrinter(&b, false)}
		e.Agent = nil
		own.Entry(e)
		for line := range strings.Lines(b.String()) {
			r.P.Printf("%s%s", margin, line)
		}
		return
	}
	if e.Agent == nil {
		r.thread = ""
	}
	r.entry(e)
}

// endCommand ends a command whose output was streamed: it prints what of it was held back,
// and how it ended.
func (r *Renderer) endCommand(e protocol.Entry) {
	margin := r.agent(e.Agent) + "  "
	if n := int64(len(e.Text)); n > r.upTo {
		rest := e.Text[r.upTo:]
		if shown := lastLines(strings.TrimRight(rest, "\n"), 20); shown != "" {
			r.stream(margin, core.Dim, shown)
		}
	}
	r.EndLine()
	if end := commandEnd(r.P, e); end != "" {
		r.P.Printf("%s%s\n", margin, strings.TrimSpace(end))
	}
}

func (r *Renderer) entry(e protocol.Entry) {
	if r.open != "" && r.open == e.Item && r.kind == e.Type {
		// All was streamed except an end that was held back, or a beginning from before ctl
		// was connected.
		rest, whole := strings.CutPrefix(e.Text, r.said.String())
		if whole && e.Type == protocol.EntryAssistant {
			r.stream(r.agent(e.Agent), "", rest)
		}
		r.EndLine()
		if whole || e.Type != protocol.EntryAssistant {
			return
		}
		if e.Agent != nil {
			r.Entry(e) // with its margin
			return
		}
	}
	r.EndLine()
	p := r.P
	text := strings.TrimRight(core.Clean(e.Text), "\n")
	switch e.Type {
	case protocol.EntryUser:
		if !r.SkipOwn {
			p.Printf("%s %s%s\n", p.Paint(core.Bold, ">"), strings.ReplaceAll(text, "\n", "\n  "), p.Paint(core.Dim, unsure(e)))
		}
	case protocol.EntryAssistant:
		p.Printf("%s\n", text)
	case protocol.EntryReasoning:
		p.Printf("%s\n", p.Paint(core.Dim, text))
	case protocol.EntryCommand:
		p.Printf("%s %s%s\n", p.Paint(core.Cyan, "$"), p.Paint(core.Cyan, core.Clean(cmp.Or(e.Command, e.Text))), commandEnd(p, e))
		if e.Command != "" && text != "" {
			p.Printf("%s\n", p.Paint(core.Dim, indent(lastLines(text, 20))))
		}
	case protocol.EntryFileChange:
		for _, c := range e.Changes {
			p.Printf("%s %s%s\n", p.Paint(core.Blue, c.Kind), core.Clean(c.Path), ended(p, e.Status))
			Diff(p, c.Diff)
		}
		if len(e.Changes) == 0 {
			p.Printf("%s%s\n", text, ended(p, e.Status))
		}
	case protocol.EntryRequest:
		p.Printf("%s %s%s\n", p.Paint(core.Yellow, "?"), text, p.Paint(core.Dim, ruled(e)))
	case protocol.EntryDecision:
		by := ""
		if e.Data["by"] != "" {
			by = " by " + core.Clean(e.Data["by"])
		}
		if e.Data["reason"] != "" {
			by += ": " + core.Clean(e.Data["reason"])
		}
		by += ruled(e) + givenInEntry(e.Data)
		p.Printf("%s %s%s\n", p.Paint(core.Yellow, "!"), text, by)
	case protocol.EntryError:
		p.Printf("%s %s\n", p.Paint(core.Red, "error:"), text)
		if h := e.Data["hint"]; h != "" {
			p.Printf("  %s\n", core.Clean(h))
		}
	case protocol.EntryState:
		p.Printf("%s\n", p.Paint(core.Dim, "· "+text+facts(e.Data)))
	case protocol.EntryPlan:
		p.Printf("%s\n%s\n", p.Paint(core.Dim, "· plan: "+core.Clean(e.Data["count"])), indent(text))
	case protocol.EntryMCPServer, protocol.EntryHook:
		style := core.Dim
		if e.Status != "ready" && e.Status != "completed" && e.Status != "prompt" {
			style = core.Yellow
		}
		p.Printf("%s\n", p.Paint(style, "· "+strings.ReplaceAll(text, "\n", "\n  ")))
	case protocol.EntryReroute:
		p.Printf("%s\n", p.Paint(core.Yellow, "· "+text))
	case protocol.EntryContext, protocol.EntryToolProgress:
		p.Printf("%s\n", p.Paint(core.Dim, "· "+text))
	case protocol.EntryItem:
		p.Printf("%s %s\n", p.Paint(core.Dim, "· item "+core.Clean(e.Data["type"])), text)
	case protocol.EntryTool:
		name := "tool " + core.OneLine(e.Tool, 200)
		if text != "" {
			name += ":"
		}
		p.Printf("%s\n", strings.TrimSpace(p.Paint(core.Dim, strings.TrimSpace(name))+" "+text))
	default:
		p.Printf("%s %s\n", p.Paint(core.Dim, string(e.Type)), text)
	}
}

// ruled names the policy rule unless the text does.
func ruled(e protocol.Entry) string {
	rule := core.Clean(e.Data["rule"])
	if rule == "" || strings.Contains(e.Text, fmt.Sprintf("rule %q", e.Data["rule"])) {
		return ""
	}
	s := fmt.Sprintf("rule %q", rule)
	if why := core.Clean(e.Data["ruling"]); why != "" {
		s += ": " + why
	}
	return " (policy: " + s + ")"
}

func facts(m map[string]string) string {
	var out []string
	for k, v := range m {
		if v != "" {
			out = append(out, core.Clean(k+"="+v))
		}
	}
	if len(out) == 0 {
		return ""
	}
	sort.Strings(out)
	return " (" + strings.Join(out, ", ") + ")"
}

func commandEnd(p *core.Printer, e protocol.Entry) string {
	if e.ExitCode != nil && *e.ExitCode != 0 {
		return p.Paint(core.Red, fmt.Sprintf("  exit %d", *e.ExitCode))
	}
	return ended(p, e.Status)
}

func ended(p *core.Printer, status string) string {
	switch status {
	case "", "completed", "inProgress":
		return ""
	}
	return p.Paint(core.Red, "  "+core.Clean(status))
}

func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }

func lastLines(s string, n int) string {
	lines := strings.Split(s, "\n")
	if len(lines) <= n {
		return s
	}
	return fmt.Sprintf("… %d lines before\n%s", len(lines)-n, strings.Join(lines[len(lines)-n:], "\n"))
}

// Diff prints a diff in colour.
func Diff(p *core.Printer, diff string) {
	diff = strings.TrimRight(core.Clean(diff), "\n")
	if diff == "" {
		return
	}
	for line := range strings.SplitSeq(diff, "\n") {
		s := core.Style("")
		switch {
		case strings.HasPrefix(line, "+"):
			s = core.Green
		case strings.HasPrefix(line, "-"):
			s = core.Red
		case strings.HasPrefix(line, "@@"):
			s = core.Cyan
		}
		p.Printf("  %s\n", p.Paint(s, line))
	}
}

// unsure says that nobody knows whether codex has a message.
func unsure(e protocol.Entry) string {
	if e.Data["delivery"] == string(protocol.Sent) {
		return " (whether it reached codex is not known)"
	}
	return ""
}
