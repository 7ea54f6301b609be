package cluster

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/cluster"
)

// Command is `ctl cluster`.
func Command(a *core.App) *cobra.Command {
	return core.Group("cluster", "what a Temporal cluster lacks for Fairlead", check(a), prepare(a))
}

func check(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "find what a Temporal cluster lacks, with the command that fixes it", Args: cobra.NoArgs,
		Long: `Looks at the server and the namespace that ctl uses (--address, --namespace): version, retention,
sizes of payloads, search attributes, queries. Each line says how to fix what is missing. Changes
nothing. Exit 1 if Fairlead cannot work there.`,
		Example: "  ctl cluster check\n  ctl cluster check -o json | jq -r 'select(.ok | not).hint'",
		RunE: func(c *cobra.Command, _ []string) error {
			const doing = "check the cluster"
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			call, cancel := a.Bounded(c.Context(), conn.AnswerWait)
			defer cancel()
			findings, err := cluster.Check(call, t, t.Namespace)
			if err != nil {
				return t.Explain(call, doing, err)
			}
			if err := core.ShowAll(a.Print(), findings, func(p *core.Printer) { show(p, findings) }); err != nil {
				return err
			}
			var bad []string
			for _, f := range findings {
				if !f.OK {
					bad = append(bad, f.Name)
				}
			}
			if bad != nil {
				return core.NewError(core.ExitFailed, "check_failed", "%s: Fairlead cannot work in namespace %s at %s: %d of %d checks failed: %s",
					doing, t.Namespace, t.Address, len(bad), len(findings), strings.Join(bad, ", "))
			}
			return nil
		},
	}
}

func show(p *core.Printer, findings []cluster.Finding) {
	for _, f := range findings {
		mark, style := p.Paint(core.Green, "ok  "), core.Style("")
		if !f.OK {
			mark, style = p.Paint(core.Red, "FAIL"), core.Yellow
		}
		p.Printf("%s  %-11s %s\n", mark, f.Name, core.Clean(f.Detail))
		if f.Hint != "" {
			p.Printf("      %-11s %s\n", "", p.Paint(style, "→ "+core.Clean(f.Hint)))
		}
	}
}

// prepareWait bounds the wait for a server to take new attributes.
const prepareWait = 2 * time.Minute

type prepared struct {
	Namespace string      `json:"namespace"`
	Made      []attribute `json:"made"`
}

type attribute struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

func prepare(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "prepare", Short: "register the search attributes that a namespace lacks", Args: cobra.NoArgs,
		Long: `Registers Fairlead's search attributes in the namespace that ctl uses, and waits until the server
takes them (--timeout, 2m). May be repeated: what is there stays. It needs the right to change the
namespace. Where Temporal's SQL database has too few columns left, use a namespace of its own.`,
		Example: "  ctl cluster prepare --namespace fairlead",
		RunE: func(c *cobra.Command, _ []string) error {
			const doing = "prepare the cluster"
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			call, cancel := a.Bounded(c.Context(), prepareWait)
			defer cancel()
			made, err := cluster.Prepare(call, t, t.Namespace)
			if err != nil {
				return failed(call, t, doing, made, err)
			}
			v := prepared{Namespace: t.Namespace, Made: []attribute{}}
			for _, m := range made {
				v.Made = append(v.Made, attribute{m.Name, m.Type.String()})
			}
			return a.Print().Show(v, func(p *core.Printer) {
				if len(v.Made) == 0 {
					p.Printf("namespace %s has all search attributes\n", v.Namespace)
				}
				for _, m := range v.Made {
					p.Printf("registered %s (%s)\n", m.Name, m.Type)
				}
			})
		},
	}
}

func failed(ctx context.Context, t *conn.Conn, doing string, made []cluster.Attribute, err error) error {
	var lack *cluster.LackError
	switch {
	case errors.As(err, &lack) && len(lack.Lack.Other) > 0:
		return core.Refused("%s: %v", doing, err).Hinted("`ctl cluster check` names the commands").Because(err)
	case len(made) > 0 && ctx.Err() != nil:
		return core.TimedOut("%s: the server does not take the new search attributes yet: %v", doing, err).Hinted("wait a minute, and repeat it").Because(err)
	}
	return t.Explain(ctx, doing, err)
}
