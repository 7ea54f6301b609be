package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/login"
	"fairlead.dev/fairlead/internal/sshsig"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/internal/tokens"
)

// offerTokens makes the API take API tokens, if the worker has an authority.
func offerTokens(ctx context.Context, opts *api.Options, conf *config.Config, k *authority.Keeper, blobs *store.Store, log *slog.Logger) {
	if k == nil {
		return
	}
	book := tokens.Open(blobs, log)
	go book.Watch(ctx)
	k.Know(book)
	opts.Tokens = book
	if path := conf.Login.CertificateKey; path != "" {
		opts.Certify = func(principal, key string, life time.Duration) (string, error) {
			return certify(path, principal, key, life)
		}
	}
}

// certify reads the key of the certificate authority each time, so that a new one needs no
// restart.
func certify(path, principal, key string, life time.Duration) (string, error) {
	pub, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(key))
	switch {
	case err != nil || len(options) > 0 || len(strings.TrimSpace(string(rest))) > 0:
		return "", errors.New("the public key is not a line as in a .pub file: KEYTYPE BASE64")
	case pub.Type() != ssh.KeyAlgoED25519:
		return "", fmt.Errorf("the public key is of type %s: only ssh-ed25519 is accepted", pub.Type())
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read login.certificate_key: %w", err)
	}
	ca, err := sshsig.ParseKey(pem, nil)
	if err != nil {
		return "", fmt.Errorf("read login.certificate_key: %w", err)
	}
	cert, err := login.Issue(ca, pub, principal, nil, life, time.Now())
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(cert))), nil
}
