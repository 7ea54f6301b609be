package conn

import (
	"context"
	"errors"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/signkey"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/sshsig"
)

// A signer signs what one run of ctl commands and asks. The key is loaded once, so that a
// passphrase is asked for once.
type signer struct {
	key ssh.Signer
	who string
}

type signerKey struct{}

// signerOf returns the signer of this run of ctl. A program signs with the certificate of its
// API token, for which a worker has to be up.
func signerOf(ctx context.Context, a *core.App, conf *config.Config) (signer, error) {
	return core.Once(a, signerKey{}, func() (signer, error) {
		token, err := apiToken(a, conf)
		switch {
		case err != nil:
			return signer{}, err
		case token != "":
			return certified(ctx, a)
		}
		key, who, err := principal(ctx, a, conf)
		return signer{key, who}, err
	})
}

// signed returns the arguments of a command with a signature, if the config says that
// workers require one.
func (t *Conn) signed(ctx context.Context, doing string, kind command.Kind, workflow, name string, args []any) ([]any, error) {
	conf, err := t.App.Config()
	if err != nil || conf.Authority != config.AuthorityRequired || len(args) != 1 {
		return args, err
	}
	key, who, err := Principal(ctx, t.App, doing)
	if err != nil {
		return nil, err
	}
	raw, err := command.Marshal(args[0])
	if err != nil {
		return nil, core.Failed("%s: %v", doing, err)
	}
	out, err := command.SignAs(kind, key, who, nil, workflow, name, raw, time.Now())
	if err != nil {
		return nil, core.Failed("%s: %v", doing, err).Because(err)
	}
	return []any{out}, nil
}

// signsRequests returns what signs requests to workers. Without a key requests are not
// signed, and the worker says what it refuses.
func signsRequests(a *core.App, conf *config.Config) func(context.Context, command.Request) (string, error) {
	return func(ctx context.Context, r command.Request) (string, error) {
		if r.Target == "/v1/login" || r.Target == "/v1/whoami" { // these have a proof of their own
			return "", nil
		}
		s, err := signerOf(ctx, a, conf)
		if errors.Is(err, signkey.ErrNoLogin) || err != nil && r.Target == statusTarget {
			return "", nil
		}
		if err != nil {
			return "", explained(err, conf, "sign a request to a worker")
		}
		header, err := command.SignRequest(s.key, s.who, r, time.Now())
		if err != nil {
			return "", core.Failed("%v", err).Because(err)
		}
		return header, nil
	}
}

// statusTarget is a path that workers also serve without a signature. ctl looks for a worker
// with it, and says what is wrong with the key when it has found a worker.
const statusTarget = "/v1/status"

// Signed returns the input of a workflow that a Schedule starts, with a signature if the
// config says that workers require one. workflowID is that of the Schedule's action.
func (t *Conn) Signed(ctx context.Context, doing, workflowID, workflowType string, input any) (any, error) {
	args, err := t.signed(ctx, doing, command.Start, workflowID, workflowType, []any{input})
	if err != nil {
		return nil, err
	}
	return args[0], nil
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
	s, err := signerOf(ctx, a, conf)
	if err != nil {
		return nil, "", explained(err, conf, doing)
	}
	return s.key, s.who, nil
}

// By returns who gives a command: the principal who signs it, or else the user of this
// machine.
func (t *Conn) By(ctx context.Context, doing string) (string, error) {
	conf, err := t.App.Config()
	if err != nil || conf.Authority != config.AuthorityRequired {
		return core.Person(), err
	}
	_, who, err := Principal(ctx, t.App, doing)
	return who, err
}

// explained makes an error of ctl's own, which says what was being done and what to do.
func explained(err error, conf *config.Config, doing string) error {
	var told *core.Error
	switch {
	case errors.As(err, &told):
		return core.NewError(told.Code, told.Kind, "%s: %s", doing, told.Message).Hinted("%s", told.Hint).Because(err)
	case errors.Is(err, signkey.ErrNoLogin):
		return core.Usage("%s: commands must be signed, and %v", doing, err).Because(err).
			Hinted("`ctl login`, or set principal and sign_with in %s", conf.Path())
	}
	return core.Usage("%s: %v", doing, err).Because(err).Hinted("set principal and sign_with in %s", conf.Path())
}
