package seed

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/live"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/internal/protocol"
)

func listCommand(a *core.App) *cobra.Command {
	var pool string
	c := &cobra.Command{
		Use: "list", Short: "seeds there are", Args: cobra.NoArgs, Example: "  ctl seed list\n  ctl seed list --pool logins",
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			list, err := t.AllSeeds(c.Context(), "list seeds", func(v protocol.SeedView) bool { return pool == "" || slices.Contains(v.Pools, pool) })
			if err != nil {
				return err
			}
			live.FreshenAccounts(c.Context(), a, t, list)
			return core.ShowAll(a.Print(), list, func(p *core.Printer) { listSeeds(p, list) })
		},
	}
	c.Flags().StringVar(&pool, "pool", "", "only those in this `POOL`")
	return c
}

func listSeeds(p *core.Printer, list []protocol.SeedView) {
	var rows [][]core.Cell
	for _, v := range list {
		rows = append(rows, []core.Cell{core.Painted(core.Bold, v.Name), core.Plain(v.Kind), core.Plain(v.Generation), core.Painted(healthColour(v.Health), v.Health),
			core.Plain(seedState(v)), core.Plain(strings.Join(v.HeldBy, " ")), core.Plain(v.Queue), core.Plain(strings.Join(v.Pools, " ")), core.Plain(identityOf(v)), core.Plain(planOf(v)), core.Painted(useColour(v), usedText(v)), core.Plain(resetText(v)), core.Plain(len(v.Files))})
	}
	p.Table([]string{"NAME", "KIND", "GENERATION", "HEALTH", "STATE", "HELD BY", "WAITING", "POOLS", "ACCOUNT", "PLAN", "USED", "RESETS", "FILES"}, rows)
}

func healthColour(health string) core.Style {
	switch health {
	case protocol.Healthy:
		return core.Green
	case protocol.Suspect, protocol.Dead:
		return core.Red
	}
	return ""
}

func seedState(v protocol.SeedView) string {
	if v.Rotated != nil {
		return v.State + ", rotated and not saved"
	}
	return v.State
}

func showCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "what a seed holds, never its secrets", Args: cobra.ExactArgs(1), Example: "  ctl seed show team",
		RunE: func(c *cobra.Command, args []string) error {
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			v, err := t.Seed(c.Context(), args[0])
			if err != nil {
				return err
			}
			one := []protocol.SeedView{v}
			live.FreshenAccounts(c.Context(), a, t, one)
			v = one[0]
			t.FreshenGateway(c.Context(), &v)
			return a.Print().Show(v, func(p *core.Printer) { showSeed(p, v) })
		},
	}
}

func showSeed(p *core.Printer, v protocol.SeedView) {
	health := v.Health
	if v.Since != nil && v.Reason != "" {
		health += " since " + core.Age(*v.Since)
	}
	p.Fields(core.Plain("name"), core.Painted(core.Bold, v.Name), core.Plain("kind"), core.Plain(v.Kind), core.Plain("generation"), core.Plain(v.Generation),
		core.Plain("health"), core.Painted(healthColour(v.Health), health), core.Plain("why"), core.Plain(v.Reason), core.Plain("do"), core.Plain(v.Hint),
		core.Plain("verified"), core.Plain(show.When(v.VerifiedAt)), core.Plain("checked"), core.Plain(checkText(v.Check)), core.Plain("state"), core.Plain(v.State), core.Plain("rotated"), core.Plain(rotatedText(v.Rotated)),
		core.Plain("recovering"), core.Plain(recoveryText(v.Recovery)), core.Plain("held by"), core.Plain(strings.Join(holderTexts(v.Holders), "; ")),
		core.Plain("waiting"), core.Plain(atLeastOne(v.Queue)), core.Plain("shared by"), core.Plain(shareText(v)), core.Plain("pools"), core.Plain(strings.Join(v.Pools, ", ")),
		core.Plain("policy"), core.Plain(show.PolicyLine(v.Policy)), core.Plain("credentials"), core.Plain(v.Credentials), core.Plain("bounds"), core.Plain(boundWords(v.Bounds)), core.Plain("account"), core.Plain(identityOf(v)), core.Plain("usage"), core.Painted(useColour(v), usageText(v.Account)), core.Plain("model gateway"), core.Plain(v.Gateway.Text()), core.Plain("last used"), core.Plain(show.When(v.UsedAt)))
	var tools [][]core.Cell
	for _, t := range v.Tools {
		tools = append(tools, []core.Cell{core.Plain(t.Name), core.Plain(t.Handler)})
	}
	if len(tools) > 0 {
		p.Table([]string{"TOOL", "CARRIED OUT BY"}, tools)
	}
	var rules [][]core.Cell
	for _, r := range v.FollowUps {
		rules = append(rules, []core.Cell{core.Plain(r.Name), core.Plain(r.When), core.Plain(cmp.Or(r.Seed, "of the session"))})
	}
	if len(rules) > 0 {
		p.Table([]string{"FOLLOW-UP", "STARTS", "SEED"}, rules)
	}
	var rows [][]core.Cell
	for _, f := range v.Files {
		rows = append(rows, []core.Cell{core.Plain(f.Path), core.Plain(f.Mode), core.Painted(core.Dim, f.Digest)})
	}
	p.Table([]string{"FILE", "MODE", "SHA256"}, rows)
}

func atLeastOne(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func shareText(v protocol.SeedView) string {
	switch {
	case v.Kind == "chatgpt":
		return "one session at a time: it rotates"
	case v.Share == 0:
		return "any number of sessions"
	}
	return fmt.Sprintf("at most %d sessions at a time", v.Share)
}

// checkText describes a seed's newest verification, even if it did not change the health.
func checkText(c *protocol.SeedCheck) string {
	if c == nil {
		return ""
	}
	text := c.Verdict + ", " + core.Age(c.At)
	if c.By != "" {
		text += ", by " + c.By
	}
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	if c.Hint != "" {
		text += " (" + c.Hint + ")"
	}
	return text
}

func rotatedText(r *protocol.SeedRotated) string {
	if r == nil {
		return ""
	}
	text := fmt.Sprintf("by codex in session %s, %s, and not saved: nobody else gets the seed before", r.Session, core.Age(r.Since))
	if r.Reason != "" {
		text += " (" + r.Reason + ")"
	}
	return text
}

func recoveryText(r *protocol.SeedRecovery) string {
	if r == nil {
		return ""
	}
	text := fmt.Sprintf("%s; fetching what codex made of it from %s, try %d", r.Why, r.Host, r.Tries)
	if r.Problem != nil && r.NextTry != nil {
		text += ", the next one " + core.Age(*r.NextTry)
	}
	return text
}

func holderTexts(holders []protocol.SeedHolder) (out []string) {
	for _, h := range holders {
		out = append(out, fmt.Sprintf("%s on %s since %s (epoch %d)", h.Session, h.Host, core.Age(h.Since), h.Epoch))
	}
	return out
}
