package policy

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/policy"
)

// Command is `ctl policy`.
func Command(a *core.App) *cobra.Command {
	return core.Group("policy", "rules that decide approvals", checkCommand(a), testCommand(a))
}

// policyFile reads a policy. Its error lists every mistake.
func policyFile(a *core.App, doing, name string) (*policy.Policy, error) {
	data, err := a.Input(doing, name)
	if err != nil {
		return nil, err
	}
	p, err := policy.Parse(data)
	if err != nil {
		return nil, core.Usage("%s: %s: %v", doing, name, err).Hinted("fix the file; a session with a broken policy declines everything").Because(err)
	}
	return p, nil
}

func checkCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "find the mistakes of a policy file, and what is probably not meant", Args: cobra.ExactArgs(1),
		Long: `Reads a policy file as sessions do: YAML with rules in CEL, each checked for its types.
Exit 0: it holds; what is probably not meant is told as warnings. Exit 2: it is broken, with
every mistake and its line. - is standard input.`,
		Example: "  ctl policy check policy.yaml\n  ctl policy check - -o json < policy.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			p, err := policyFile(a, "check policy", args[0])
			if err != nil {
				return err
			}
			return a.Print().Show(viewOf(p), func(pr *core.Printer) { showPolicy(pr, args[0], p) })
		},
	}
}

// A policyView is a policy's JSON, with durations as text.
type policyView struct {
	*policy.Policy
	Expiry   string     `json:"expiry,omitempty"`
	Wait     policyWait `json:"wait"`
	Warnings []string   `json:"warnings"`
}

type policyWait struct {
	Quota     bool   `json:"quota"`
	RateLimit bool   `json:"rate_limit"`
	AtMost    string `json:"at_most,omitempty"`
}

func viewOf(p *policy.Policy) policyView {
	v := policyView{Policy: p, Expiry: spell(p.Expiry), Warnings: append([]string{}, p.Warnings...),
		Wait: policyWait{Quota: p.Wait.Quota, RateLimit: p.Wait.RateLimit, AtMost: spell(p.Wait.AtMost)}}
	return v
}

// spell returns "" for 0.
func spell(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func showPolicy(p *core.Printer, name string, pol *policy.Policy) {
	var rows [][]core.Cell
	for i, r := range pol.Rules {
		rows = append(rows, []core.Cell{core.Plain(i + 1), core.Painted(outcomeColour(r.Outcome), string(r.Outcome)), core.Painted(core.Bold, r.Name), core.Plain(core.OneLine(r.When, 80))})
	}
	rows = append(rows, []core.Cell{core.Plain(""), core.Painted(outcomeColour(pol.Default), string(pol.Default)), core.Plain("default"), core.Plain("where no rule holds")})
	p.Table([]string{"", "OUTCOME", "RULE", "WHEN"}, rows)
	p.Printf("\n")
	p.Fields(core.Plain("limits"), core.Plain(limitsText(pol.Limits)), core.Plain("expiry"), core.Plain(spell(pol.Expiry)), core.Plain("approvers"), core.Plain(approversText(pol)),
		core.Plain("policy"), core.Painted(core.Dim, pol.Digest))
	for _, w := range pol.Warnings {
		p.Printf("%s %s\n", p.Paint(core.Yellow, "warning:"), core.Clean(name+": "+w))
	}
}

func outcomeColour(o policy.Outcome) core.Style {
	switch o {
	case policy.Accept, policy.AcceptForSession:
		return core.Green
	case policy.Decline:
		return core.Red
	}
	return core.Yellow
}

func limitsText(l policy.Limits) string {
	var parts []string
	if l.ApprovalsPerTurn > 0 {
		parts = append(parts, fmt.Sprintf("%d approvals a turn", l.ApprovalsPerTurn))
	}
	if l.ApprovalsPerMinute > 0 {
		parts = append(parts, fmt.Sprintf("%d a minute", l.ApprovalsPerMinute))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ") + "; beyond: " + string(l.Beyond)
}

func approversText(p *policy.Policy) string {
	allowed := p.Allowed()
	if allowed == nil {
		return ""
	}
	names := allowed.Principals()
	if allowed.Authority() {
		names = append(names, "whom an authority certifies")
	}
	text := fmt.Sprintf("%d of %s must sign", p.Required, strings.Join(names, ", "))
	if !p.RequesterMayDecide {
		text += "; not the requester"
	}
	return text
}

func testCommand(a *core.App) *cobra.Command {
	var expect string
	c := &cobra.Command{
		Use: "test FILE REQUEST.json", Short: "what a policy says of a request", Args: cobra.ExactArgs(2),
		Long: `Prints the verdict of a policy on a request, with the rule that gave it. REQUEST.json holds
the facts of one approval, such as {"kind":"command","command":"git status","work":"/srv/a"};
- is standard input, for one of the two. With -o json also words, plain and paths as rules see them.
Exit 0: there is a verdict, whatever it is. Exit 1: it is not what --expect says. Exit 2: the
policy is broken or the request cannot be read.`,
		Example: `  ctl policy test policy.yaml request.json
  echo '{"kind":"command","command":"git status; rm -rf /"}' | ctl policy test policy.yaml - --expect ask`,
		RunE: func(c *cobra.Command, args []string) error {
			doing := "test policy " + args[0]
			if args[0] == "-" && args[1] == "-" {
				return core.Usage("test policy: standard input is the policy or the request, not both")
			}
			if err := checkOutcome(expect); c.Flags().Changed("expect") && err != nil {
				return err
			}
			p, err := policyFile(a, doing, args[0])
			if err != nil {
				return err
			}
			data, err := a.Input(doing, args[1])
			if err != nil {
				return err
			}
			r, err := policy.ReadRequest(data)
			if err != nil {
				return core.Usage("%s: %s: %v", doing, args[1], err).Hinted(`such as {"kind":"command","command":"git status"}`).Because(err)
			}
			e := p.Explain(r)
			if err := a.Print().Show(e, func(pr *core.Printer) { showVerdict(pr, e) }); err != nil {
				return err
			}
			if expect != "" && string(e.Outcome) != expect {
				a.Note("expected %s", expect)
				return core.ExitStatus(core.ExitFailed)
			}
			return nil
		},
	}
	c.Flags().StringVar(&expect, "expect", "", "the `OUTCOME` that it must be: accept, accept_for_session, decline or ask")
	_ = c.RegisterFlagCompletionFunc("expect", cobra.FixedCompletions(outcomeNames(), cobra.ShellCompDirectiveNoFileComp)) // fails only for unknown flags
	return c
}

func outcomeNames() []string {
	var names []string
	for _, o := range policy.Outcomes {
		names = append(names, string(o))
	}
	return names
}

func checkOutcome(s string) error {
	for _, name := range outcomeNames() {
		if s == name {
			return nil
		}
	}
	return core.Usage("--expect %q is not one of %s", s, strings.Join(outcomeNames(), ", "))
}

func showVerdict(p *core.Printer, e policy.Explanation) {
	words := "none: it is more than plain words, or no command"
	if e.Plain {
		words = fmt.Sprintf("%q", e.Words)
	}
	paths := ""
	if len(e.Paths) > 0 {
		paths = fmt.Sprintf("%q", e.Paths)
	}
	p.Fields(core.Plain("outcome"), core.Painted(outcomeColour(e.Outcome), string(e.Outcome)), core.Plain("rule"), core.Painted(core.Bold, e.Rule),
		core.Plain("reason"), core.Plain(e.Reason), core.Plain("words"), core.Plain(words), core.Plain("paths"), core.Plain(paths))
}
