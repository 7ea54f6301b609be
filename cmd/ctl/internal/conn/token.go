package conn

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/sshsig"
	"fairlead.dev/fairlead/internal/tokens"
)

// TokenFileVariable names the file of a program's API token. It takes precedence over
// token_file of the config. The token itself is never in a variable, because other programs
// can read variables.
const TokenFileVariable = "FAIRLEAD_TOKEN_FILE"

// maxTokenFile is in bytes.
const maxTokenFile = 4 << 10

// proofOf returns what proves to workers who makes a request.
func proofOf(a *core.App, conf *config.Config) (api.Proof, error) {
	if conf.Authority != config.AuthorityRequired {
		return api.Proof{}, nil
	}
	token, err := apiToken(a, conf)
	if err != nil || token != "" {
		return api.Proof{Token: token}, err
	}
	return api.Proof{Sign: signsRequests(a, conf)}, nil
}

type tokenKey struct{}

// apiToken returns the API token of this run of ctl, or "". Its file is read once, because
// it may be a pipe.
func apiToken(a *core.App, conf *config.Config) (string, error) {
	return core.Once(a, tokenKey{}, func() (string, error) {
		name, from := os.Getenv(TokenFileVariable), TokenFileVariable
		if name == "" {
			name, from = conf.TokenFile, "token_file"
		}
		if name == "" {
			return "", nil
		}
		token, err := readToken(name)
		if err != nil {
			return "", core.Usage("read the API token that %s names, %s: %v", from, name, err).Because(err).
				Hinted("the file has what `ctl token create` printed, and its mode is 600")
		}
		return token, nil
	})
}

// readToken returns no error that contains a part of the file.
func readToken(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", errors.Unwrap(err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", err
	case info.IsDir():
		return "", errors.New("it is a folder")
	case info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("its mode is %#o, so that others may read it: chmod 600", info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	return token, tokens.Check(token)
}

// certified has a worker certify a new key for a program's API token. The key is in memory
// only.
func certified(ctx context.Context, a *core.App) (signer, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return signer{}, err
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return signer{}, err
	}
	const doing = "get a certificate for the API token"
	var got api.Certificate
	err = EachWorker(ctx, a, func(ctx context.Context, worker *api.Client) error {
		ctx, cancel := a.Bounded(ctx, WorkerWait)
		defer cancel()
		var err error
		got, err = worker.CertifyAPIToken(ctx, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey()))))
		return err
	})
	if err != nil {
		return signer{}, APIFailure(doing, err)
	}
	signs, err := sshsig.Certified(key, []byte(got.Certificate))
	if err != nil {
		return signer{}, core.Failed("%s: %v", doing, err).Because(err)
	}
	return signer{signs, got.Principal}, nil
}
