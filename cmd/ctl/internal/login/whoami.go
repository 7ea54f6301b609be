package login

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/signkey"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/sshsig"
)

// Where a principal comes from.
const (
	fromUnix        = "unix"
	fromKey         = "ssh_key"
	fromCertificate = "certificate"
	fromToken       = "token"
)

// A view is the JSON of `ctl whoami` and `ctl login`.
type view struct {
	Principal string   `json:"principal"`
	Groups    []string `json:"groups"`
	// Roles is left out if nobody could tell.
	Roles *[]access.Role `json:"roles,omitempty"`
	// Owner and Verbs are as in api.Caller.
	Owner       string        `json:"owner,omitempty"`
	Verbs       []access.Verb `json:"verbs,omitempty"`
	Key         string        `json:"key"`         // fingerprint, or empty
	Certificate string        `json:"certificate"` // id, or empty
	ExpiresAt   *time.Time    `json:"expires_at"`
	Source      string        `json:"source"` // unix, ssh_key, certificate or token
	Note        string        `json:"note,omitempty"`
}

func viewOf(l *signkey.Login) view {
	v := view{Principal: l.Principal, Groups: append([]string{}, l.Groups...)}
	v.from(l.Signer.PublicKey())
	return v
}

// from says which key a principal signs with.
func (v *view) from(key ssh.PublicKey) {
	v.Source, v.Key = fromKey, sshsig.Fingerprint(key)
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return
	}
	v.Source, v.Certificate = fromCertificate, cert.KeyId
	if cert.ValidBefore != ssh.CertTimeInfinity {
		end := time.Unix(int64(cert.ValidBefore), 0).UTC()
		v.ExpiresAt = &end
	}
}

// Whoami is `ctl whoami`.
func Whoami(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "the principal of the commands of this ctl, with groups and roles", Args: cobra.NoArgs,
		Long: `Shows the principal whose commands ctl gives, and until when. Groups and roles come from the
access file if the config names it and it can be read here, and otherwise from a worker. If
neither can be read, roles are left out, and a note says why. With an API token, a worker also
says who made the token, and what it may do: never more than that person.`,
		Example: "  ctl whoami\n  ctl whoami -o json | jq -r .expires_at",
		RunE: func(c *cobra.Command, _ []string) error {
			v, err := who(c.Context(), a)
			if err != nil {
				return err
			}
			return a.Print().Show(v, func(p *core.Printer) { tell(p, v) })
		},
	}
}

func tell(p *core.Printer, v view) {
	roles, until := "", ""
	if v.Roles != nil {
		var names []string
		for _, r := range *v.Roles {
			names = append(names, string(r))
		}
		if roles = strings.Join(names, ", "); roles == "" {
			roles = "none"
		}
	}
	if v.ExpiresAt != nil {
		until = local(*v.ExpiresAt)
	}
	p.Fields(core.Plain("principal"), core.Painted(core.Bold, v.Principal), core.Plain("groups"), core.Plain(strings.Join(v.Groups, ", ")),
		core.Plain("roles"), core.Plain(roles), core.Plain("source"), core.Plain(v.Source), core.Plain("key"), core.Plain(v.Key),
		core.Plain("certificate"), core.Plain(v.Certificate), core.Plain("token of"), core.Plain(v.Owner), core.Plain("may"), core.Plain(may(v.Verbs)), core.Plain("until"), core.Plain(until), core.Plain("note"), core.Plain(v.Note))
}

func may(verbs []access.Verb) string {
	var names []string
	for _, v := range verbs {
		names = append(names, string(v))
	}
	return strings.Join(names, ", ")
}

func who(ctx context.Context, a *core.App) (view, error) {
	const doing = "say who you are"
	conf, err := a.Config()
	if err != nil {
		return view{}, err
	}
	if conf.Authority != config.AuthorityRequired {
		// Who reaches Temporal with the payload key may do everything.
		return view{Principal: core.Person(), Groups: []string{}, Roles: &[]access.Role{access.Admin}, Source: fromUnix}, nil
	}
	key, name, err := conn.Principal(ctx, a, doing)
	if err != nil {
		return view{}, err
	}
	v := view{Principal: name, Groups: []string{}}
	v.from(key.PublicKey())
	if cert, ok := key.PublicKey().(*ssh.Certificate); ok {
		if v.Groups, err = access.CertificateGroups(cert); err != nil {
			return view{}, core.Failed("%s: certificate %q: %v", doing, cert.KeyId, err)
		}
		v.Groups = append([]string{}, v.Groups...)
	}
	if _, is := access.TokenName(name); is {
		v.Source = fromToken
	}
	caller, err := roles(ctx, a, conf, key, v)
	if err != nil {
		v.Note = "roles are not known: " + err.Error()
		return v, nil
	}
	v.Groups, v.Roles, v.Owner, v.Verbs = caller.Groups, &caller.Roles, caller.Owner, caller.Verbs
	return v, nil
}

// roles asks the access file, or else a worker. Only workers know tokens.
func roles(ctx context.Context, a *core.App, conf *config.Config, key ssh.Signer, v view) (api.Caller, error) {
	if conf.Access != "" && v.Source != fromToken {
		if data, err := core.ReadSmall("access", conf.Access, access.MaxFile); err == nil {
			f, err := access.Parse(data)
			if err != nil {
				return api.Caller{}, err
			}
			if why := f.Revoked(key.PublicKey()); why != "" {
				return api.Caller{}, errors.New(why)
			}
			if f.RevokedPerson(v.Principal) {
				return api.Caller{}, errors.New(v.Principal + " is revoked")
			}
			return api.CallerOf(f, v.Principal, v.Groups), nil
		}
	}
	ctx, cancel := a.Bounded(ctx, conn.AnswerWait)
	defer cancel()
	var out api.Caller
	err := conn.EachWorker(ctx, a, func(ctx context.Context, w *api.Client) (err error) {
		ctx, cancel := context.WithTimeout(ctx, conn.WorkerWait)
		defer cancel()
		out, err = w.Whoami(ctx, func(workflow, name string, args []byte) ([]byte, error) {
			return command.Sign(key, v.Principal, workflow, name, args, time.Now())
		})
		return err
	})
	return out, err
}
