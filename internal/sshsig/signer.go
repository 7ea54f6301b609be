package sshsig

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"
)

// ErrPassphrase means that a private key is encrypted, and the passphrase wrong or missing.
var ErrPassphrase = errors.New("the key is encrypted, and this passphrase does not open it")

// A Signer signs. Callers need not import x/crypto/ssh.
type Signer = ssh.Signer

// DeviceKey returns the public key of a private key file of ssh-keygen, if the private key is in
// a FIDO device. The file then has only a handle for the device. It may be encrypted.
func DeviceKey(file []byte) (key ssh.PublicKey, is bool) {
	block, _ := pem.Decode(file)
	if block == nil || block.Type != "OPENSSH PRIVATE KEY" {
		return nil, false
	}
	var f struct {
		Cipher, KDF, Options string
		Keys                 uint32
		Public               []byte
		Secret               []byte `ssh:"rest"`
	}
	raw, ok := bytes.CutPrefix(block.Bytes, []byte("openssh-key-v1\x00"))
	if !ok || ssh.Unmarshal(raw, &f) != nil {
		return nil, false
	}
	key, err := ssh.ParsePublicKey(f.Public)
	if err != nil || !touched(key.Type()) {
		return nil, false
	}
	return key, true
}

// ParseKey parses a private key file of ssh-keygen.
func ParseKey(file, passphrase []byte) (ssh.Signer, error) {
	var signer ssh.Signer
	var err error
	if len(passphrase) > 0 {
		signer, err = ssh.ParsePrivateKeyWithPassphrase(file, passphrase)
		if err != nil && !bytes.Contains(file, []byte("PRIVATE KEY")) {
			return nil, fmt.Errorf("read the key: %w", err)
		}
		if err != nil {
			// perhaps it is not encrypted
			if signer, err = ssh.ParsePrivateKey(file); err != nil {
				err = ErrPassphrase
			}
		}
	} else {
		signer, err = ssh.ParsePrivateKey(file)
	}
	var missing *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &missing), errors.Is(err, ErrPassphrase):
		return nil, fmt.Errorf("read the key: %w", ErrPassphrase)
	case err != nil:
		return nil, fmt.Errorf("read the key: %w", err)
	}
	if err := checkKey(signer.PublicKey()); err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	return signer, nil
}

// Certified returns a signer with its key's certificate, a line of a -cert.pub file.
func Certified(signer ssh.Signer, line []byte) (ssh.Signer, error) {
	key, err := parsePublic(line)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return nil, errors.New("read the certificate: it is a plain key")
	}
	certified, err := ssh.NewCertSigner(cert, signer)
	if err != nil {
		return nil, fmt.Errorf("the certificate is of another key: %w", err)
	}
	return certified, nil
}

func parsePublic(line []byte) (ssh.PublicKey, error) {
	key, _, options, rest, err := ssh.ParseAuthorizedKey(line)
	if err != nil || len(options) > 0 || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("not an SSH public key: expected one line as in a .pub file, without options")
	}
	return key, checkKey(key)
}
