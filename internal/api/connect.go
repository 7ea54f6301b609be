package api

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/config"
)

// ErrConfig means that a client's config names something that cannot be used.
var ErrConfig = errors.New("the config of the API cannot be used")

// A Proof shows a worker who asks: a signature of each request, or an API token. The zero
// value shows nothing.
type Proof struct {
	Sign  func(context.Context, command.Request) (header string, err error)
	Token string
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
