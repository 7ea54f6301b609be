package stack

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"fairlead.dev/fairlead/internal/certs"
	"fairlead.dev/fairlead/internal/payload"
)

func (l layout) certificates() *Certificates {
	files := certs.In(l.in("tls"))
	return &Certificates{CA: files.CA, Cert: files.Client, Key: files.Client}
}

// settleAccess makes what the programs of the stack prove with who they are. The tokens are
// new ones at each start.
func (s *supervisor) settleAccess() error {
	if _, err := certs.Ensure(s.at.in("tls"), s.opts.Validity); err != nil {
		return err
	}
	if err := writeFile(s.at.in("codec.token"), []byte(rand.Text()+rand.Text()+"\n")); err != nil {
		return fmt.Errorf("write the token of the codec endpoint: %w", err)
	}
	s.info.Certificates, s.info.CLI, s.info.Login = s.at.certificates(), s.at.in("temporal.toml"), s.at.in("ui.key")
	return nil
}

// renewCertificates renews them in time until ctx ends. All programs read them at each
// handshake.
func (s *supervisor) renewCertificates(ctx context.Context) {
	for pause(ctx, s.opts.Validity.Every()); ctx.Err() == nil; pause(ctx, s.opts.Validity.Every()) {
		switch renewed, err := certs.Ensure(s.at.in("tls"), s.opts.Validity); {
		case err != nil:
			s.log.Error("the certificates cannot be renewed", "err", err)
		case renewed:
			s.log.Info("certificates renewed")
		}
	}
}

// accessArgs are the server's flags for it.
func (s *supervisor) accessArgs() []string {
	files := certs.In(s.at.in("tls"))
	args := []string{"--tls-ca", files.CA, "--tls-cert", files.Server, "--tls-key", files.Server, "--ui-login", s.info.Login}
	if s.upstream == "" {
		return args
	}
	args = append(args, "--ui-codec-upstream", s.upstream, "--ui-codec-token", s.at.in("codec.token"))
	if !strings.HasPrefix(s.upstream, "unix://") {
		args = append(args, "--ui-codec-upstream-token", s.opts.Config.API.TokenFile)
	}
	return args
}

type cliProfile struct {
	Address   string    `toml:"address"`
	Namespace string    `toml:"namespace"`
	TLS       cliTLS    `toml:"tls"`
	Codec     *cliCodec `toml:"codec,omitempty"`
}

type cliTLS struct {
	Cert string `toml:"client_cert_path"`
	Key  string `toml:"client_key_path"`
	CA   string `toml:"server_ca_cert_path"`
}

type cliCodec struct {
	Endpoint string `toml:"endpoint"`
	Auth     string `toml:"auth"`
}

// cliConfig writes a profile for Temporal's own programs. It has the token of the codec
// endpoint, because such a program takes it from there or from its arguments.
func (s *supervisor) cliConfig(t Temporal) error {
	c := s.info.Certificates
	p := cliProfile{Address: t.Address, Namespace: t.Namespace, TLS: cliTLS{Cert: c.Cert, Key: c.Key, CA: c.CA}}
	if s.info.CodecEndpoint != "" {
		token, err := secretLine(s.at.in("codec.token"))
		if err != nil {
			return fmt.Errorf("write the profile for Temporal's programs: %w", err)
		}
		p.Codec = &cliCodec{Endpoint: s.info.CodecEndpoint, Auth: "Bearer " + token}
	}
	data, err := toml.Marshal(map[string]map[string]cliProfile{"profile": {"default": p}})
	if err == nil {
		err = writeFile(s.info.CLI, append([]byte("# Written by `ctl up` at every start.\n"), data...))
	}
	if err != nil {
		return fmt.Errorf("write the profile for Temporal's programs: %w", err)
	}
	return nil
}

// settleCodec gives the first worker a codec endpoint, which the UI's server passes requests
// on to. With one beyond loopback the UI stays without.
func (s *supervisor) settleCodec(listen *string, loopback, off bool) {
	if *listen == "" {
		*listen = "unix://" + s.at.place("codec.sock")
	}
	switch {
	case off:
	case strings.HasPrefix(*listen, "unix://"):
		s.upstream = *listen
	case loopback:
		s.upstream = "http://" + *listen
	default:
		s.log.Warn("the UI decodes nothing: api.codec_listen is not on this machine", "codec_listen", *listen)
	}
}

// codecEndpoint is what the UI's server offers at its own address.
func (s *supervisor) codecEndpoint(ui string) string {
	if s.upstream == "" {
		return ""
	}
	return ui + payload.Path
}

// linkWithin is how long a link of the UI's login is valid.
const linkWithin = 5 * time.Minute
