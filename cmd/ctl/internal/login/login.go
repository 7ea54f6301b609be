package login

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/signkey"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/login"
)

const (
	doing = "log in"
	// patience bounds a login, with the time that a person needs in the browser.
	patience = 30 * time.Minute
)

// Login is `ctl login`.
func Login(a *core.App) *cobra.Command {
	var issuer string
	c := &cobra.Command{
		Use: "login", Short: "log in at the identity provider, to sign commands for some hours", Args: cobra.NoArgs,
		Long: `Shows an address and a code. Open the address in a browser on any machine, enter the code
and log in. A worker then gives a certificate to a key that ctl has just made. ctl signs
commands with it, unless sign_with in the config names another key. Key and certificate are
in the state folder (--state), and nobody else can read them.`,
		Example: "  ctl login\n  ctl login --issuer https://id.example.com\n  ctl login -o json | jq -r .expires_at",
		RunE: func(c *cobra.Command, _ []string) error {
			if a.Flags.NoInput {
				return core.NeedsPerson("%s: a person must enter a code in a browser", doing).Hinted("programs use a token or a key: principal and sign_with in the config")
			}
			ctx, cancel := a.Bounded(c.Context(), patience)
			defer cancel()
			l, err := logIn(ctx, a, issuer)
			if err != nil {
				return err
			}
			v := viewOf(l)
			return a.Print().Show(v, func(p *core.Printer) {
				p.Printf("%s\n", core.Clean(fmt.Sprintf("logged in as %s until %s", l.Principal, local(l.ExpiresAt))))
			})
		},
	}
	c.Flags().StringVar(&issuer, "issuer", "", "log in only at the identity provider with this `URL` (default: login.issuer of the config, or the one that the workers name)")
	return c
}

func local(t time.Time) string { return t.Local().Format(time.DateTime) }

func logIn(ctx context.Context, a *core.App, issuer string) (*signkey.Login, error) {
	settings, err := settings(ctx, a)
	if err != nil {
		return nil, err
	}
	conf, err := a.Config()
	if err != nil {
		return nil, err
	}
	for _, want := range []string{issuer, conf.Login.Issuer} {
		if want != "" && strings.TrimSuffix(want, "/") != strings.TrimSuffix(settings.Issuer, "/") {
			return nil, core.Refused("%s: the workers name the issuer %.200q, and not %s", doing, settings.Issuer, want).
				Hinted("if you know the issuer that the workers name, give it with --issuer or as login.issuer in the config")
		}
	}
	token, err := login.Device(ctx, settings, func(c login.Code) { show(a, c) })
	switch {
	case errors.Is(err, login.ErrIssuer):
		return nil, core.Unreachable("%s: %v", doing, err).Hinted("certificates that were issued before still count; try again when the issuer answers").Because(err)
	case errors.Is(err, login.ErrRefused):
		return nil, core.Refused("%s: %v", doing, err).Because(err)
	case err != nil:
		return nil, err
	}
	pair, err := signkey.NewPair()
	if err != nil {
		return nil, core.Failed("%s: make a key: %v", doing, err)
	}
	proof, err := login.Prove(pair.Signer, token)
	if err != nil {
		return nil, core.Failed("%s: %v", doing, err)
	}
	var got login.Certificate
	// Another worker than the first one may be up by now.
	err = conn.EachWorker(ctx, a, func(ctx context.Context, w *api.Client) (err error) {
		got, err = w.LogIn(ctx, login.Request{IDToken: token, PublicKey: pair.Public(), Proof: proof})
		return err
	})
	if err != nil {
		return nil, failure(err)
	}
	l, err := signkey.Save(a, pair, got.Certificate, settings.Issuer)
	if err != nil {
		return nil, core.Failed("%s: keep the certificate: %v", doing, err).Because(err)
	}
	return l, nil
}

// settings asks the workers where people log in.
func settings(ctx context.Context, a *core.App) (s login.Settings, err error) {
	err = conn.EachWorker(ctx, a, func(ctx context.Context, w *api.Client) (err error) {
		ctx, cancel := context.WithTimeout(ctx, conn.WorkerWait)
		defer cancel()
		s, err = w.LoginSettings(ctx)
		return err
	})
	return s, failure(err)
}

func failure(err error) error {
	var own *core.Error
	if errors.As(err, &own) {
		return core.NewError(own.Code, own.Kind, "%s: %s", doing, own.Message).Hinted("%s", own.Hint).Because(err)
	}
	return conn.APIFailure(doing, err)
}

// show tells a person what to do, also with -q, because the login waits for the person.
func show(a *core.App, c login.Code) {
	text := fmt.Sprintf("open %s and enter the code %s before %s", c.URL, c.Code, c.Expires.Local().Format(time.TimeOnly))
	if c.Direct != "" {
		text += "\nor open " + c.Direct + " and compare the code"
	}
	for line := range strings.Lines(text) {
		fmt.Fprintln(a.Err, core.Clean(strings.TrimSuffix(line, "\n")))
	}
}

// Logout is `ctl logout`.
func Logout(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "remove the key and the certificate of ctl login", Args: cobra.NoArgs,
		Long: `Removes the key and the certificate from the state folder. A copy of them can sign until the
certificate ends: if somebody may have one, let the access file revoke the certificate, whose
id ` + "`ctl whoami`" + ` shows.`,
		Example: "  ctl logout",
		RunE: func(*cobra.Command, []string) error {
			was, err := signkey.Forget(a)
			if err != nil {
				return core.Failed("log out: %v", err).Because(err)
			}
			v := struct {
				Removed bool `json:"removed"`
			}{was}
			return a.Print().Show(v, func(p *core.Printer) {
				if !was {
					p.Printf("nobody was logged in\n")
					return
				}
				p.Printf("logged out\n")
			})
		},
	}
}
