package notify

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
)

func linkCommand(a *core.App) *cobra.Command {
	var list bool
	var remove string
	c := &cobra.Command{
		Use: "link", Short: "decide approvals from your Slack account", Args: cobra.NoArgs,
		Long: `Prints a code. Whoever sends it to the app in Slack (/fairlead link CODE) within 10 minutes decides
for you there from then on, so give it to nobody. A code works once. Five accounts can be linked to
you. It needs the verb approval.decide (role approver). Each decision is judged by the access file
when it is made; groups that the issuer of a login names do not count in Slack.`,
		Example: "  ctl notify link\n  ctl notify link --list\n  ctl notify link --remove T0123456789/U0123456789",
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case list && remove != "":
				return core.Usage("link a Slack account: --list and --remove are both given")
			case list:
				return listAccounts(c.Context(), a)
			case c.Flags().Changed("remove"):
				return removeAccount(c.Context(), a, remove)
			}
			return newCode(c.Context(), a)
		},
	}
	c.Flags().BoolVar(&list, "list", false, "list the accounts that are linked to you")
	c.Flags().StringVar(&remove, "remove", "", "end the link of `ACCOUNT`, as --list shows it")
	return c
}

const linkWait = 30 * time.Second

// askWorkers asks workers until one has an answer.
func askWorkers[T any](ctx context.Context, a *core.App, doing string, what func(context.Context, *api.Client) (T, error)) (got T, err error) {
	err = conn.EachWorker(ctx, a, func(ctx context.Context, w *api.Client) error {
		ctx, cancel := a.Bounded(ctx, linkWait)
		defer cancel()
		var err error
		got, err = what(ctx, w)
		return err
	})
	return got, conn.APIFailure(doing, err)
}

func newCode(ctx context.Context, a *core.App) error {
	v, err := askWorkers(ctx, a, "link a Slack account", func(ctx context.Context, w *api.Client) (api.SlackCode, error) { return w.SlackCode(ctx) })
	if err != nil {
		return err
	}
	return a.Print().Show(v, func(p *core.Printer) {
		p.Printf("send this to the app in Slack, until %s:\n\n  /fairlead link %s\n", v.ExpiresAt.Local().Format("15:04:05"), v.Code)
	})
}

func listAccounts(ctx context.Context, a *core.App) error {
	all, err := askWorkers(ctx, a, "list Slack accounts", func(ctx context.Context, w *api.Client) ([]api.SlackAccount, error) { return w.SlackAccounts(ctx) })
	if err != nil {
		return err
	}
	return core.ShowAll(a.Print(), all, func(p *core.Printer) {
		var rows [][]core.Cell
		for _, k := range all {
			rows = append(rows, []core.Cell{core.Plain(k.Account), core.Plain(k.LinkedAt.Local().Format(time.DateTime))})
		}
		p.Table([]string{"ACCOUNT", "LINKED"}, rows)
	})
}

func removeAccount(ctx context.Context, a *core.App, account string) error {
	const doing = "unlink a Slack account"
	team, user, _ := strings.Cut(account, "/")
	for _, part := range []string{team, user} {
		if part == "" || strings.Trim(part, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
			return core.Usage("%s: %q is not an account, such as T0123456789/U0123456789", doing, account)
		}
	}
	v, err := askWorkers(ctx, a, doing, func(ctx context.Context, w *api.Client) (api.SlackAccount, error) {
		return w.UnlinkSlack(ctx, team, user)
	})
	if err != nil {
		return err
	}
	return a.Print().Show(v, func(p *core.Printer) {
		p.Printf("%s decides for you no more\n", core.Clean(cmp.Or(v.Account, account)))
	})
}
