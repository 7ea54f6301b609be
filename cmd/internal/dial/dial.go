// Package dial finds out how a program of ours reaches Temporal. Its sources are, in this
// order, flags, Temporal's own environment variables and TOML profiles, the config file,
// and a local stack. Each setting comes from the first source that has it. But
// certificates, keys and headers never come from a source after the one that named the
// address, so that no server gets a key that was not meant for it. An address in a flag is
// the exception: the environment's certificates and keys go with it, as in Temporal's own
// programs.
//
// Payloads are encrypted with the keys of the first source that names a key file. The keys
// of a local stack are used only for that stack's own server.
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

// A Source is one place that may have settings for reaching Temporal.
type Source struct {
	Name    string // for messages: "flags", "environment", …
	Profile envconfig.ClientConfigProfile
	// PayloadKey is a file of payload keys; empty if there is none.
	PayloadKey string
}

// Flags returns the source for the flags.
func Flags(address, namespace string) Source {
	return Source{Name: "flags", Profile: envconfig.ClientConfigProfile{Address: address, Namespace: namespace}}
}

// Environment returns the source for the variables TEMPORAL_* and the TOML profile that
// they name.
func Environment() (Source, error) {
	p, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{})
	if err != nil {
		return Source{}, fmt.Errorf("read Temporal's environment: %w", err)
	}
	return Source{Name: "environment", Profile: p}, nil
}

// Config returns the source for the section temporal of a config file.
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

// Stack returns the source for a local stack.
func Stack(address, namespace, payloadKey string) Source {
	return Source{Name: "stack", Profile: envconfig.ClientConfigProfile{Address: address, Namespace: namespace}, PayloadKey: payloadKey}
}

// A Target has all that is needed to connect to a server.
type Target struct {
	client.Options        // complete, except for our identity
	From           string // the source of the address
	// Codec is the codec with which Options encrypts payloads. Callers need it for payloads
	// that the SDK returns encrypted. KeyFile is the file of its keys; empty if there is
	// none.
	Codec   *payload.Codec
	KeyFile string
}

// Resolve merges sources. If no source names an address, the address is empty. If no source
// names a namespace, it is "default".
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

// keyFile returns the key file of the first source that names one and may be used for the
// address.
func keyFile(address string, sources []Source) string {
	for _, s := range sources {
		if s.PayloadKey != "" && (s.Name != "stack" || s.Profile.Address == address) {
			return s.PayloadKey
		}
	}
	return ""
}

// onThisMachine reports whether an address is on loopback. There, compressing a heartbeat
// costs both sides more than sending it.
func onThisMachine(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
