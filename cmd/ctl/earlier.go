package main

import (
	"fmt"

	"fairlead.dev/fairlead/workflows"
)

// earlierText describes an earlier decision on the same request that was lost when its
// codex process ended.
func earlierText(e *workflows.EarlierDecision) string {
	if e == nil {
		return ""
	}
	word := map[string]string{"accept": "approved", "decline": "declined", "cancel": "cancelled", "answer": "answered", "grant": "granted in part", "amend": "approved for good"}[e.Outcome]
	if word == "" {
		word = e.Outcome
	}
	word += givenText(e.Answers, nil, e.Grant)
	by := ""
	if e.By != "" {
		by = " by " + e.By
	}
	switch {
	case e.State == workflows.ApprovalDecided:
		return fmt.Sprintf("%s earlier%s (%s), never delivered", word, by, e.Approval)
	case e.Outcome == "accept":
		return fmt.Sprintf("approved earlier, may have run (%s%s)", e.Approval, by)
	}
	return fmt.Sprintf("%s earlier%s (%s)", word, by, e.Approval)
}

// showMessages lists the messages that codex does not have, or not for certain, and the
// newest that it has.
func showMessages(p *printer, all []workflows.MessageView) {
	var rows [][]cell
	for i, m := range all {
		if m.State == "acknowledged" && i < len(all)-5 {
			continue
		}
		rows = append(rows, []cell{plain(m.ID), plain(m.Kind), plain(m.Turn), painted(messageColour(m.State), m.State), plain(m.At)})
	}
	if len(rows) > 0 {
		p.printf("\n")
		p.table([]string{"MESSAGE", "KIND", "TURN", "DELIVERY", "SINCE"}, rows)
	}
}

func messageColour(state string) style {
	switch state {
	case "acknowledged":
		return green
	case "rejected", "void":
		return red
	}
	return yellow
}
