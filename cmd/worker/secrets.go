package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"

	"filippo.io/age"

	"fairlead.dev/fairlead/cmd/internal/dial"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/certs"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/store"
)

// apiSecrets are the API's certificate and tokens, which may be renewed.
type apiSecrets struct {
	pair    *servedPair // nil without a certificate
	tokens  atomic.Pointer[apiTokens]
	bearers *api.Bearers // of the same tokens
}

type apiTokens struct{ token, read string }

// readAPISecrets reads what the config names.
func readAPISecrets(conf *config.Config) (*apiSecrets, error) {
	s := &apiSecrets{}
	if t := conf.API.TLS; t != nil && t.Cert != "" {
		s.pair = &servedPair{whose: "the API's", cert: t.Cert, key: t.Key}
		if err := s.pair.read(context.Background()); err != nil {
			return nil, err
		}
	}
	tokens, err := readAPITokens(conf)
	if err != nil {
		return nil, err
	}
	s.tokens.Store(&tokens)
	s.bearers = api.NewBearers(tokens.token, tokens.read)
	return s, nil
}

func readAPITokens(conf *config.Config) (t apiTokens, err error) {
	for file, to := range map[string]*string{conf.API.TokenFile: &t.token, conf.API.ReadTokenFile: &t.read} {
		if file == "" {
			continue
		}
		text, err := readBounded(file)
		if err != nil {
			return t, fmt.Errorf("read the API's token: %w", err)
		}
		if *to = strings.TrimSpace(string(text)); len(*to) < 16 {
			return t, fmt.Errorf("read the API's token: %s holds fewer than 16 characters", file)
		}
	}
	if t.token != "" && t.token == t.read {
		return t, errors.New("read the API's tokens: api.token_file and api.read_token_file have the same one")
	}
	return t, nil
}

// options are those of the API with these secrets.
func (s *apiSecrets) options(conf *config.Config) api.Options {
	opts := api.Options{Listen: conf.API.Listen, TLS: s.tls()}
	if opts.Listen == "" {
		opts.Listen = "unix://" + filepath.Join(runtimeDir(), workerName(conf)+".sock")
	}
	t := s.tokens.Load()
	opts.Token, opts.ReadToken, opts.Bearers = t.token, t.read, s.bearers
	return opts
}

// token returns the token in force, which permits everything.
func (s *apiSecrets) token() string { return s.tokens.Load().token }

func (s *apiSecrets) tls() *tls.Config {
	if s.pair == nil {
		return nil
	}
	return s.pair.config()
}

// keep renews the secrets of the API and of the codec endpoint.
func (s *apiSecrets) keep(c *credentials, conf *config.Config) {
	if s.pair != nil {
		c.keep("api.tls", s.pair.read, s.pair.cert, s.pair.key)
	}
	c.keep("api.token_file", func(context.Context) error {
		for _, file := range []string{conf.API.TokenFile, conf.API.ReadTokenFile} {
			if file == "" {
				continue
			}
			if err := config.CheckSecretFile(file); err != nil {
				return fmt.Errorf("read the API's token: %w", err)
			}
		}
		t, err := readAPITokens(conf)
		if err == nil {
			err = s.bearers.Renew(t.token, t.read)
		}
		if err == nil {
			s.tokens.Store(&t)
		}
		return err
	}, conf.API.TokenFile, conf.API.ReadTokenFile)
}

// storeKeys reads the keys of the store.
func storeKeys(conf *config.Config) (to []age.Recipient, ids []age.Identity, err error) {
	if ids, err = store.LoadIdentities(conf.Store.Identity); err != nil {
		return nil, nil, fmt.Errorf("read the store's identity: %w", err)
	}
	if len(conf.Store.Recipients) > 0 {
		to, err = store.ParseRecipients(conf.Store.Recipients...)
	} else {
		to, err = store.RecipientsOf(ids)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the store's recipients: %w", err)
	}
	return to, ids, nil
}

func renewStore(ctx context.Context, conf *config.Config, blobs *store.Store) error {
	to, ids, err := storeKeys(conf)
	if err != nil {
		return err
	}
	err = blobs.Renew(ctx, to, ids)
	if errors.Is(err, store.ErrUnreachable) {
		return fmt.Errorf("%w: %w", errNotNow, err)
	}
	return err
}

// keepTemporal renews what the connection to Temporal uses. Its certificate and its authority
// are read at each handshake; here it is found out whether they can be used. programs is of the
// API for programs, which has the same connection. encrypts is called when the payload keys have
// changed.
func keepTemporal(c *credentials, conf *config.Config, t, programs *dial.Target, encrypts func()) {
	c.keep("temporal.tls", func(context.Context) error { return certs.CheckFiles(t.TLS.CA, t.TLS.Cert, t.TLS.Key) }, t.TLS.CA, t.TLS.Cert, t.TLS.Key)
	if t.RenewAPIKey != nil {
		c.keep("temporal.api_key_file", func(context.Context) error { return t.RenewAPIKey() }, t.APIKeyFile)
	}
	c.keep("temporal.payload_key", func(context.Context) error {
		keys, err := payload.LoadKeys(t.KeyFile)
		if err == nil {
			err = errors.Join(t.Codec.Renew(keys...), programs.Codec.Renew(keys...))
		}
		encrypts()
		return err
	}, t.KeyFile)
	c.keep("temporal.worker_payload_key", func(context.Context) error {
		keys, err := payload.LoadKeys(conf.Temporal.WorkerPayloadKey)
		if err != nil {
			return fmt.Errorf("the keys of workers: %w", err)
		}
		return t.Codec.RenewWorkers(keys...)
	}, conf.Temporal.WorkerPayloadKey)
}
