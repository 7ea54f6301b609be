package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/workflows"
)

func showApproval(p *printer, ap workflows.Approval, diffs bool) {
	decision := ""
	if d := ap.Decision; d != nil {
		decision = d.Outcome + " by " + d.By
		if d.Reason != "" {
			decision += ": " + d.Reason
		}
		decision += givenText(d.Answers, d.Secret, d.Grant)
	}
	from := ap.Server
	if ap.Tool != "" {
		from = strings.TrimPrefix(from+" "+ap.Tool, " ")
	}
	p.fields(plain("approval"), painted(bold, ap.ID), plain("state"), painted(approvalColour(ap.State), string(ap.State)),
		plain("kind"), plain(ap.Kind), plain("from"), plain(from), plain("in"), plain(ap.CWD), plain("network"), plain(ap.Network), plain("reason"), plain(ap.Reason),
		plain("decision"), plain(decision), plain("delivery"), plain(ap.Delivery), plain("void"), plain(ap.VoidReason),
		plain("policy"), plain(rulingText(ap)), plain("signatures"), painted(yellow, signedText(ap)),
		plain("earlier"), painted(yellow, earlierText(ap.Earlier)), plain("offered"), plain(strings.Join(ap.Offered, ", ")), plain("expires"), plain(ap.ExpiresAt), plain("digest"), painted(dim, ap.Digest))
	if ap.Command != "" {
		p.printf("\n  %s %s\n", p.paint(cyan, "$"), p.paint(cyan, strings.ReplaceAll(clean(ap.Command), "\n", "\n    ")))
	}
	if ap.Kind != "command" && ap.Kind != "file_change" && ap.Summary != "" {
		p.printf("\n  %s\n", strings.ReplaceAll(clean(ap.Summary), "\n", "\n  "))
	}
	if ap.GrantRoot != "" {
		p.printf("\n  and change whatever lies under %s\n", clean(ap.GrantRoot))
	}
	if ap.Args != "" {
		p.printf("\n  with %s\n", strings.ReplaceAll(clean(ap.Args), "\n", "\n  "))
	}
	if ap.URL != "" {
		p.printf("\n  visit %s\n", p.paint(cyan, clean(ap.URL)))
	}
	for i, words := range activities.PermissionWords(ap.Permissions) {
		if i == 0 {
			p.printf("\n  to be allowed:\n")
		}
		p.printf("  %s %s\n", p.paint(yellow, "·"), clean(words))
	}
	for _, rule := range ap.Amendment {
		p.printf("\n  --amend would allow for good: %s\n", clean(rule))
	}
	for _, q := range ap.Questions {
		p.printf("\n")
		showQuestion(p, q)
	}
	for _, c := range ap.Changes {
		p.printf("\n  %s %s\n", p.paint(blue, c.Kind), clean(c.Path))
		if diffs {
			showDiff(p, c.Diff)
		}
	}
	if ap.Truncated {
		p.printf("%s\n", p.paint(dim, "  (cut; `ctl approval show "+ap.ID+"` shows all)"))
	}
}

// showQuestion prints a question and what answers it takes.
func showQuestion(p *printer, q activities.Question) {
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
		hints = append(hints, "default "+clean(oneLine(q.Default, 60)))
	}
	more := ""
	if len(hints) > 0 {
		more = " (" + strings.Join(hints, ", ") + ")"
	}
	title := clean(q.ID)
	if q.Header != "" && q.Header != q.ID {
		title += " · " + clean(q.Header)
	}
	p.printf("  %s%s\n", p.paint(bold, title), p.paint(dim, more))
	if q.Text != "" {
		p.printf("    %s\n", strings.ReplaceAll(clean(q.Text), "\n", "\n    "))
	}
	for i, o := range q.Options {
		about := ""
		if o.Description != "" {
			about = p.paint(dim, " – "+clean(oneLine(o.Description, 200)))
		}
		p.printf("    %s %s%s\n", p.paint(yellow, fmt.Sprintf("%d)", i+1)), clean(o.Label), about)
	}
}

// givenInEntry describes the answers and the grant of a recorded decision, from the data of
// its transcript entry.
func givenInEntry(data map[string]string) string {
	var answers map[string][]string
	if text := data["answers"]; text != "" && json.Unmarshal([]byte(text), &answers) != nil {
		answers = nil // not written by us
	}
	var secret []string
	if data["secret"] != "" {
		secret = strings.Split(data["secret"], ", ")
	}
	return clean(givenText(answers, secret, json.RawMessage(data["grant"])))
}

// givenText describes the answers and the grant of a decision, in one line.
func givenText(answers map[string][]string, secret []string, grant json.RawMessage) string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(answers)) {
		out = append(out, id+"="+oneLine(strings.Join(answers[id], ", "), 80))
	}
	for _, id := range secret {
		out = append(out, id+"=[secret]")
	}
	out = append(out, activities.PermissionWords(grant)...)
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, "; ") + ")"
}
