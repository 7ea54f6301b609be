package approval

import (
	"fmt"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/internal/protocol"
)

// Show prints an approval; diffs adds its diffs.
func Show(p *core.Printer, ap protocol.Approval, diffs bool) {
	decision := ""
	if d := ap.Decision; d != nil {
		decision = d.Outcome + " by " + d.By
		if d.Reason != "" {
			decision += ": " + d.Reason
		}
		decision += show.GivenText(d.Answers, d.Secret, d.Grant)
	}
	from := ap.Server
	if ap.Tool != "" {
		from = strings.TrimPrefix(from+" "+ap.Tool, " ")
	}
	p.Fields(core.Plain("approval"), core.Painted(core.Bold, ap.ID), core.Plain("state"), core.Painted(approvalColour(ap.State), string(ap.State)),
		core.Plain("kind"), core.Plain(ap.Kind), core.Plain("agent"), core.Plain(ap.Agent), core.Plain("from"), core.Plain(from), core.Plain("in"), core.Plain(ap.CWD), core.Plain("network"), core.Plain(networkText(ap)), core.Plain("reason"), core.Plain(ap.Reason),
		core.Plain("decision"), core.Plain(decision), core.Plain("delivery"), core.Plain(ap.Delivery), core.Plain("void"), core.Plain(ap.VoidReason),
		core.Plain("policy"), core.Plain(rulingText(ap)), core.Plain("signatures"), core.Painted(core.Yellow, signedText(ap)),
		core.Plain("earlier"), core.Painted(core.Yellow, show.EarlierText(ap.Earlier)), core.Plain("offered"), core.Plain(strings.Join(ap.Offered, ", ")), core.Plain("expires"), core.Plain(ap.ExpiresAt), core.Plain("digest"), core.Painted(core.Dim, ap.Digest), core.Plain("unchecked"), core.Painted(core.Yellow, uncheckedText(ap)))
	if ap.Digested != nil && ap.Digested.Action != "" {
		p.Printf("\n  to %s, not to run it:\n", core.Clean(ap.Digested.Action))
	}
	if ap.Command != "" {
		p.Printf("\n  %s %s\n", p.Paint(core.Cyan, "$"), p.Paint(core.Cyan, strings.ReplaceAll(core.Clean(ap.Command), "\n", "\n    ")))
	}
	if ap.Kind != "command" && ap.Kind != "file_change" && ap.Summary != "" {
		p.Printf("\n  %s\n", strings.ReplaceAll(core.Clean(ap.Summary), "\n", "\n  "))
	}
	if ap.GrantRoot != "" {
		p.Printf("\n  and change whatever lies under %s\n", core.Clean(ap.GrantRoot))
	}
	if ap.Args != "" {
		p.Printf("\n  with %s\n", strings.ReplaceAll(core.Clean(ap.Args), "\n", "\n  "))
	}
	if ap.URL != "" {
		p.Printf("\n  visit %s\n", p.Paint(core.Cyan, core.Clean(ap.URL)))
	}
	for i, words := range activities.PermissionWords(ap.Permissions) {
		if i == 0 {
			p.Printf("\n  to be allowed:\n")
		}
		p.Printf("  %s %s\n", p.Paint(core.Yellow, "·"), core.Clean(words))
	}
	for _, rule := range ap.Amendment {
		p.Printf("\n  --amend would allow for good: %s\n", core.Clean(rule))
	}
	for _, q := range ap.Questions {
		p.Printf("\n")
		showQuestion(p, q)
	}
	paths := activities.ChangePaths(ap.Request())
	for i, c := range ap.Changes {
		p.Printf("\n  %s %s\n", p.Paint(core.Blue, c.Kind), paths[i])
		if paths[i] != c.Path {
			p.Printf("    %s\n", p.Paint(core.Dim, "codex wrote "+strconv.Quote(c.Path)))
		}
		if diffs {
			show.Diff(p, c.Diff)
		}
	}
	if ap.Truncated {
		p.Printf("%s\n", p.Paint(core.Dim, "  (cut; `ctl approval show "+ap.ID+"` shows all)"))
	}
}

// networkText is the host to reach, and all that codex says of it.
func networkText(ap protocol.Approval) string {
	if ap.Digested == nil || len(ap.Digested.Network) == 0 {
		return ap.Network
	}
	return strings.TrimPrefix(ap.Network+" "+string(ap.Digested.Network), " ")
}

func showQuestion(p *core.Printer, q protocol.Question) {
	var hints []string
	if q.Type != "" && q.Type != "string" {
		hints = append(hints, q.Type)
	}
	if q.Format != "" {
		hints = append(hints, q.Format)
	}
	for _, hint := range []struct {
		is   bool
		text string
	}{{q.Many, "several"}, {q.Other && len(q.Options) > 0, "or your own words"}, {q.Optional, "optional"}, {q.Secret, "secret"}} {
		if hint.is {
			hints = append(hints, hint.text)
		}
	}
	if q.Default != "" {
		hints = append(hints, "default "+core.Clean(core.OneLine(q.Default, 60)))
	}
	more := ""
	if len(hints) > 0 {
		more = " (" + strings.Join(hints, ", ") + ")"
	}
	title := core.Clean(q.ID)
	if q.Header != "" && q.Header != q.ID {
		title += " · " + core.Clean(q.Header)
	}
	p.Printf("  %s%s\n", p.Paint(core.Bold, title), p.Paint(core.Dim, more))
	if q.Text != "" {
		p.Printf("    %s\n", strings.ReplaceAll(core.Clean(q.Text), "\n", "\n    "))
	}
	for i, o := range q.Options {
		about := ""
		if o.Description != "" {
			about = p.Paint(core.Dim, " – "+core.Clean(core.OneLine(o.Description, 200)))
		}
		p.Printf("    %s %s%s\n", p.Paint(core.Yellow, fmt.Sprintf("%d)", i+1)), core.Clean(o.Label), about)
	}
}
