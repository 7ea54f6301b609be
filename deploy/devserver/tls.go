package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"

	"go.temporal.io/server/common/rpc/encryption"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// tlsFiles are the names of PEM files. They are read at each handshake, so that they can be
// replaced while the server runs. Without any, nothing is encrypted and nobody
// authenticated.
type tlsFiles struct {
	ca   string // who signs the certificates of clients and of this server
	cert string
	key  string
}

func (f tlsFiles) on() bool { return f.ca != "" }

// check reads the files once, so that a mistake is reported at the start.
func (f tlsFiles) check() error {
	if !f.on() {
		return nil
	}
	if _, err := f.pool(); err != nil {
		return err
	}
	_, err := f.pair()
	return err
}

func (f tlsFiles) pair() (*tls.Certificate, error) {
	// A file that has both is read once, so that it may be renewed at the same time.
	cert, err := os.ReadFile(f.cert)
	key := cert
	if err == nil && f.key != f.cert {
		key, err = os.ReadFile(f.key)
	}
	if err != nil {
		return nil, fmt.Errorf("read the server's certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("read the server's certificate: %w", err)
	}
	return &pair, nil
}

func (f tlsFiles) pool() (*x509.CertPool, error) {
	data, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, fmt.Errorf("read the authority of the certificates: %w", err)
	}
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("read the authority of the certificates: %s holds no certificate", f.ca)
	}
	return p, nil
}

// server is for all listeners: a client needs a certificate that the authority signed.
func (f tlsFiles) server() *tls.Config {
	each := func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pair, err := f.pair()
		if err != nil {
			return nil, err
		}
		roots, err := f.pool()
		if err != nil {
			return nil, err
		}
		return &tls.Config{
			MinVersion:   tls.VersionTLS13,
			NextProtos:   []string{"h2"},
			Certificates: []tls.Certificate{*pair},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    roots,
			// A resumed session would go by older files.
			SessionTicketsDisabled: true,
		}, nil
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{"h2"},
		ClientAuth:         tls.RequireAndVerifyClientCert,
		GetConfigForClient: each,
	}
}

// client is for this process's own connections to its listeners on ip.
func (f tlsFiles) client(ip string) *tls.Config {
	return &tls.Config{
		MinVersion:           tls.VersionTLS13,
		NextProtos:           []string{"h2"},
		ServerName:           ip,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return f.pair() },
		// RootCAs would be read only once. VerifyConnection does all that is skipped here.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			roots, err := f.pool()
			if err != nil {
				return err
			}
			between := x509.NewCertPool()
			for _, c := range state.PeerCertificates[1:] {
				between.AddCert(c)
			}
			_, err = state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: ip})
			return err
		},
	}
}

// dialing are the credentials for the address of a listener.
func (f tlsFiles) dialing(address string) (credentials.TransportCredentials, error) {
	if !f.on() {
		return insecure.NewCredentials(), nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(f.client(host)), nil
}

// provider makes the server use the files for each of its services, or is nil.
func (f tlsFiles) provider(o *options) (encryption.TLSConfigProvider, error) {
	if !f.on() {
		return nil, nil
	}
	frontend, _, err := net.SplitHostPort(hostPort(o.ip, o.port))
	if err != nil {
		return nil, err
	}
	return &encryption.FixedTLSConfigProvider{
		FrontendServerConfig:  f.server(),
		FrontendClientConfig:  f.client(frontend),
		InternodeServerConfig: f.server(),
		InternodeClientConfig: f.client(innerIP),
		// The server is the only cluster that it knows.
		RemoteClusterClientConfigs: map[string]*tls.Config{"*": f.client(frontend)},
	}, nil
}

func (o *options) checkTLS() error {
	t := o.tls
	if t == (tlsFiles{}) {
		return nil
	}
	if t.ca == "" || t.cert == "" || t.key == "" {
		return errors.New("--tls-ca, --tls-cert and --tls-key: give all three or none")
	}
	return nil
}
