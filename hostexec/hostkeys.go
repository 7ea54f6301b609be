package hostexec

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"fairlead.dev/fairlead/internal/protocol"
)

type pins struct {
	address string // host:port
	keys    []ssh.PublicKey
	prints  []string // SHA256:… of keys that are pinned by fingerprint only
	db      *knownhosts.HostKeyDB
}

// newPins reads the pins of a spec. Without any it fails with ErrHostKeyUnknown.
func newPins(spec protocol.HostSpec) (*pins, error) {
	p := &pins{address: addressOf(spec)}
	for _, s := range spec.HostKeys {
		if err := p.add(s); err != nil {
			return nil, err
		}
	}
	switch {
	case len(spec.HostKeys) > 0:
	case spec.KnownHosts != "":
		db, err := knownhosts.NewDB(spec.KnownHosts)
		if err != nil {
			return nil, &HostKeyError{Err: ErrHostKeyUnknown, Address: p.address, Detail: fmt.Sprintf("known_hosts: %v", err)}
		}
		p.db = db
	default:
		return nil, &HostKeyError{Err: ErrHostKeyUnknown, Address: p.address, Detail: "no key is pinned for it"}
	}
	return p, nil
}

func (p *pins) add(s string) error {
	s = strings.TrimSpace(s)
	if sum, ok := strings.CutPrefix(s, "SHA256:"); ok {
		raw, err := base64.RawStdEncoding.DecodeString(sum)
		if err != nil || len(raw) != 32 {
			return fmt.Errorf("host key %q: not a SHA256 fingerprint", s)
		}
		p.prints = append(p.prints, s)
		return nil
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(s))
	if err != nil {
		return fmt.Errorf("host key %q: neither \"type base64\" nor \"SHA256:…\": %v", s, err)
	}
	p.keys = append(p.keys, key)
	return nil
}

// algorithms returns the host key algorithms to ask for. A host shows only one key, so only
// types of known keys are asked for. If a certificate is acceptable, all certificate
// algorithms come first, because a certificate's type does not depend on the authority's
// key.
func (p *pins) algorithms() []string {
	plain, certs := hostKeyAlgorithms()
	types := map[string]bool{}
	var withCerts bool
	if p.db != nil {
		for _, k := range p.db.HostKeys(p.address) {
			if k.Cert {
				withCerts = true
			} else {
				types[k.Type()] = true
			}
		}
	}
	for _, k := range p.keys {
		types[k.Type()] = true
	}
	if len(p.prints) > 0 || len(types) == 0 && !withCerts {
		return plain // any key may match; check refuses the others
	}
	algos := slices.DeleteFunc(plain, func(a string) bool { return !types[keyType(a)] })
	if withCerts {
		algos = append(certs, algos...)
	}
	return algos
}

func (p *pins) check(_ string, remote net.Addr, key ssh.PublicKey) error {
	shown := []protocol.HostKey{newHostKey(key)}
	if p.db == nil {
		for _, k := range p.keys {
			if string(k.Marshal()) == string(key.Marshal()) {
				return nil
			}
		}
		if slices.Contains(p.prints, ssh.FingerprintSHA256(key)) {
			return nil
		}
		return &HostKeyError{Err: ErrHostKeyChanged, Address: p.address, Shown: shown, Pinned: p.expected()}
	}
	err := p.db.HostKeyCallback()(p.address, remote, key)
	if err == nil {
		return nil
	}
	e := &HostKeyError{Err: ErrHostKeyChanged, Address: p.address, Shown: shown}
	var keyErr *xknownhosts.KeyError
	var revoked *xknownhosts.RevokedError
	switch {
	case errors.As(err, &keyErr) && len(keyErr.Want) == 0:
		e.Err = ErrHostKeyUnknown
	case errors.As(err, &keyErr):
		e.Pinned = p.expected()
	case errors.As(err, &revoked):
		e.Detail = "this key is marked @revoked"
	default:
		e.Detail = err.Error() // for a certificate: wrong principal, expired, unknown authority
	}
	return e
}

func (p *pins) expected() []string {
	var out []string
	for _, k := range p.keys {
		out = append(out, ssh.FingerprintSHA256(k))
	}
	out = append(out, p.prints...)
	if p.db != nil {
		for _, k := range p.db.HostKeys(p.address) {
			s := ssh.FingerprintSHA256(k.PublicKey)
			if k.Cert {
				s = "a certificate of " + s
			}
			out = append(out, s)
		}
	}
	return out
}

func hostKeyAlgorithms() (plain, certs []string) {
	for _, a := range ssh.SupportedAlgorithms().HostKeys {
		if strings.Contains(a, "-cert-v01@") {
			certs = append(certs, a)
		} else {
			plain = append(plain, a)
		}
	}
	// Put ed25519 first: nearly every host has it.
	slices.SortStableFunc(plain, func(a, b string) int {
		rank := func(s string) int {
			if s == ssh.KeyAlgoED25519 {
				return 0
			}
			return 1
		}
		return rank(a) - rank(b)
	})
	return plain, certs
}

func keyType(algo string) string {
	switch algo {
	case ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512:
		return ssh.KeyAlgoRSA
	}
	return algo
}

func withoutType(algos []string, typ string) []string {
	return slices.DeleteFunc(slices.Clone(algos), func(a string) bool { return keyType(a) == typ })
}
