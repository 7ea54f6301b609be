// Package dial finds out how our programs reach Temporal. Each setting comes from the first
// source that has it: flags, Temporal's own environment variables and TOML profiles, the
// config file, a local stack. But certificates, keys and headers never come from a source
// after the one with the address, so that no server gets a key that was not meant for it.
// With an address in a flag, the environment's certificates and keys are used, as in
// Temporal's own programs.
//
// Payloads are encrypted with the first key file that a source names. The keys and the
// certificate of a local stack are only for that stack's server, and they are used for it
// whichever source names its address.
//
// Files of certificates are read at each handshake, so they can be replaced at any time.
package dial

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/payload"
)

// A Source is a place that may have settings.
type Source struct {
	Name          string // flags, environment, config or stack; Resolve depends on it
	Profile       envconfig.ClientConfigProfile
	PayloadKey    string
	PayloadsSince time.Time // before which workflows may have older payloads
	APIKeyFile    string    // has Profile.APIKey
}

// Flags is the source for flags.
func Flags(address, namespace string) Source {
	return Source{Name: "flags", Profile: envconfig.ClientConfigProfile{Address: address, Namespace: namespace}}
}

// Environment is the source for TEMPORAL_* and their TOML profile.
func Environment() (Source, error) {
	p, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{})
	if err != nil {
		return Source{}, fmt.Errorf("read Temporal's environment: %w", err)
	}
	return Source{Name: "environment", Profile: p}, nil
}

// Config is the source for a config file.
func Config(c *config.Config) (Source, error) {
	t := c.Temporal
	s := Source{Name: "config", Profile: envconfig.ClientConfigProfile{Address: t.Address, Namespace: t.Namespace, TLS: tlsOf(t.TLS)}, PayloadKey: t.PayloadKey}
	since, err := t.Since()
	if err != nil {
		return s, fmt.Errorf("read temporal.payloads_since: %w", err)
	}
	s.PayloadsSince = since
	if t.APIKeyFile != "" {
		if s.Profile.APIKey, err = readAPIKey(t.APIKeyFile); err != nil {
			return s, err
		}
		s.APIKeyFile = t.APIKeyFile
	}
	return s, nil
}

// Stack is the source for a local stack. files may be nil.
func Stack(address, namespace, payloadKey string, payloadsSince time.Time, files *config.TLS) Source {
	return Source{Name: "stack", Profile: envconfig.ClientConfigProfile{Address: address, Namespace: namespace, TLS: tlsOf(files)},
		PayloadKey: payloadKey, PayloadsSince: payloadsSince}
}

// A Target is how to connect to a server.
type Target struct {
	client.Options        // complete, except for Identity
	From           string // source of the address
	// Codec encrypts the payloads of Options. Callers need it for payloads that the SDK
	// returns encrypted. KeyFile has its keys; empty if none.
	Codec   *payload.Codec
	KeyFile string
	// TLS names the files that are read at each handshake, if any.
	TLS config.TLS
	// APIKeyFile has the API key; empty if none. RenewAPIKey puts the key in force that the file
	// has now, for all connections of these Options.
	APIKeyFile  string
	RenewAPIKey func() error
}

// useAPIKey sends the API key that is in force at each request.
func (t *Target) useAPIKey(file, key string) {
	var now atomic.Pointer[string]
	now.Store(&key)
	t.Credentials = client.NewAPIKeyDynamicCredentials(func(context.Context) (string, error) { return *now.Load(), nil })
	t.APIKeyFile = file
	t.RenewAPIKey = func() error {
		if err := config.CheckSecretFile(file); err != nil {
			return fmt.Errorf("read temporal.api_key_file: %w", err)
		}
		key, err := readAPIKey(file)
		if err != nil {
			return err
		}
		if key == "" || strings.ContainsAny(key, "\r\n\x00") {
			return fmt.Errorf("read temporal.api_key_file: %s does not hold one line with a key", file)
		}
		now.Store(&key)
		return nil
	}
}

func readAPIKey(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("read temporal.api_key_file: %w", err)
	}
	defer f.Close()
	key, err := io.ReadAll(io.LimitReader(f, maxAPIKey+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read temporal.api_key_file: %w", err)
	case len(key) > maxAPIKey:
		return "", fmt.Errorf("read temporal.api_key_file: %s has more than %d bytes", file, maxAPIKey)
	}
	return strings.TrimSpace(string(key)), nil
}

// maxAPIKey bounds the file of an API key.
const maxAPIKey = 64 << 10

// Resolve merges sources. The address may stay empty. The namespace is "default" if no
// source names one.
func Resolve(sources ...Source) (*Target, error) {
	var p envconfig.ClientConfigProfile
	from, apiKeyFile := "", ""
	for _, s := range sources {
		if p.Namespace == "" {
			p.Namespace = s.Profile.Namespace
		}
		if from != "" && !(from == "flags" && s.Name == "environment") {
			continue
		}
		if p.TLS == nil && p.APIKey == "" {
			p.TLS, p.APIKey, apiKeyFile = s.Profile.TLS, s.Profile.APIKey, s.APIKeyFile
		}
		if p.GRPCMeta == nil {
			p.GRPCMeta = s.Profile.GRPCMeta
		}
		if p.Authority == "" {
			p.Authority = s.Profile.Authority
		}
		if p.Address == "" && s.Profile.Address != "" {
			p.Address, from = s.Profile.Address, s.Name
		}
	}
	if p.Namespace == "" {
		p.Namespace = client.DefaultNamespace
	}
	for _, s := range sources {
		if s.Name == "stack" && s.Profile.Address == p.Address && p.TLS == nil && p.APIKey == "" {
			p.TLS = s.Profile.TLS
		}
	}
	opts, err := p.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return nil, fmt.Errorf("reach Temporal: %w", err)
	}
	readAnew(&opts, p.TLS)
	if onThisMachine(opts.HostPort) {
		opts.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	}
	t := &Target{Options: opts, From: from}
	if p.TLS != nil {
		t.TLS = config.TLS{CA: p.TLS.ServerCACertPath, Cert: p.TLS.ClientCertPath, Key: p.TLS.ClientKeyPath}
	}
	if apiKeyFile != "" && p.APIKey != "" {
		t.useAPIKey(apiKeyFile, p.APIKey)
	}
	var since time.Time
	t.KeyFile, since = keyFile(opts.HostPort, sources)
	keys, err := payload.LoadKeys(t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("reach Temporal: %w", err)
	}
	t.Codec = payload.NewCodec(opts.Namespace, keys...).Since(since)
	t.Codec.Use(&t.Options)
	return t, nil
}

// ForWorkers makes the target that of a worker, which marks what it writes.
func (t *Target) ForWorkers(w payload.Workers) {
	t.Codec = t.Codec.ForWorkers(w)
	t.Options.Interceptors = nil // those of the former codec; no source sets others
	t.Codec.Use(&t.Options)
}

// keyFile returns the first key file that a source names, and the first time before which
// workflows may have older payloads.
func keyFile(address string, sources []Source) (file string, since time.Time) {
	for _, s := range sources {
		if s.Name == "stack" && s.Profile.Address != address {
			continue
		}
		if file == "" {
			file = s.PayloadKey
		}
		if since.IsZero() {
			since = s.PayloadsSince
		}
	}
	return file, since
}

// On loopback, compressing a heartbeat costs more than sending it.
func onThisMachine(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
