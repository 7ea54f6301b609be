package token

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/tokens"
)

// Command is `ctl token`.
func Command(a *core.App) *cobra.Command {
	return core.Group("token", "API tokens, with which programs act for you", createCommand(a), listCommand(a), revokeCommand(a))
}

// askWait bounds the wait for a worker.
const askWait = 10 * time.Second

// ask asks a worker about tokens. It needs no Temporal if the config or the stack names one.
func ask[T any](ctx context.Context, a *core.App, doing string, what func(context.Context, *api.Client) (T, error)) (got T, err error) {
	err = conn.EachWorker(ctx, a, func(ctx context.Context, worker *api.Client) error {
		ctx, cancel := a.Bounded(ctx, askWait)
		defer cancel()
		var err error
		got, err = what(ctx, worker)
		return err
	})
	return got, conn.APIFailure(doing, err)
}

func createCommand(a *core.App) *cobra.Command {
	var roles, scope []string
	var expires string
	var apiOnly bool
	c := &cobra.Command{
		Use: "create NAME --role R", Short: "make a token for a program", Args: cobra.ExactArgs(1),
		Long: `Makes a token of yours and prints it, once: write it into a file of mode 600. The program gives the
name of that file in FAIRLEAD_TOKEN_FILE, or in token_file of its config, or sends the token to a
worker's API (Authorization: Bearer). It acts as token:NAME, with the roles that you give, and never
may do more than you may do yourself at that time. It cannot make tokens. A name is used once.
A program signs its commands with a certificate that a worker gives it. So ctl makes no token if
the worker has no key to sign certificates (login.certificate_key), or if no authority of the access
file may certify token:NAME. With --api-only neither is needed: the program signs no commands, and
sends the token to the API of a worker.`,
		Example: "  (umask 077; ctl token create nightly --role operator > nightly.token)\n  ctl token create reader --role viewer --scope session.read --expires 30d -o json",
		RunE: func(c *cobra.Command, args []string) error {
			doing := "create token " + args[0]
			in := api.NewToken{Name: args[0], APIOnly: apiOnly}
			if err := core.CheckName("token name", args[0]); err != nil {
				return err
			}
			for _, r := range roles {
				if !slices.Contains(access.Roles, access.Role(r)) {
					return core.Usage("--role: %.40q is none of the roles: %s", r, join(access.Roles))
				}
				in.Roles = append(in.Roles, access.Role(r))
			}
			for _, v := range scope {
				if !slices.Contains(access.Verbs, access.Verb(v)) {
					return core.Usage("--scope: %.40q is none of the verbs: %s", v, join(access.Verbs))
				}
				in.Scope = append(in.Scope, access.Verb(v))
			}
			life, err := lifetime(expires)
			if err != nil {
				return err
			}
			in.Seconds = int64(life / time.Second)
			made, err := ask(c.Context(), a, doing, func(ctx context.Context, w *api.Client) (api.MadeToken, error) { return w.CreateAPIToken(ctx, in) })
			if err != nil {
				return err
			}
			a.Note("token %s counts until %s: it is shown once", made.Principal(), made.ExpiresAt.UTC().Format(time.RFC3339))
			return a.Print().Show(createdView{viewOf(made.Token, time.Now()), made.Secret}, func(p *core.Printer) { p.Exact(made.Secret + "\n") })
		},
	}
	c.Flags().StringSliceVar(&roles, "role", nil, "a `ROLE` of the token, or several: "+join(access.Roles))
	c.Flags().StringSliceVar(&scope, "scope", nil, "only these `VERBS` of its roles, such as session.read")
	c.Flags().StringVar(&expires, "expires", "90d", "the `TIME` after which it ends, such as 12h or 30d; 365d at most")
	c.Flags().BoolVar(&apiOnly, "api-only", false, "the program only sends the token to workers' API, and signs no commands")
	_ = c.MarkFlagRequired("role")
	return c
}

// lifetime reads a time of hours and so on, or of days.
func lifetime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, aerr := strconv.Atoi(days); aerr == nil && n >= 0 && n <= 365 {
			d, err = time.Duration(n)*24*time.Hour, nil
		}
	}
	if err != nil || d < time.Second || d > tokens.MaxLifetime {
		return 0, core.Usage("--expires: %.40q is not a time between 1s and 365d, such as 12h or 30d", text)
	}
	return d, nil
}

func join[T ~string](all []T) string {
	var b []string
	for _, v := range all {
		b = append(b, string(v))
	}
	return strings.Join(b, ", ")
}

// A view is the JSON of a token.
type view struct {
	access.Token
	Principal string `json:"principal"`
	State     string `json:"state"` // active, expired, revoked
}

type createdView struct {
	view
	Secret string `json:"token"`
}

func viewOf(t access.Token, now time.Time) view {
	v := view{Token: t, Principal: t.Principal(), State: "active"}
	switch {
	case !t.RevokedAt.IsZero():
		v.State = "revoked"
	case !now.Before(t.ExpiresAt):
		v.State = "expired"
	}
	return v
}

func listCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "tokens, also those that ended", Args: cobra.NoArgs,
		Long:    "Lists the records of all tokens, never their secrets. It needs the verb token.write, as making and revoking do.",
		Example: "  ctl token list\n  ctl token list -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := ask(c.Context(), a, "list tokens", func(ctx context.Context, w *api.Client) ([]access.Token, error) { return w.APITokens(ctx) })
			if err != nil {
				return err
			}
			views := []view{}
			for _, t := range all {
				views = append(views, viewOf(t, time.Now()))
			}
			return core.ShowAll(a.Print(), views, func(p *core.Printer) {
				var rows [][]core.Cell
				for _, v := range views {
					style := core.Green
					if v.State != "active" {
						style = core.Dim
					}
					rows = append(rows, []core.Cell{core.Painted(core.Bold, v.Name), core.Painted(style, v.State), core.Plain(v.Owner), core.Plain(join(v.Roles)),
						core.Plain(join(v.Scope)), core.Plain(v.ExpiresAt.UTC().Format("2006-01-02 15:04")), core.Plain(v.RevokedBy)})
				}
				p.Table([]string{"TOKEN", "STATE", "OWNER", "ROLES", "SCOPE", "EXPIRES (UTC)", "REVOKED BY"}, rows)
			})
		},
	}
}

func revokeCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME", Short: "end a token, on every worker within a minute", Args: cobra.ExactArgs(1),
		Long: `Ends a token, and the certificates that were signed for it. What the program began goes on.
In the access file, token:NAME under revoked.people has the same effect.`,
		Example: "  ctl token revoke nightly",
		RunE: func(c *cobra.Command, args []string) error {
			if err := core.CheckName("token name", args[0]); err != nil {
				return err
			}
			t, err := ask(c.Context(), a, "revoke token "+args[0], func(ctx context.Context, w *api.Client) (access.Token, error) {
				return w.RevokeAPIToken(ctx, args[0])
			})
			if err != nil {
				return err
			}
			v := viewOf(t, time.Now())
			return a.Print().Show(v, func(p *core.Printer) {
				p.Printf("token %s was revoked by %s at %s\n", core.Clean(t.Name), core.Clean(t.RevokedBy), t.RevokedAt.UTC().Format(time.RFC3339))
			})
		},
	}
}
