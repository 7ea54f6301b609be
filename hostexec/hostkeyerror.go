package hostexec

import (
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/protocol"
)

func newHostKey(key ssh.PublicKey) protocol.HostKey {
	return protocol.HostKey{
		Type:        key.Type(),
		Fingerprint: ssh.FingerprintSHA256(key),
		Key:         strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))),
	}
}

// A HostKeyError says which keys a host showed and which were expected. It wraps
// ErrHostKeyUnknown or ErrHostKeyChanged. Nothing was sent.
type HostKeyError struct {
	Err     error
	Address string             // host:port
	Shown   []protocol.HostKey // empty if the host was not asked
	Pinned  []string           // fingerprints
	Detail  string             // for example, that the key is revoked
}

func (e *HostKeyError) Unwrap() error { return e.Err }

func (e *HostKeyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %s", e.Err, e.Address)
	if len(e.Shown) > 0 {
		b.WriteString(" shows")
		for i, k := range e.Shown {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(" " + k.Type + " " + k.Fingerprint)
		}
	}
	if e.Detail != "" {
		b.WriteString("; " + e.Detail)
	}
	if len(e.Pinned) > 0 {
		b.WriteString("; pinned is " + strings.Join(e.Pinned, ", "))
	}
	if e.Err == ErrHostKeyUnknown {
		b.WriteString("; compare with `ssh-keygen -lf` of the key in /etc/ssh on the host, then pin it")
	} else {
		b.WriteString("; if the host was reinstalled, pin its new key; if not, somebody may be intercepting the connection")
	}
	return b.String()
}
