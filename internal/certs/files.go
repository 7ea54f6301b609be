package certs

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.dev/fairlead/internal/secretfile"
)

// maxFile is far more than a certificate with its key has, in bytes.
const maxFile = 1 << 20

// A damagedError is about a file that has not what it should have.
type damagedError struct{ path string }

func (e *damagedError) Error() string { return e.path + " holds no such key or certificate" }

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return data, nil
}

// private returns an error if others may read a file.
func private(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if secretfile.Exposed(info) {
		return fmt.Errorf("others may read %s (mode %04o): chmod 600 it", path, info.Mode().Perm())
	}
	return nil
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	if err := private(path); err != nil {
		return nil, err
	}
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, &damagedError{path}
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, &damagedError{path}
	}
	own, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, &damagedError{path}
	}
	return own, nil
}

func readCertificate(path string) (*x509.Certificate, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, &damagedError{path}
	}
	return x509.ParseCertificate(block.Bytes)
}

// Ends returns when the certificate in a file ends.
func Ends(path string) (time.Time, error) {
	if err := private(path); err != nil {
		return time.Time{}, err
	}
	cert, err := readCertificate(path)
	if err != nil {
		return time.Time{}, err
	}
	return cert.NotAfter, nil
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// replace writes a file as a whole, mode 0600. The name of the unfinished file is always the
// same, so that what a killed process left is overwritten.
func replace(path string, data []byte) (err error) {
	unfinished := path + ".new"
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(unfinished, path)
	}
	return err
}
