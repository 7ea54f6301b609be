package sshsig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// A Choice selects the key to sign with. A key and its certificate count as two keys.
type Choice struct {
	// Public is a key or certificate, as in a .pub file.
	Public []byte
	// Fingerprint is as in `ssh-add -l`, also for a certificate.
	Fingerprint string
	// Allowed are the sets of signers that count at the time At. Pick prefers their keys.
	Allowed []*Allowed
	At      time.Time
	// Untold means that Allowed is unknown. Pick then does not choose between a key and its
	// certificates.
	Untold bool
}

// ErrUntold means that only the allowed signers could decide.
var ErrUntold = errors.New("the allowed signers, which decide between them, are not known now")

// FromAgent returns the agent's key that c chooses. The signer owns the connection, because
// the agent's responses have no ids. Closing the connection ends a wait for the agent.
func FromAgent(conn io.ReadWriter, c Choice) (ssh.Signer, error) {
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		return nil, fmt.Errorf("ask the agent for its keys: %w", err)
	}
	var usable []ssh.Signer
	for _, s := range signers {
		if s, ok := opened(s); ok {
			usable = append(usable, s)
		}
	}
	signer, err := c.Pick(usable)
	if err != nil {
		return nil, fmt.Errorf("find a key in the agent: %w", err)
	}
	return signer, nil
}

// opened parses the key of an agent's signer, which gives a certificate only as bytes.
func opened(s ssh.Signer) (ssh.Signer, bool) {
	key, err := ssh.ParsePublicKey(s.PublicKey().Marshal())
	if err != nil || checkKey(key) != nil {
		return nil, false
	}
	a, ok := s.(ssh.AlgorithmSigner)
	return keySigner{a, key}, ok
}

type keySigner struct {
	ssh.AlgorithmSigner
	key ssh.PublicKey
}

func (s keySigner) PublicKey() ssh.PublicKey { return s.key }

// Pick returns the chosen signer. If several keys remain, it returns an error.
func (c Choice) Pick(signers []ssh.Signer) (ssh.Signer, error) {
	left, err := c.named(signers)
	if err != nil {
		return nil, err
	}
	left, agreed := c.counting(left)
	if len(left) == 1 || agreed {
		return left[0], nil
	}
	var names []string
	for _, s := range left {
		if name := Fingerprint(s.PublicKey()); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > 1 {
		return nil, fmt.Errorf("the agent has %d keys that can sign: choose one by its fingerprint: %s", len(names), strings.Join(names, ", "))
	}
	if c.Untold {
		return nil, fmt.Errorf("key %s comes in %d forms (with certificates, and perhaps without): %w", names[0], len(left), ErrUntold)
	}
	// A plain key needs no authority.
	if i := slices.IndexFunc(left, func(s ssh.Signer) bool { _, cert := s.PublicKey().(*ssh.Certificate); return !cert }); i >= 0 {
		return left[i], nil
	}
	return nil, fmt.Errorf("the agent has %d certificates of key %s: choose one by its -cert.pub file", len(left), names[0])
}

func (c Choice) named(signers []ssh.Signer) (left []ssh.Signer, err error) {
	named, is := "", func(ssh.PublicKey) bool { return true }
	switch {
	case len(bytes.TrimSpace(c.Public)) > 0:
		wanted, err := parsePublic(c.Public)
		if err != nil {
			return nil, err
		}
		named = Fingerprint(wanted)
		is = func(key ssh.PublicKey) bool { return bytes.Equal(key.Marshal(), wanted.Marshal()) }
	case c.Fingerprint != "":
		named = strings.TrimRight(c.Fingerprint, "=")
		is = func(key ssh.PublicKey) bool { return Fingerprint(key) == named }
	}
	for _, s := range signers {
		if is(s.PublicKey()) {
			left = append(left, s)
		}
	}
	switch {
	case len(signers) == 0:
		return nil, errors.New("the agent has no key that can sign this")
	case len(left) == 0:
		return nil, fmt.Errorf("key %.100s is not one of the agent's %d (`ssh-add -l` shows them)", named, len(signers))
	}
	return left, nil
}

// counting returns the signers that the most sets of Allowed accept. If agreed, all are one
// person's, and any will do.
func (c Choice) counting(signers []ssh.Signer) (left []ssh.Signer, agreed bool) {
	most, who := 0, []string(nil)
	for _, s := range signers {
		n, names := 0, make([]string, len(c.Allowed))
		for i, a := range c.Allowed {
			if name, err := a.who(s.PublicKey(), Namespace, c.At); err == nil {
				names[i] = name
				n++
			}
		}
		switch {
		case n < most:
			continue
		case n > most:
			most, left, who, agreed = n, nil, names, true
		}
		left = append(left, s)
		agreed = agreed && slices.Equal(who, names)
	}
	return left, agreed
}

// Fingerprint returns a key's fingerprint as `ssh-add -l` does.
func Fingerprint(key ssh.PublicKey) string {
	if c, ok := key.(*ssh.Certificate); ok {
		key = c.Key
	}
	return ssh.FingerprintSHA256(key)
}
