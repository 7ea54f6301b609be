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
	t.signer.once.Do(func() { t.signer.key, t.signer.who, t.signer.err = principal(ctx, t.App, conf) })
	if t.signer.err != nil {
		return nil, core.Usage("%s: %v", doing, t.signer.err).Because(t.signer.err).
			Hinted("set principal and sign_with in %s", conf.Path())
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

// Signed returns the input of a workflow that a Schedule starts, with a signature if the
// config says that workers require one. workflowID is that of the Schedule's action.
func (t *Conn) Signed(ctx context.Context, doing, workflowID, workflowType string, input any) (any, error) {
	args, err := t.signed(ctx, doing, workflowID, workflowType, []any{input})
	if err != nil {
		return nil, err
	}
	return args[0], nil
}

// principal returns the key that signs and the name for it.
func principal(ctx context.Context, a *core.App, conf *config.Config) (ssh.Signer, string, error) {
	if conf.SignWith == "" {
		return nil, "", errors.New("commands must be signed, and the config has no sign_with")
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
