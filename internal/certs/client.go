package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// Client returns the configuration of a client that reads the files at each handshake. If a
// file cannot be used then, what it had before still counts. A
// name of a file may be empty: without ca the system's authorities are trusted, and without
// cert and key the client shows no certificate. name is what the server's certificate must
// be for.
func Client(ca, cert, key, name string) *tls.Config {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name}
	if cert != "" {
		own := kept(func() (*tls.Certificate, error) {
			pair, err := loadPair(cert, key)
			if err != nil {
				return nil, fmt.Errorf("read the client's certificate: %w", err)
			}
			return &pair, nil
		})
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own() }
	}
	if ca == "" {
		return conf
	}
	// RootCAs would be read only once. VerifyConnection does all that is skipped here.
	conf.InsecureSkipVerify = true
	trusted := kept(func() (*x509.CertPool, error) { return pool(ca) })
	conf.VerifyConnection = func(state tls.ConnectionState) error {
		if name == "" {
			return errors.New("verify the server: no name is known that its certificate must be for")
		}
		roots, err := trusted()
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

// kept returns a function that reads what it should. If that fails, it returns what was read
// last, beginning now.
func kept[T any](read func() (*T, error)) func() (*T, error) {
	var last atomic.Pointer[T]
	if v, err := read(); err == nil {
		last.Store(v)
	}
	return func() (*T, error) {
		v, err := read()
		if err == nil {
			last.Store(v)
			return v, nil
		}
		if v = last.Load(); v != nil {
			return v, nil
		}
		return nil, err
	}
}

// CheckFiles says why a client could not use these files, or returns nil. A name may be empty.
func CheckFiles(ca, cert, key string) error {
	if ca != "" {
		if _, err := pool(ca); err != nil {
			return err
		}
	}
	if cert == "" {
		return nil
	}
	pair, err := loadPair(cert, key)
	if err != nil {
		return fmt.Errorf("read the client's certificate: %w", err)
	}
	if now := time.Now(); now.After(pair.Leaf.NotAfter) {
		return fmt.Errorf("read the client's certificate: that in %s ended at %s", cert, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
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
