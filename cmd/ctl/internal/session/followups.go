package session

import (
	"cmp"
	"context"
	"strings"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// showRules prints a line for each rule for follow-ups.
func showRules(p *core.Printer, all []protocol.RuleView) {
	for _, r := range all {
		p.Printf("rule %s\n", core.Clean(ruleText(r)))
	}
}

func ruleText(r protocol.RuleView) string {
	text := r.Name + ": " + r.When
	if r.Seed != "" {
		text += ", with seed " + r.Seed
	}
	text += " (from " + strings.Replace(r.From, "/", " ", 1) + ")"
	if r.Off != "" {
		text += ", not used: " + r.Off
	}
	return text
}

// tellRules tells the rules of a session that was just started. Those of its seed are left out
// if no worker answers.
func tellRules(ctx context.Context, a *core.App, t *conn.Conn, opt session.Options) {
	views := session.RulesAtStart(opt, seedRules(ctx, t, opt.Seed))
	for _, r := range views {
		a.Note("follow-up %s", core.Clean(ruleText(r)))
	}
}

// askSeedFor bounds how long a start asks the seed for its rules. `ctl session show` has them in
// any case.
const askSeedFor = 3 * time.Second

func seedRules(ctx context.Context, t *conn.Conn, seed string) []protocol.SeedFollowUp {
	if seed == "" {
		return nil
	}
	ctx, cancel := t.Bounded(ctx, askSeedFor)
	defer cancel()
	var v protocol.SeedView
	answer, err := t.QueryWorkflow(ctx, protocol.SeedID(seed), "", protocol.QuerySeed)
	if err == nil {
		err = answer.Get(&v)
	}
	if err != nil {
		return nil // session show has them later
	}
	return v.FollowUps
}

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
