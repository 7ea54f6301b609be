package api

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/sshsig"
)

// ErrConfig means that a client's config names something that cannot be used.
var ErrConfig = errors.New("the config of the API cannot be used")

// A Proof shows a worker who asks: a signature of each request, or an API token. The zero
// value shows nothing.
type Proof struct {
	Sign  func(context.Context, command.Request) (header string, err error)
	Token string
}

// ProofOfWorker is that of a program which has the key of a worker, in this file. It may ask
// for the status of workers.
func ProofOfWorker(keyFile string) Proof {
	return Proof{Sign: func(_ context.Context, r command.Request) (string, error) {
		pem, err := os.ReadFile(keyFile)
		if err != nil {
			return "", fmt.Errorf("%w: worker_key: %w", ErrConfig, err)
		}
		key, err := sshsig.ParseKey(pem, nil)
		if err != nil {
			return "", fmt.Errorf("%w: worker_key %s: %w", ErrConfig, keyFile, err)
		}
		return command.SignRequest(key, access.Worker, r, time.Now())
	}}
}

// Connect makes a client for a config. It trusts tls.ca, or else the worker's own tls.cert,
// and owner. It does not connect.
func Connect(endpoint string, conf config.API, proof Proof) (*Client, error) {
	opts := ClientOptions{Sign: proof.Sign, Token: proof.Token}
	if conf.TokenFile != "" && proof.Token == "" {
		token, err := os.ReadFile(conf.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("%w: token_file: %w", ErrConfig, err)
		}
		opts.Token = strings.TrimSpace(string(token))
	}
	if t := conf.TLS; t != nil {
		opts.CA, opts.ServerName = t.CA, t.ServerName
		if opts.CA == "" {
			opts.CA = t.Cert
		}
	}
	if conf.Owner != "" {
		uid, err := uidOf(conf.Owner)
		if err != nil {
			return nil, fmt.Errorf("%w: owner: %w", ErrConfig, err)
		}
		opts.Owners = []int{uid}
	}
	return NewClient(endpoint, opts)
}

// uidOf returns the id of a user, who may be named by it.
func uidOf(name string) (int, error) {
	if uid, err := strconv.Atoi(name); err == nil {
		return uid, nil
	}
	is, err := user.Lookup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(is.Uid)
}
