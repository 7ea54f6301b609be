package main

import (
	"cmp"
	"fmt"
	"sort"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/workflows"
)

// A renderer prints a conversation as it happens: streamed text, commands, coloured diffs.
// It cleans all text from hosts and models first.
type renderer struct {
	p       *printer
	open    string               // the item whose text is being streamed, with no line end yet
	kind    activities.EntryType // the type of that item
	said    strings.Builder      // the text of it that has been streamed
	quiet   bool                 // entries and deltas are not shown (ctl -q)
	skipOwn bool                 // the user's own messages are not repeated
	far     time.Time            // time of the newest progress report
	told    map[string]bool      // reports of that time that were shown
}

func (r *renderer) event(ev api.Event) {
	if r.quiet {
		return
	}
	switch ev.Kind {
	case api.KindDelta:
		r.delta(*ev.Delta)
	case api.KindEntry:
		r.entry(*ev.Entry)
	case api.KindState:
		r.progress(workflows.ViewOfProgress(ev.State.Progress))
	case api.KindVoid:
		r.endLine()
		r.p.printf("%s\n", r.p.paint(dim, fmt.Sprintf("— from entry %d on, what was shown is void; it comes again —", ev.Void)))
	}
}

// progress shows the model's progress reports (report_progress), each once.
func (r *renderer) progress(now *workflows.ProgressView) {
	if !r.further(now) || r.quiet {
		return
	}
	r.endLine()
	r.p.printf("%s\n", r.p.paint(dim, "· progress: "+clean(now.String())))
}

// further reports whether a progress report is new. The same report comes from the worker
// and later from the workflow. Reports of an older codex often have the same time.
func (r *renderer) further(now *workflows.ProgressView) bool {
	if now == nil || now.At.Before(r.far) {
		return false
	}
	key := fmt.Sprintf("%d %s %s", now.Turn, now.At, now)
	if r.told[key] {
		return false
	}
	if r.told == nil || now.At.After(r.far) { // reports of earlier times cannot come again
		r.told = map[string]bool{}
	}
	r.told[key], r.far = true, now.At
	return true
}

func (r *renderer) delta(d activities.Delta) {
	if r.open != d.Item {
		r.endLine()
		if d.Type == activities.EntryCommand {
			return // a command's output is shown when it has ended, under its command
		}
		r.open, r.kind = d.Item, d.Type
	}
	r.said.WriteString(d.Text)
	text := clean(d.Text)
	if d.Type == activities.EntryReasoning {
		text = r.p.paint(dim, text)
	}
	r.p.printf("%s", text)
}

func (r *renderer) endLine() {
	if r.open != "" {
		r.p.printf("\n")
		r.open = ""
		r.said.Reset()
	}
}

func (r *renderer) entry(e activities.Entry) {
	if r.open != "" && r.open == e.Item && r.kind == e.Type {
		// The text was streamed, except for an end that was held back, or a beginning
		// before ctl was connected.
		rest, whole := strings.CutPrefix(e.Text, r.said.String())
		if whole && e.Type == activities.EntryAssistant {
			r.p.printf("%s", clean(rest))
		}
		r.endLine()
		if whole || e.Type != activities.EntryAssistant {
			return
		}
	}
	r.endLine()
	p := r.p
	text := strings.TrimRight(clean(e.Text), "\n")
	switch e.Type {
	case activities.EntryUser:
		if !r.skipOwn {
			p.printf("%s %s%s\n", p.paint(bold, ">"), strings.ReplaceAll(text, "\n", "\n  "), p.paint(dim, unsure(e)))
		}
	case activities.EntryAssistant:
		p.printf("%s\n", text)
	case activities.EntryReasoning:
		p.printf("%s\n", p.paint(dim, text))
	case activities.EntryCommand:
		p.printf("%s %s%s\n", p.paint(cyan, "$"), p.paint(cyan, clean(cmp.Or(e.Command, e.Text))), commandEnd(p, e))
		if e.Command != "" && text != "" {
			p.printf("%s\n", p.paint(dim, indent(lastLines(text, 20))))
		}
	case activities.EntryFileChange:
		for _, c := range e.Changes {
			p.printf("%s %s%s\n", p.paint(blue, c.Kind), clean(c.Path), ended(p, e.Status))
			showDiff(p, c.Diff)
		}
		if len(e.Changes) == 0 {
			p.printf("%s%s\n", text, ended(p, e.Status))
		}
	case activities.EntryRequest:
		p.printf("%s %s%s\n", p.paint(yellow, "?"), text, p.paint(dim, ruled(e)))
	case activities.EntryDecision:
		by := ""
		if e.Data["by"] != "" {
			by = " by " + clean(e.Data["by"])
		}
		if e.Data["reason"] != "" {
			by += ": " + clean(e.Data["reason"])
		}
		by += ruled(e) + givenInEntry(e.Data)
		p.printf("%s %s%s\n", p.paint(yellow, "!"), text, by)
	case activities.EntryError:
		p.printf("%s %s\n", p.paint(red, "error:"), text)
		if h := e.Data["hint"]; h != "" {
			p.printf("  %s\n", clean(h))
		}
	case activities.EntryState:
		p.printf("%s\n", p.paint(dim, "· "+text+facts(e.Data)))
	default:
		p.printf("%s %s\n", p.paint(dim, string(e.Type)), text)
	}
}

// ruled names the policy rule that decided a request or left it to people, unless the
// entry's text already names it.
func ruled(e activities.Entry) string {
	rule := clean(e.Data["rule"])
	if rule == "" || strings.Contains(e.Text, fmt.Sprintf("rule %q", e.Data["rule"])) {
		return ""
	}
	s := fmt.Sprintf("rule %q", rule)
	if why := clean(e.Data["ruling"]); why != "" {
		s += ": " + why
	}
	return " (policy: " + s + ")"
}

func facts(m map[string]string) string {
	var out []string
	for k, v := range m {
		if v != "" {
			out = append(out, clean(k+"="+v))
		}
	}
	if len(out) == 0 {
		return ""
	}
	sort.Strings(out)
	return " (" + strings.Join(out, ", ") + ")"
}

func commandEnd(p *printer, e activities.Entry) string {
	if e.ExitCode != nil && *e.ExitCode != 0 {
		return p.paint(red, fmt.Sprintf("  exit %d", *e.ExitCode))
	}
	return ended(p, e.Status)
}

func ended(p *printer, status string) string {
	switch status {
	case "", "completed", "inProgress":
		return ""
	}
	return p.paint(red, "  "+clean(status))
}

func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }

// lastLines keeps the last n lines of a long output.
func lastLines(s string, n int) string {
	lines := strings.Split(s, "\n")
	if len(lines) <= n {
		return s
	}
	return fmt.Sprintf("… %d lines before\n%s", len(lines)-n, strings.Join(lines[len(lines)-n:], "\n"))
}

// showDiff prints a diff in colour.
func showDiff(p *printer, diff string) {
	diff = strings.TrimRight(clean(diff), "\n")
	if diff == "" {
		return
	}
	for line := range strings.SplitSeq(diff, "\n") {
		s := style("")
		switch {
		case strings.HasPrefix(line, "+"):
			s = green
		case strings.HasPrefix(line, "-"):
			s = red
		case strings.HasPrefix(line, "@@"):
			s = cyan
		}
		p.printf("  %s\n", p.paint(s, line))
	}
}

// unsure says that codex may or may not have received a message.
func unsure(e activities.Entry) string {
	if e.Data["delivery"] == string(activities.Sent) {
		return " (whether it reached codex is not known)"
	}
	return ""
}
