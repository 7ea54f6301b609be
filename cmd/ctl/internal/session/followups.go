package session

import (
	"cmp"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// showFollowUps prints a line for each session that a rule of --follow-up started.
func showFollowUps(p *core.Printer, all []protocol.FollowUpView) {
	for _, v := range all {
		state := cmp.Or(v.Status, v.State)
		p.Printf("follow-up %s of turn %d: %s, %s", core.Clean(v.Name), v.Turn, core.Clean(cmp.Or(v.Session, "no session")), core.Clean(state))
		switch {
		case v.Error != nil:
			p.Printf(": %s", core.Clean(core.OneLine(v.Error.Message, 200)))
		case v.Text != "":
			p.Printf(": %s", core.Clean(core.OneLine(v.Text, 200)))
		}
		p.Printf("\n")
	}
}
