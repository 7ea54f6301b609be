package show

import (
	"fmt"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// EarlierText describes an earlier decision on the request, lost with its codex process.
func EarlierText(e *protocol.EarlierDecision) string {
	if e == nil {
		return ""
	}
	word := map[string]string{"accept": "approved", "decline": "declined", "cancel": "cancelled", "answer": "answered", "grant": "granted in part", "amend": "approved for good"}[e.Outcome]
	if word == "" {
		word = e.Outcome
	}
	word += GivenText(e.Answers, nil, e.Grant)
	by := ""
	if e.By != "" {
		by = " by " + e.By
	}
	switch {
	case e.State == protocol.ApprovalDecided:
		return fmt.Sprintf("%s earlier%s (%s), never delivered", word, by, e.Approval)
	case e.Outcome == "accept":
		return fmt.Sprintf("approved earlier, may have run (%s%s)", e.Approval, by)
	}
	return fmt.Sprintf("%s earlier%s (%s)", word, by, e.Approval)
}

// Messages lists messages that codex may lack, and the newest others.
func Messages(p *core.Printer, all []protocol.MessageView) {
	var rows [][]core.Cell
	for i, m := range all {
		if m.State == "acknowledged" && i < len(all)-5 {
			continue
		}
		rows = append(rows, []core.Cell{core.Plain(m.ID), core.Plain(m.Kind), core.Plain(m.Turn), core.Painted(messageColour(m.State), m.State), core.Plain(m.At)})
	}
	if len(rows) > 0 {
		p.Printf("\n")
		p.Table([]string{"MESSAGE", "KIND", "TURN", "DELIVERY", "SINCE"}, rows)
	}
}

func messageColour(state string) core.Style {
	switch state {
	case "acknowledged":
		return core.Green
	case "rejected", "void":
		return core.Red
	}
	return core.Yellow
}
