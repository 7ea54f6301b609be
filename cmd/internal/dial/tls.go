package dial

import (
	"net"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"fairlead.dev/fairlead/internal/certs"
	"fairlead.dev/fairlead/internal/config"
)

func tlsOf(files *config.TLS) *envconfig.ClientConfigTLS {
	if files == nil {
		return nil
	}
	return &envconfig.ClientConfigTLS{
		ClientCertPath: files.Cert, ClientKeyPath: files.Key,
		ServerCACertPath: files.CA, ServerName: files.ServerName,
	}
}

// readAnew replaces what envconfig read from files by what reads them at each handshake.
func readAnew(opts *client.Options, t *envconfig.ClientConfigTLS) {
	read := opts.ConnectionOptions.TLS
	if t == nil || read == nil {
		return
	}
	name := t.ServerName
	if name == "" {
		name = hostOf(opts.HostPort)
	}
	ca := t.ServerCACertPath
	if t.DisableHostVerification || name == "" {
		ca = ""
	}
	fresh := certs.Client(ca, t.ClientCertPath, t.ClientKeyPath, name)
	if ca != "" {
		read.InsecureSkipVerify, read.VerifyConnection, read.ServerName = true, fresh.VerifyConnection, name
	}
	if fresh.GetClientCertificate != nil {
		read.Certificates, read.GetClientCertificate = nil, fresh.GetClientCertificate
	}
}

// hostOf returns the host of an address, or "" if the address is of another form.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(strings.TrimPrefix(address, "dns:///"))
	if err != nil {
		return ""
	}
	return host
}
