// Package dial finds out how a program of ours reaches Temporal: from flags,
// from Temporal's own environment variables and TOML profiles, from the config
// file, from a local stack, in this order. Each setting comes from the first
// source that has it, but what goes with an address (certificates, keys,
// headers) never comes from a source behind the one that named the address, so
// that a key is not shown to a server it was not meant for. An address that was
// typed is the exception: the environment's certificates and keys go with it,
// as they do in Temporal's own programs.
//
// What is resolved encrypts payloads with the keys of the first source that
// names some; those of a local stack are for that stack's own server alone.
package dial

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/payload"
)

// A Source is one place that may say how Temporal is reached.
type Source struct {
	Name    string // for messages: "flags", "environment", …
	Profile envconfig.ClientConfigProfile
	// PayloadKey is a file of payload keys; empty: none.
	PayloadKey string
}

// Flags is what was typed.
func Flags(address, namespace string) Source {
	return Source{Name: "flags", Profile: envconfig.ClientConfigProfile{Address: address, Namespace: namespace}}
}

// Environment is TEMPORAL_* and the TOML profile that it names.
func Environment() (Source, error) {
	p, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{})
	if err != nil {
		return Source{}, fmt.Errorf("read Temporal's environment: %w", err)
	}
	return Source{Name: "environment", Profile: p}, nil
}

// Config is the section temporal of a config file.
func Config(c *config.Config) (Source, error) {
	t := c.Temporal
	s := Source{Name: "config", Profile: envconfig.ClientConfigProfile{Address: t.Address, Namespace: t.Namespace}, PayloadKey: t.PayloadKey}
	if t.TLS != nil {
		s.Profile.TLS = &envconfig.ClientConfigTLS{
			ClientCertPath: t.TLS.Cert, ClientKeyPath: t.TLS.Key,
			ServerCACertPath: t.TLS.CA, ServerName: t.TLS.ServerName,
		}
	}
	if t.APIKeyFile != "" {
		key, err := os.ReadFile(t.APIKeyFile)
		if err != nil {
			return s, fmt.Errorf("read temporal.api_key_file: %w", err)
		}
		s.Profile.APIKey = strings.TrimSpace(string(key))
	}
	return s, nil
}

// Stack is a local stack.
func Stack(address, namespace, payloadKey string) Source {
	return Source{Name: "stack", Profile: envconfig.ClientConfigProfile{Address: address, Namespace: namespace}, PayloadKey: payloadKey}
}

// A Target is a server and all that it takes to speak with it.
type Target struct {
	client.Options        // complete, but for who we are
	From           string // the source of the address
	// Codec is what Options encrypts payloads with, for those that the SDK
	// hands out as they came. KeyFile is where its keys were; empty: none.
	Codec   *payload.Codec
	KeyFile string
}

// Resolve merges sources. The address is empty where none of them names one;
// the namespace is "default" then.
func Resolve(sources ...Source) (*Target, error) {
	var p envconfig.ClientConfigProfile
	from := ""
	for _, s := range sources {
		if p.Namespace == "" {
			p.Namespace = s.Profile.Namespace
		}
		if from != "" && !(from == "flags" && s.Name == "environment") {
			continue
		}
		if p.TLS == nil && p.APIKey == "" {
			p.TLS, p.APIKey = s.Profile.TLS, s.Profile.APIKey
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
	opts, err := p.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return nil, fmt.Errorf("reach Temporal: %w", err)
	}
	if onThisMachine(opts.HostPort) {
		opts.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	}
	t := &Target{Options: opts, From: from, KeyFile: keyFile(opts.HostPort, sources)}
	keys, err := payload.LoadKeys(t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("reach Temporal: %w", err)
	}
	t.Codec = payload.NewCodec(opts.Namespace, keys...)
	t.Codec.Use(&t.Options)
	return t, nil
}

// keyFile is the key file of the first source that names one for an address.
func keyFile(address string, sources []Source) string {
	for _, s := range sources {
		if s.PayloadKey != "" && (s.Name != "stack" || s.Profile.Address == address) {
			return s.PayloadKey
		}
	}
	return ""
}

// onThisMachine reports whether an address is on loopback, where compressing
// each heartbeat costs both sides more than sending it.
func onThisMachine(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
