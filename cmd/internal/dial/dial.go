// Package dial finds out how a program of ours reaches Temporal: from flags,
// from Temporal's own environment variables and TOML profiles, from the config
// file, from a local stack, in this order. Each setting comes from the first
// source that has it, but what goes with an address (certificates, keys,
// headers) never comes from a source behind the one that named the address, so
// that a key is not shown to a server it was not meant for. An address that was
// typed is the exception: the environment's certificates and keys go with it,
// as they do in Temporal's own programs.
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
)

// A Source is one place that may say how Temporal is reached.
type Source struct {
	Name    string // for messages: "flags", "environment", …
	Profile envconfig.ClientConfigProfile
}

// Flags is what was typed.
func Flags(address, namespace string) Source {
	return Source{"flags", envconfig.ClientConfigProfile{Address: address, Namespace: namespace}}
}

// Environment is TEMPORAL_* and the TOML profile that it names.
func Environment() (Source, error) {
	p, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{})
	if err != nil {
		return Source{}, fmt.Errorf("read Temporal's environment: %w", err)
	}
	return Source{"environment", p}, nil
}

// Config is the section temporal of a config file.
func Config(c *config.Config) (Source, error) {
	t := c.Temporal
	s := Source{"config", envconfig.ClientConfigProfile{Address: t.Address, Namespace: t.Namespace}}
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
func Stack(address, namespace string) Source {
	return Source{"stack", envconfig.ClientConfigProfile{Address: address, Namespace: namespace}}
}

// Resolve merges sources. The address is empty where none of them names one;
// the namespace is "default" then. From names the source of the address.
func Resolve(sources ...Source) (opts client.Options, from string, err error) {
	var p envconfig.ClientConfigProfile
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
	opts, err = p.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return opts, from, fmt.Errorf("reach Temporal: %w", err)
	}
	if onThisMachine(opts.HostPort) {
		opts.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	}
	return opts, from, nil
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
