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

// signerOf returns the signer of this run of ctl.
func signerOf(ctx context.Context, a *core.App, conf *config.Config) (signer, error) {
	return core.Once(a, signerKey{}, func() (signer, error) {
		key, who, err := principal(ctx, a, conf)
		return signer{key, who}, err
	})
}

type programKey struct{}

// signerOf returns what signs commands: a program signs with the certificate of its API
// token, for which a worker has to be up.
func (t *Conn) signerOf(ctx context.Context, conf *config.Config) (signer, error) {
	token, err := apiToken(t.App, conf)
	switch {
	case err != nil:
		return signer{}, err
	case token == "":
		return signerOf(ctx, t.App, conf)
	}
	return core.Once(t.App, programKey{}, func() (signer, error) {
		key, who, err := certified(ctx, t.App, t)
		return signer{key, who}, err
	})
}

// signed returns the arguments of a command with a signature, if the config says that
// workers require one.
func (t *Conn) signed(ctx context.Context, doing, workflow, name string, args []any) ([]any, error) {
	conf, err := t.App.Config()
	if err != nil || conf.Authority != config.AuthorityRequired || len(args) != 1 {
		return args, err
	}
	s, err := t.signerOf(ctx, conf)
	var own *core.Error
	if errors.As(err, &own) {
		return nil, err
	}
	if err != nil {
		return nil, core.Usage("%s: %v", doing, err).Because(err).
			Hinted("set principal and sign_with in %s", conf.Path())
	}
	raw, err := command.Marshal(args[0])
	if err != nil {
		return nil, core.Failed("%s: %v", doing, err)
	}
	out, err := command.Sign(s.key, s.who, workflow, name, raw, time.Now())
	if err != nil {
		return nil, core.Failed("%s: %v", doing, err).Because(err)
	}
	return []any{out}, nil
}

// signsRequests returns what signs requests to workers, or nil if the config says that
// workers ask for no signature. Without a key requests are not signed, and the worker says
// what it refuses.
func signsRequests(a *core.App, conf *config.Config) func(context.Context, command.Request) (string, error) {
	if conf.Authority != config.AuthorityRequired {
		return nil
	}
	return func(ctx context.Context, r command.Request) (string, error) {
		s, err := signerOf(ctx, a, conf)
		if errors.Is(err, errNoSigner) || err != nil && r.Target == statusTarget {
			return "", nil
		}
		if err != nil {
			return "", core.Usage("sign a request to a worker: %v", err).Because(err).Hinted("set principal and sign_with in %s", conf.Path())
		}
		header, err := command.SignRequest(s.key, s.who, r, time.Now())
		if err != nil {
			return "", core.Failed("%v", err).Because(err)
		}
		return header, nil
	}
}

// statusTarget is what workers tell strangers, too. ctl looks for a worker with it, and says
// what is wrong with the key when it has found one.
const statusTarget = "/v1/status"

// errNoSigner means that the config names no key.
var errNoSigner = errors.New("commands must be signed, and the config has no sign_with")

// principal returns the key that signs and the name for it.
func principal(ctx context.Context, a *core.App, conf *config.Config) (ssh.Signer, string, error) {
	if conf.SignWith == "" {
		return nil, "", errNoSigner
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
