package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows"
)

// budgetHelp and budgetExample say how --budget is written.
const (
	budgetHelp    = "`tokens=N,turns=N,time=D,turn=D,approvals=N,commands=N`, or some of them: what the session may use in all, and (turn) the longest turn; a running turn is interrupted where it ends"
	budgetExample = "--budget tokens=200000,turns=20,time=8h,turn=2h,approvals=50,commands=500"
)

// parseBudget reads the value of --budget. Bounds that are not named stay unset. time is
// for all turns together, turn for one. 0 removes a bound.
func parseBudget(text string) (workflows.Budget, error) {
	var b workflows.Budget
	counts := map[string]**int64{"tokens": &b.Tokens, "turns": &b.Turns, "approvals": &b.Approvals, "commands": &b.Commands}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if seen[name] {
			return b, usage("--budget: %s is given twice", name).hinted(budgetExample)
		}
		seen[name] = true
		if to := counts[name]; to != nil {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 {
				return b, usage("--budget: %s=%s is no number of %s", name, value, name).hinted("%s=200; %s=0 means no bound", name, name)
			}
			*to = &n
			continue
		}
		d, err := time.ParseDuration(value)
		switch {
		case name != "time" && name != "turn":
			return b, usage("--budget: %q is none of tokens=N, turns=N, time=D, turn=D, approvals=N, commands=N", part).hinted(budgetExample)
		case err != nil || d < 0 || name == "turn" && d == 0:
			return b, usage("--budget: %s=%s is no duration", name, value).hinted("%s=90m or %s=2h", name, name)
		case name == "time":
			b.Time = d.String()
		default:
			b.TurnTimeout = d.String()
		}
	}
	return b, nil
}

func sessionSetCommand(a *app) *cobra.Command {
	var text string
	var choice chooseFlags
	c := &cobra.Command{
		Use: "set ID", Short: "change what a session works with, and what it may use", Args: cobra.ExactArgs(1),
		Long: `Changes the session's bounds, also while a turn runs: tokens (input and output), turns, time
(of the turns together, without what approvals waited for people), approvals asked for and
commands begun that it may use in all, and turn, the longest turn. A turn that uses more is
interrupted, and says of what; at 80 % that is said in the transcript. What is not given
stays; tokens=0 takes the bound away.
Model and effort hold from the next turn on, also after the session parked or was forked. They are
checked against what codex lists ('ctl session models ID'); an effort that a new model does not
have becomes the next lower one.`,
		Example: "  ctl session set release-42 --budget tokens=500000,time=8h,turn=2h\n  ctl session set release-42 --budget approvals=50,commands=0\n  ctl session set release-42 --model gpt-6.1-sol --effort high",
		RunE: func(c *cobra.Command, args []string) error {
			m := choice.set(c)
			if text == "" && m == nil {
				return usage("nothing to set").hinted("--model M, --effort E, --name NAME, %s", budgetExample)
			}
			var b workflows.Budget
			if text != "" {
				var err error
				if b, err = parseBudget(text); err != nil {
					return err
				}
			}
			if m != nil {
				if err := a.choose(c.Context(), args[0], *m, quietIf(text != "", "set")); err != nil || text == "" {
					return err
				}
			}
			return a.setBudget(c.Context(), args[0], b)
		},
	}
	choice.add(c)
	c.Flags().StringVar(&text, "budget", "", budgetHelp)
	return c
}

func (a *app) setBudget(ctx context.Context, id string, m workflows.Budget) error {
	m.By = person()
	return a.tell(ctx, id, "set the budget of session "+id, workflows.SignalBudget, m, nil, "budget set")
}

// budgetText describes the budget of a session. It is empty if the budget is unknown.
func budgetText(b *workflows.BudgetView) string {
	if b == nil {
		return ""
	}
	var out []string
	for _, c := range []struct {
		name string
		workflows.BudgetCount
	}{{"tokens", b.Tokens}, {"turns", b.Turns}, {"approvals", b.Approvals}, {"commands", b.Commands}} {
		if c.Limit > 0 {
			out = append(out, fmt.Sprintf("%d of %d %s used", c.Used, c.Limit, c.name))
		}
	}
	if b.Time.Limit != "" {
		out = append(out, fmt.Sprintf("%s of %s used", b.Time.Used, roundTime(b.Time.Limit)))
	}
	if b.TurnTimeout != "" {
		out = append(out, "a turn may take "+roundTime(b.TurnTimeout))
	}
	return strings.Join(out, "; ")
}

// budgetWarnings lists the bounds that are almost reached.
func budgetWarnings(b *workflows.BudgetView) string {
	if b == nil {
		return ""
	}
	return strings.Join(b.Warnings, "; ")
}

// sameBudget gives a session that continues from a snapshot the same budget as the former
// session, in full again. --budget and --turn-timeout replace single bounds. If the former
// budget is unknown, the user must state one: without a budget the session could use more
// than the former one.
func sameBudget(opt *workflows.SessionOptions, m snapshots.Manifest, former workflows.SessionView, asked string, given func(flag string) bool) error {
	words := m.Budget
	if former.Budget != nil { // it may have been changed since the snapshot
		words = former.Budget.Words()
	}
	if words == "" && !given("budget") {
		return usage("restore snapshot %s: it does not say what its session might use, and session %s is not there to say it", m.ID, m.Session).
			hinted("say it with --budget; tokens=0 is no bound")
	}
	turn := opt.TurnTimeout
	if err := budgetOf(opt, words); err != nil {
		return err
	}
	if given("turn-timeout") {
		opt.TurnTimeout = turn
	}
	return budgetOf(opt, asked)
}

// budgetOf sets the bounds of a session from the text form of a budget. An empty text sets
// none.
func budgetOf(opt *workflows.SessionOptions, words string) error {
	if words == "" {
		return nil
	}
	b, err := parseBudget(words)
	if err == nil {
		err = opt.SetBudget(b)
	}
	return err
}

// roundTime shortens a duration: 2h for 2h0m0s.
func roundTime(d string) string {
	if strings.HasSuffix(d, "m0s") {
		d = strings.TrimSuffix(d, "0s")
	}
	if strings.HasSuffix(d, "h0m") {
		d = strings.TrimSuffix(d, "0m")
	}
	return d
}
