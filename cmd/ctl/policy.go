package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/internal/policy"
)

func policyCommand(a *app) *cobra.Command {
	return group("policy", "rules that decide approvals", policyCheckCommand(a), policyTestCommand(a))
}

// maxInput bounds the size of a file that the user names, in bytes.
const maxInput = 4 << 20

// input reads a file, or standard input if the name is "-".
func (a *app) input(doing, name string) ([]byte, error) {
	data, err := a.readInput(name)
	var path *fs.PathError
	switch {
	case errors.As(err, &path):
		return nil, usage("%s: %s: %v", doing, name, path.Err).because(err)
	case err != nil:
		return nil, usage("%s: %s: %v", doing, name, err).because(err)
	case len(data) > maxInput:
		return nil, usage("%s: %s has more than %d bytes", doing, name, maxInput)
	}
	return data, nil
}

func (a *app) readInput(name string) ([]byte, error) {
	r := a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	}
	return io.ReadAll(io.LimitReader(r, maxInput+1))
}

// policyFile reads a policy. A broken one is a usage error that lists every mistake.
func (a *app) policyFile(doing, name string) (*policy.Policy, error) {
	data, err := a.input(doing, name)
	if err != nil {
		return nil, err
	}
	p, err := policy.Parse(data)
	if err != nil {
		return nil, usage("%s: %s: %v", doing, name, err).hinted("mend the file: a session with a broken policy declines everything").because(err)
	}
	return p, nil
}

func policyCheckCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "find the mistakes of a policy file, and what is probably not meant", Args: cobra.ExactArgs(1),
		Long: `Reads a policy file as sessions do: YAML with rules in CEL, each checked for its types.
Exit 0: it holds; what is probably not meant is told as warnings. Exit 2: it is broken, with
every mistake and its line. - is standard input.`,
		Example: "  ctl policy check policy.yaml\n  ctl policy check - -o json < policy.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			p, err := a.policyFile("check policy", args[0])
			if err != nil {
				return err
			}
			return a.print().show(viewOf(p), func(pr *printer) { showPolicy(pr, args[0], p) })
		},
	}
}

// A policyView is the JSON of a policy, with durations as text.
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

// spell returns a duration as text, empty for 0.
func spell(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func showPolicy(p *printer, name string, pol *policy.Policy) {
	var rows [][]cell
	for i, r := range pol.Rules {
		rows = append(rows, []cell{plain(i + 1), painted(outcomeColour(r.Outcome), string(r.Outcome)), painted(bold, r.Name), plain(oneLine(r.When, 80))})
	}
	rows = append(rows, []cell{plain(""), painted(outcomeColour(pol.Default), string(pol.Default)), plain("default"), plain("where no rule holds")})
	p.table([]string{"", "OUTCOME", "RULE", "WHEN"}, rows)
	p.printf("\n")
	p.fields(plain("limits"), plain(limitsText(pol.Limits)), plain("expiry"), plain(spell(pol.Expiry)), plain("approvers"), plain(approversText(pol)),
		plain("policy"), painted(dim, pol.Digest))
	for _, w := range pol.Warnings {
		p.printf("%s %s\n", p.paint(yellow, "warning:"), clean(name+": "+w))
	}
}

func outcomeColour(o policy.Outcome) style {
	switch o {
	case policy.Accept, policy.AcceptForSession:
		return green
	case policy.Decline:
		return red
	}
	return yellow
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

func policyTestCommand(a *app) *cobra.Command {
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
				return usage("test policy: standard input is the policy or the request, not both")
			}
			if err := checkOutcome(expect); c.Flags().Changed("expect") && err != nil {
				return err
			}
			p, err := a.policyFile(doing, args[0])
			if err != nil {
				return err
			}
			data, err := a.input(doing, args[1])
			if err != nil {
				return err
			}
			r, err := policy.ReadRequest(data)
			if err != nil {
				return usage("%s: %s: %v", doing, args[1], err).hinted(`such as {"kind":"command","command":"git status"}`).because(err)
			}
			e := p.Explain(r)
			if err := a.print().show(e, func(pr *printer) { showVerdict(pr, e) }); err != nil {
				return err
			}
			if expect != "" && string(e.Outcome) != expect {
				a.note("expected %s", expect)
				return exitStatus(exitFailed)
			}
			return nil
		},
	}
	c.Flags().StringVar(&expect, "expect", "", "the `OUTCOME` that it must be: accept, accept_for_session, decline or ask")
	_ = c.RegisterFlagCompletionFunc("expect", cobra.FixedCompletions(outcomeNames(), cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that does not exist
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
	return usage("--expect %q is none of %s", s, strings.Join(outcomeNames(), ", "))
}

func showVerdict(p *printer, e policy.Explanation) {
	words := "none: it is more than plain words, or no command"
	if e.Plain {
		words = fmt.Sprintf("%q", e.Words)
	}
	paths := ""
	if len(e.Paths) > 0 {
		paths = fmt.Sprintf("%q", e.Paths)
	}
	p.fields(plain("outcome"), painted(outcomeColour(e.Outcome), string(e.Outcome)), plain("rule"), painted(bold, e.Rule),
		plain("reason"), plain(e.Reason), plain("words"), plain(words), plain("paths"), plain(paths))
}
