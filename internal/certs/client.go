package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// Client returns the configuration of a client that reads the files at each handshake. A
// name of a file may be empty: without ca the system's authorities are trusted, and without
// cert and key the client shows no certificate. name is what the server's certificate must
// be for.
func Client(ca, cert, key, name string) *tls.Config {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name}
	if cert != "" {
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := loadPair(cert, key)
			if err != nil {
				return nil, fmt.Errorf("read the client's certificate: %w", err)
			}
			return &pair, nil
		}
	}
	if ca == "" {
		return conf
	}
	// RootCAs would be read only once. VerifyConnection does all that is skipped here.
	conf.InsecureSkipVerify = true
	conf.VerifyConnection = func(state tls.ConnectionState) error {
		if name == "" {
			return errors.New("verify the server: no name is known that its certificate must be for")
		}
		roots, err := pool(ca)
		if err != nil {
			return err
		}
		between := x509.NewCertPool()
		for _, c := range state.PeerCertificates[1:] {
			between.AddCert(c)
		}
		_, err = state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: name})
		return err
	}
	return conf
}

func pool(path string) (*x509.CertPool, error) {
	data, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("read the authority that the server's certificate must come from: %w", err)
	}
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("read the authority that the server's certificate must come from: %s holds no certificate", path)
	}
	return p, nil
}

// loadPair reads a certificate and its key. A file that has both is read once, so that it may
// be renewed at the same time.
func loadPair(cert, key string) (tls.Certificate, error) {
	certPEM, err := os.ReadFile(cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	keyPEM := certPEM
	if key != cert {
		if keyPEM, err = os.ReadFile(key); err != nil {
			return tls.Certificate{}, err
		}
	}
	return tls.X509KeyPair(certPEM, keyPEM)
}
