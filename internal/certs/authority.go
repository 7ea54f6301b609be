package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Validity is how long certificates are valid. The zero value means 10 years for the
// authority and 90 days for what it signs.
type Validity struct {
	Authority time.Duration
	Leaf      time.Duration
}

// usual applies in place of zero values.
var usual = Validity{Authority: 10 * 365 * 24 * time.Hour, Leaf: 90 * 24 * time.Hour}

func (v Validity) orUsual() Validity {
	if v.Authority == 0 {
		v.Authority = usual.Authority
	}
	if v.Leaf == 0 {
		v.Leaf = usual.Leaf
	}
	return v
}

// Every is how often to call Ensure, so that nothing expires.
func (v Validity) Every() time.Duration { return min(time.Minute, v.orUsual().Leaf/20) }

// backdated allows for a clock that is set back a little.
const backdated = 5 * time.Minute

// Files are the paths of a folder.
type Files struct {
	AuthorityKey string
	CA           string
	Server       string
	Client       string
}

// In returns the paths in a folder.
func In(dir string) Files {
	at := func(name string) string { return filepath.Join(dir, name) }
	return Files{AuthorityKey: at("ca.key"), CA: at("ca.pem"), Server: at("server.pem"), Client: at("client.pem")}
}

// Ensure makes the folder and what it lacks, and renews each certificate of which less than
// a third of its time is left. Only one process may call it at a time.
func Ensure(dir string, v Validity) (renewed bool, err error) { return ensure(dir, v, time.Now()) }

func ensure(dir string, v Validity, now time.Time) (renewed bool, err error) {
	v = v.orUsual()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, fmt.Errorf("make the folder of certificates: %w", err)
	}
	files := In(dir)
	a, fresh, err := files.authority(v.Authority, now)
	if err != nil {
		return false, err
	}
	renewed = fresh
	for _, leaf := range []struct {
		path     string
		template x509.Certificate
	}{
		// The server is a client of itself, too.
		{files.Server, x509.Certificate{
			Subject:     pkix.Name{CommonName: "fairlead stack server"},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
			DNSNames:    []string{"localhost"},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		}},
		{files.Client, x509.Certificate{
			Subject:     pkix.Name{CommonName: "fairlead stack client"},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}},
	} {
		if a.vouches(leaf.path, leaf.template.ExtKeyUsage, now) {
			continue
		}
		if err := a.issue(leaf.path, leaf.template, v.Leaf, now); err != nil {
			return renewed, err
		}
		renewed = true
	}
	return renewed, nil
}

// An authority signs the certificates of one stack.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// authority reads the authority, and makes or renews it if necessary. A key that cannot be
// read is replaced, and with it every certificate. A key that others may read is an error.
func (f Files) authority(validity time.Duration, now time.Time) (a *authority, fresh bool, err error) {
	key, err := readKey(f.AuthorityKey)
	var damaged *damagedError
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &damaged) {
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, false, fmt.Errorf("make the key of the stack's authority: %w", err)
		}
		text, err := keyPEM(key)
		if err == nil {
			err = replace(f.AuthorityKey, text)
		}
		if err != nil {
			return nil, false, fmt.Errorf("keep the key of the stack's authority: %w", err)
		}
	} else if err != nil {
		return nil, false, fmt.Errorf("read the key of the stack's authority: %w", err)
	}
	if cert, err := readCertificate(f.CA); err == nil && key.PublicKey.Equal(cert.PublicKey) && lasts(cert, now) {
		return &authority{key, cert}, false, nil
	}
	template := x509.Certificate{
		Subject:               pkix.Name{CommonName: "fairlead stack authority"},
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		// Whoever trusts this authority trusts it for this machine's own names alone.
		PermittedDNSDomainsCritical: true,
		PermittedDNSDomains:         []string{"localhost"},
		PermittedIPRanges: []*net.IPNet{
			{IP: net.IPv4(127, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)},
			{IP: net.IPv6loopback, Mask: net.CIDRMask(128, 128)},
		},
	}
	der, err := sign(template, nil, &key.PublicKey, key, validity, now)
	if err == nil {
		err = replace(f.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	if err != nil {
		return nil, false, fmt.Errorf("make the certificate of the stack's authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, false, fmt.Errorf("make the certificate of the stack's authority: %w", err)
	}
	return &authority{key, cert}, true, nil
}

// issue writes a new key with its certificate.
func (a *authority) issue(path string, template x509.Certificate, validity time.Duration, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key for %s: %w", path, err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := sign(template, a.cert, &key.PublicKey, a.key, validity, now)
	if err != nil {
		return fmt.Errorf("make the certificate %s: %w", path, err)
	}
	text, err := keyPEM(key)
	if err == nil {
		err = replace(path, append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), text...))
	}
	if err != nil {
		return fmt.Errorf("keep the certificate %s: %w", path, err)
	}
	return nil
}

// vouches reports whether a file holds a pair that the authority has signed for all of the
// uses, and that lasts.
func (a *authority) vouches(path string, uses []x509.ExtKeyUsage, now time.Time) bool {
	if private(path) != nil {
		return false
	}
	pair, err := loadPair(path, path)
	if err != nil || !lasts(pair.Leaf, now) {
		return false
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	for _, use := range uses {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
			return false
		}
	}
	return true
}

// lasts reports whether a certificate is valid and has a third of its time left.
func lasts(cert *x509.Certificate, now time.Time) bool {
	whole := cert.NotAfter.Sub(cert.NotBefore) - backdated
	return !now.Before(cert.NotBefore) && cert.NotAfter.Sub(now) > whole/3
}

// sign signs a template. Without a parent it signs itself.
func sign(template x509.Certificate, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey, validity time.Duration, now time.Time) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = now.Add(-backdated), now.Add(validity)
	if parent == nil {
		parent = &template
	}
	return x509.CreateCertificate(rand.Reader, &template, parent, public, key)
}
