package conn

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/signkey"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/sshsig"
)

// A signer signs the commands of one run of ctl. The key is loaded once, so that a
// passphrase is asked for once.
type signer struct {
	once sync.Once
	key  ssh.Signer
	who  string
	err  error
}

// signed returns the arguments of a command with a signature, if the config says that
// workers require one.
func (t *Conn) signed(ctx context.Context, doing, workflow, name string, args []any) ([]any, error) {
	conf, err := t.App.Config()
	if err != nil || conf.Authority != config.AuthorityRequired || len(args) != 1 {
		return args, err
	}
	t.signer.once.Do(func() { t.signer.key, t.signer.who, t.signer.err = Principal(ctx, t.App, doing) })
	if t.signer.err != nil {
		return nil, t.signer.err
	}
	raw, err := command.Marshal(args[0])
	if err != nil {
		return nil, core.Failed("%s: %v", doing, err)
	}
	out, err := command.Sign(t.signer.key, t.signer.who, workflow, name, raw, time.Now())
	if err != nil {
		return nil, core.Failed("%s: %v", doing, err).Because(err)
	}
	return []any{out}, nil
}

// principal returns the key that signs and the name for it.
func principal(ctx context.Context, a *core.App, conf *config.Config) (ssh.Signer, string, error) {
	if conf.SignWith == "" || conf.SignWith == config.LoginKey {
		l, err := signkey.Saved(a)
		if err == nil {
			err = l.Now()
		}
		if err != nil {
			return nil, "", err
		}
		return l.Signer, l.Principal, nil
	}
	key, err := signkey.Load(ctx, a, conf.SignWith, sshsig.Choice{At: time.Now()})
	if err != nil {
		return nil, "", err
	}
	who := conf.Principal
	if cert, ok := key.PublicKey().(*ssh.Certificate); ok && who == "" && len(cert.ValidPrincipals) == 1 {
		who = cert.ValidPrincipals[0]
	}
	if who == "" {
		return nil, "", errors.New("commands must be signed, and the config has no principal")
	}
	return key, who, nil
}

// Principal returns the key with which ctl signs commands, and the name for it. The error
// is one of ctl's own.
func Principal(ctx context.Context, a *core.App, doing string) (ssh.Signer, string, error) {
	conf, err := a.Config()
	if err != nil {
		return nil, "", err
	}
	key, who, err := principal(ctx, a, conf)
	var told *core.Error
	switch {
	case err == nil:
		return key, who, nil
	case errors.As(err, &told):
		return nil, "", core.NewError(told.Code, told.Kind, "%s: %s", doing, told.Message).Hinted("%s", told.Hint).Because(err)
	case errors.Is(err, signkey.ErrNoLogin):
		return nil, "", core.Usage("%s: commands must be signed, and %v", doing, err).Because(err).
			Hinted("`ctl login`, or set principal and sign_with in %s", conf.Path())
	}
	return nil, "", core.Usage("%s: %v", doing, err).Because(err).Hinted("set principal and sign_with in %s", conf.Path())
}
