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

// A Choice says which of several keys signs. A key and its certificate are two
// ways to sign with one key: which of them counts, only the allowed signers tell.
type Choice struct {
	// Public is the key, or the certificate, of a .pub file.
	Public []byte
	// Fingerprint is SHA256:… as `ssh-add -l` shows it: of the key, also where it
	// stands in a certificate.
	Fingerprint string
	// Allowed are whose signatures count, and At is when they are to: of what is
	// left, the keys of one who may sign are chosen.
	Allowed []*Allowed
	At      time.Time
	// Untold says that nobody can tell just now whose signatures count: then of a
	// key and its certificates none is taken for the other.
	Untold bool
}

// ErrUntold is of a choice that only the allowed signers could have made.
var ErrUntold = errors.New("which of them counts cannot be told just now")

// FromAgent finds the key in an agent that is chosen, or without a choice the
// only one that there is. The connection is the signer's from then on, and nobody
// else's: answers on it bear no name. Whoever closes it ends a wait for the agent.
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

// opened is a signer of an agent's that can sign: the agent tells of a
// certificate only its bytes, and nobody could say whose key is in it.
func opened(s ssh.Signer) (ssh.Signer, bool) {
	key, err := ssh.ParsePublicKey(s.PublicKey().Marshal())
	if err != nil || checkKey(key) != nil {
		return nil, false
	}
	a, ok := s.(ssh.AlgorithmSigner)
	return keySigner{a, key}, ok
}

// keySigner is an agent's signer that knows its key.
type keySigner struct {
	ssh.AlgorithmSigner
	key ssh.PublicKey
}

func (s keySigner) PublicKey() ssh.PublicKey { return s.key }

// Pick chooses one of several signers.
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
		return nil, fmt.Errorf("it has %d, say which: %s", len(names), strings.Join(names, ", "))
	}
	if c.Untold {
		return nil, fmt.Errorf("of the key %s there are %d, with certificates: %w", names[0], len(left), ErrUntold)
	}
	// One key and its certificates: by itself it needs no authority.
	if i := slices.IndexFunc(left, func(s ssh.Signer) bool { _, cert := s.PublicKey().(*ssh.Certificate); return !cert }); i >= 0 {
		return left[i], nil
	}
	return nil, fmt.Errorf("it has %d certificates of the key %s, and none of them counts: say which by its -cert.pub file", len(left), names[0])
}

// named are the signers that the choice names; without a name all of them.
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
		return nil, errors.New("it has none that can sign this")
	case len(left) == 0:
		return nil, fmt.Errorf("%.100s is none of its %d (`ssh-add -l` shows them)", named, len(signers))
	}
	return left, nil
}

// counting are the signers that count for the most of the allowed; agreed says
// that all of these are one person's, so that any will do.
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

// Fingerprint names a key as `ssh-add -l` does: a certificate by the key in it.
func Fingerprint(key ssh.PublicKey) string {
	if c, ok := key.(*ssh.Certificate); ok {
		key = c.Key
	}
	return ssh.FingerprintSHA256(key)
}
