package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/workflows"
)

// budget is what --budget says; nil and 0 where it says nothing.
type budget struct {
	tokens *int64
	time   time.Duration
}

// parseBudget reads tokens=N,time=D.
func parseBudget(text string) (budget, error) {
	var b budget
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "tokens":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 {
				return b, usage("--budget: tokens=%s is no number of tokens", value).hinted("tokens=200000; tokens=0 means no bound")
			}
			b.tokens = &n
		case "time":
			d, err := time.ParseDuration(value)
			if err != nil || d <= 0 {
				return b, usage("--budget: time=%s is no duration", value).hinted("time=90m or time=2h")
			}
			b.time = d
		default:
			return b, usage("--budget: %q is neither tokens=N nor time=D", part).hinted("--budget tokens=200000,time=2h")
		}
	}
	return b, nil
}

func sessionSetCommand(a *app) *cobra.Command {
	var text string
	c := &cobra.Command{
		Use: "set ID", Short: "change what a session may use", Args: cobra.ExactArgs(1),
		Long: `Changes the session's bounds, also while a turn runs: tokens (input and output) that it may
use in all, and the longest turn. What is not given stays; tokens=0 takes the bound away.`,
		Example: "  ctl session set release-42 --budget tokens=500000,time=2h",
		RunE: func(c *cobra.Command, args []string) error {
			if text == "" {
				return usage("nothing to set").hinted("--budget tokens=N,time=D")
			}
			b, err := parseBudget(text)
			if err != nil {
				return err
			}
			return a.setBudget(c.Context(), args[0], b)
		},
	}
	c.Flags().StringVar(&text, "budget", "", "`tokens=N,time=D`: tokens that the session may use in all, longest turn")
	return c
}

func (a *app) setBudget(ctx context.Context, id string, b budget) error {
	m := workflows.Budget{By: person(), Tokens: b.tokens}
	if b.time > 0 {
		m.TurnTimeout = b.time.String()
	}
	return a.tell(ctx, id, "set the budget of session "+id, workflows.SignalBudget, m, nil, "budget set")
}

// budgetText is what a session may use; empty where nobody knows.
func budgetText(b *workflows.BudgetView) string {
	if b == nil {
		return ""
	}
	var out []string
	if b.Tokens > 0 {
		out = append(out, fmt.Sprintf("%d of %d tokens used", b.Used, b.Tokens))
	}
	if b.TurnTimeout != "" {
		out = append(out, "a turn may take "+roundTime(b.TurnTimeout))
	}
	return strings.Join(out, "; ")
}

// roundTime is a duration as people write it: 2h, not 2h0m0s.
func roundTime(d string) string {
	if strings.HasSuffix(d, "m0s") {
		d = strings.TrimSuffix(d, "0s")
	}
	if strings.HasSuffix(d, "h0m") {
		d = strings.TrimSuffix(d, "0m")
	}
	return d
}
