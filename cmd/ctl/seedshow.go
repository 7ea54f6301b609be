package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/workflows"
)

func seedListCommand(a *app) *cobra.Command {
	var pool string
	c := &cobra.Command{
		Use: "list", Short: "seeds there are", Args: cobra.NoArgs, Example: "  ctl seed list\n  ctl seed list --pool logins",
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			list, err := t.seeds(c.Context(), "list seeds", func(v workflows.SeedView) bool { return pool == "" || slices.Contains(v.Pools, pool) })
			if err != nil {
				return err
			}
			return showAll(a.print(), list, func(p *printer) { listSeeds(p, list) })
		},
	}
	c.Flags().StringVar(&pool, "pool", "", "only those in this `POOL`")
	return c
}

func listSeeds(p *printer, list []workflows.SeedView) {
	var rows [][]cell
	for _, v := range list {
		rows = append(rows, []cell{painted(bold, v.Name), plain(v.Kind), plain(v.Generation), painted(healthColour(v.Health), v.Health),
			plain(seedState(v)), plain(strings.Join(v.HeldBy, " ")), plain(v.Queue), plain(strings.Join(v.Pools, " ")), plain(len(v.Files))})
	}
	p.table([]string{"NAME", "KIND", "GENERATION", "HEALTH", "STATE", "HELD BY", "WAITING", "POOLS", "FILES"}, rows)
}

func healthColour(health string) style {
	switch health {
	case workflows.Healthy:
		return green
	case workflows.Suspect, workflows.Dead:
		return red
	}
	return ""
}

// seedState describes the state of a seed in a few words.
func seedState(v workflows.SeedView) string {
	if v.Rotated != nil {
		return v.State + ", rotated and not saved"
	}
	return v.State
}

func seedShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "what a seed holds, never its secrets", Args: cobra.ExactArgs(1), Example: "  ctl seed show team",
		RunE: func(c *cobra.Command, args []string) error {
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			v, err := t.seed(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print().show(v, func(p *printer) { showSeed(p, v) })
		},
	}
}

func showSeed(p *printer, v workflows.SeedView) {
	health := v.Health
	if v.Since != nil && v.Reason != "" {
		health += " since " + age(*v.Since)
	}
	p.fields(plain("name"), painted(bold, v.Name), plain("kind"), plain(v.Kind), plain("generation"), plain(v.Generation),
		plain("health"), painted(healthColour(v.Health), health), plain("why"), plain(v.Reason), plain("do"), plain(v.Hint),
		plain("verified"), plain(when(v.VerifiedAt)), plain("checked"), plain(checkText(v.Check)), plain("state"), plain(v.State), plain("rotated"), plain(rotatedText(v.Rotated)),
		plain("recovering"), plain(recoveryText(v.Recovery)), plain("held by"), plain(strings.Join(holderTexts(v.Holders), "; ")),
		plain("waiting"), plain(atLeastOne(v.Queue)), plain("shared by"), plain(shareText(v)), plain("pools"), plain(strings.Join(v.Pools, ", ")),
		plain("policy"), plain(policyLine(v.Policy)), plain("last used"), plain(when(v.UsedAt)))
	var rows [][]cell
	for _, f := range v.Files {
		rows = append(rows, []cell{plain(f.Path), plain(f.Mode), painted(dim, f.Digest)})
	}
	p.table([]string{"FILE", "MODE", "SHA256"}, rows)
}

func when(t *time.Time) string {
	if t == nil {
		return ""
	}
	return age(*t)
}

func atLeastOne(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func shareText(v workflows.SeedView) string {
	switch {
	case v.Kind == "chatgpt":
		return "one session at a time: it rotates"
	case v.Share == 0:
		return "any number of sessions"
	}
	return fmt.Sprintf("at most %d sessions at a time", v.Share)
}

// checkText describes the newest verification of a seed: result, time, who asked, and the
// reason. It is shown even if the verification did not change the seed's health.
func checkText(c *workflows.SeedCheck) string {
	if c == nil {
		return ""
	}
	text := c.Verdict + ", " + age(c.At)
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

func rotatedText(r *workflows.SeedRotated) string {
	if r == nil {
		return ""
	}
	text := fmt.Sprintf("by codex in session %s, %s, and not saved: nobody else gets the seed before", r.Session, age(r.Since))
	if r.Reason != "" {
		text += " (" + r.Reason + ")"
	}
	return text
}

func recoveryText(r *workflows.SeedRecovery) string {
	if r == nil {
		return ""
	}
	text := fmt.Sprintf("%s; fetching what codex made of it from %s, try %d", r.Why, r.Host, r.Tries)
	if r.Problem != nil && r.NextTry != nil {
		text += ", the next one " + age(*r.NextTry)
	}
	return text
}

func holderTexts(holders []workflows.SeedHolder) (out []string) {
	for _, h := range holders {
		out = append(out, fmt.Sprintf("%s on %s since %s (epoch %d)", h.Session, h.Host, age(h.Since), h.Epoch))
	}
	return out
}
