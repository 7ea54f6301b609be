package login

import (
	"crypto/rand"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
)

// Issue signs a certificate for a principal. Its time begins a little before now, for
// machines whose clocks are late. Each certificate has an id of its own. The error wraps
// ErrRefused if the groups do not fit, and ErrKey if the authority cannot sign.
func Issue(ca ssh.Signer, pub ssh.PublicKey, principal string, groups []string, lifetime time.Duration, now time.Time) (*ssh.Certificate, error) {
	cert := &ssh.Certificate{Key: pub, CertType: ssh.UserCert, KeyId: principal + "/" + rand.Text(), ValidPrincipals: []string{principal},
		ValidAfter: uint64(now.Add(-skew).Unix()), ValidBefore: uint64(now.Add(lifetime).Unix())}
	if err := access.SetGroups(cert, groups); err != nil {
		return nil, fmt.Errorf("%w: issue a certificate for %s: %w", ErrRefused, principal, err)
	}
	if err := cert.SignCert(rand.Reader, ca); err != nil {
		return nil, fmt.Errorf("%w: issue a certificate for %s: %w", ErrKey, principal, err)
	}
	return cert, nil
}
