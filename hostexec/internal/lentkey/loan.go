package lentkey

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// Terms say what a loan is for.
type Terms struct {
	// Key is lent, with its certificates. It is no certificate.
	Key ssh.PublicKey
	// Server is the server's name, for messages.
	Server string
	// User is whom logins may name; empty means anybody.
	User string
	// Check returns why a key is not the server's, or nil.
	Check func(ssh.PublicKey) error
}

// An Agent calls use with a connection to the agent that has the key.
type Agent func(use func(agent.ExtendedAgent) error) error

// Bounds of a loan.
const (
	maxSigned   = 2000 // signatures; a clone with submodules makes one for each repository
	maxRefusals = 8    // different ones that are kept and told
)

// A Loan serves any number of connections of one host.
type Loan struct {
	terms Terms
	agent Agent
	tell  func(why string)

	mu      sync.Mutex
	signed  int
	refused []string
}

// New makes a loan. It calls tell once for each kind of refusal, a few times at most.
func New(terms Terms, real Agent, tell func(why string)) *Loan {
	return &Loan{terms: terms, agent: real, tell: tell}
}

// Refused returns why requests were refused, each reason once. It quotes what the host
// wrote.
func (l *Loan) Refused() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.refused)
}

func (l *Loan) refuse(format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	l.mu.Lock()
	known := slices.Contains(l.refused, why) || len(l.refused) == maxRefusals
	if !known {
		l.refused = append(l.refused, why)
	}
	l.mu.Unlock()
	if !known {
		l.tell(why)
	}
}

// lends reports whether blob is the lent key, or a certificate for it.
func (l *Loan) lends(blob []byte) (ssh.PublicKey, bool) {
	key, err := ssh.ParsePublicKey(blob)
	if err != nil {
		return nil, false
	}
	plain := key
	if cert, ok := key.(*ssh.Certificate); ok {
		plain = cert.Key
	}
	return key, bytes.Equal(plain.Marshal(), l.terms.Key.Marshal())
}

func (l *Loan) list() (keys []*agent.Key, err error) {
	err = l.agent(func(a agent.ExtendedAgent) error {
		all, err := a.List()
		for _, k := range all {
			if _, ok := l.lends(k.Blob); ok {
				keys = append(keys, k)
			}
		}
		return err
	})
	return keys, err
}

// sign signs a login to the server that the client was seen to be connected to.
func (l *Loan) sign(to *connection, blob, data []byte) (*ssh.Signature, error) {
	in, err := parseLogin(data)
	if err != nil {
		return nil, fmt.Errorf("what is to be signed is no login: %w", err)
	}
	key, ok := l.lends(blob)
	if !ok || !bytes.Equal(in.key, blob) {
		return nil, errors.New("it is a login with another key than the lent one")
	}
	switch {
	case to == nil:
		return nil, fmt.Errorf("the ssh client did not show that it logs in to %s: the host needs OpenSSH 8.9 or newer", l.terms.Server)
	case !bytes.Equal(in.session, to.session):
		return nil, fmt.Errorf("it is a login on another connection than the one to %s", l.terms.Server)
	case in.server != nil && !bytes.Equal(in.server, to.key):
		return nil, fmt.Errorf("it is a login to another server than %s", l.terms.Server)
	case l.terms.User != "" && in.user != l.terms.User:
		return nil, fmt.Errorf("it is a login as %s, not as %s", shown(in.user), shown(l.terms.User))
	}
	flags, err := flagsFor(key, in.algorithm)
	if err != nil {
		return nil, err
	}
	if !l.count() {
		return nil, fmt.Errorf("%d logins were signed, and no more are", maxSigned)
	}
	var sig *ssh.Signature
	err = l.agent(func(a agent.ExtendedAgent) (err error) {
		sig, err = a.SignWithFlags(key, data, flags)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the worker's agent did not sign: %w", err)
	}
	return sig, nil
}

func (l *Loan) count() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.signed == maxSigned {
		return false
	}
	l.signed++
	return true
}
