package command

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/sshsig"
)

// Reasons why a command does not count.
var (
	ErrUnsigned  = errors.New("it is not signed")
	ErrMalformed = errors.New("it cannot be read")
	ErrTime      = errors.New("its time is wrong")
	ErrSignature = errors.New("its signature does not count")
	ErrRevoked   = errors.New("its signer is revoked")
)

// MaxSkew is how far clocks may be apart.
const MaxSkew = 5 * time.Minute

// KeptFor is how long a command counts, beside MaxSkew, that Temporal keeps until a worker takes it.
const KeptFor = 24 * time.Hour

// A Received command is to be checked.
type Received struct {
	Workflow, Name string
	Kind           Kind   // as which it came; empty takes any
	Raw            []byte // the command as it came
	Now            time.Time
	// Waited is how long the command may have waited for a worker, beside MaxSkew, if it
	// names its kind.
	Waited time.Duration
	// Standing says that the command counts at any time after it was signed, such as what
	// a schedule starts. A certificate must have been valid when it signed.
	Standing bool
}

// A Signed command is one whose signature counts.
type Signed struct {
	Args      []byte // canonical, without the auth
	Principal string
	Groups    []string // that the certificate of the signer names, or the worker
	For       bool     // a worker signed it for the principal
	At        time.Time
	Nonce     string
	Message   []byte // what was signed
	Auth      protocol.Auth
}

// Check verifies a command. The error wraps one of the Err values. Check does not ask
// whether the principal may give the command: see [access.Access.Decide].
func Check(r Received, a *access.Access) (Signed, error) {
	s, err := check(r, a)
	if err != nil {
		return Signed{}, fmt.Errorf("%s to %s: %w", r.Name, r.Workflow, err)
	}
	return s, nil
}

func check(r Received, a *access.Access) (Signed, error) {
	object, auth, err := split(r.Raw)
	switch {
	case err != nil:
		return Signed{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	case auth == nil:
		return Signed{}, ErrUnsigned
	}
	at, err := time.Parse(time.RFC3339Nano, auth.At)
	if err != nil || timeText(at) != auth.At {
		return Signed{}, fmt.Errorf("%w: its field auth.at is not a time as in %s", ErrMalformed, timeText(r.Now))
	}
	if auth.Kind == "" {
		r.Waited = 0
	}
	switch {
	case r.Kind != "" && auth.Kind != "" && r.Kind != Kind(auth.Kind):
		return Signed{}, fmt.Errorf("%w: it was signed as %.40q, and came as %s", ErrSignature, auth.Kind, r.Kind)
	case at.After(r.Now.Add(MaxSkew)):
		return Signed{}, fmt.Errorf("%w: it was signed at %s, which is %s in the future: set the clock of the machine that signs, or of this worker", ErrTime, auth.At, at.Sub(r.Now).Round(time.Second))
	case !r.Standing && at.Before(r.Now.Add(-MaxSkew-r.Waited)):
		return Signed{}, fmt.Errorf("%w: it was signed at %s, %s ago, and %s is the limit: give the command again, or set the clock of the machine that signs", ErrTime, auth.At, r.Now.Sub(at).Round(time.Second), MaxSkew+r.Waited)
	}
	valid := r.Now
	if r.Standing {
		valid = at
	}
	canonical, err := encode(object)
	if err != nil {
		return Signed{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	message, err := statement(*auth, r.Workflow, r.Name, canonical).Message()
	if err != nil {
		return Signed{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	armored, certificate := []byte(auth.Signature), []byte(auth.Certificate)
	key, err := sshsig.KeyOf(armored, certificate)
	if err != nil {
		return Signed{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if a.RevokedPerson(auth.Principal) {
		return Signed{}, fmt.Errorf("%w: %s is revoked", ErrRevoked, auth.Principal)
	}
	if why := a.Revoked(key); why != "" {
		return Signed{}, fmt.Errorf("%w: %s", ErrRevoked, why)
	}
	if _, err := sshsig.VerifyCertified(armored, certificate, Namespace, message, a.Workers(), valid); err == nil {
		return Signed{Args: canonical, Principal: auth.Principal, Groups: auth.Groups, For: true, At: at, Nonce: auth.Nonce, Message: message, Auth: *auth}, nil
	}
	who, err := sshsig.VerifyCertified(armored, certificate, Namespace, message, a.Signers(), valid)
	switch {
	case err != nil:
		return Signed{}, fmt.Errorf("%w: %w%s", ErrSignature, errors.Unwrap(err), loginHint(key, a.Signers(), err)) // which says the same first
	case who != auth.Principal:
		return Signed{}, fmt.Errorf("%w: it names %.100q, and %s signed it", ErrSignature, auth.Principal, who)
	}
	if len(auth.Groups) > 0 {
		return Signed{}, fmt.Errorf("%w: its field auth.groups is for workers: the groups of a person are in the certificate", ErrMalformed)
	}
	var groups []string
	if cert, ok := key.(*ssh.Certificate); ok {
		if groups, err = access.CertificateGroups(cert); err != nil {
			return Signed{}, fmt.Errorf("%w: certificate %.100q: %w", ErrSignature, cert.KeyId, err)
		}
	}
	return Signed{Args: canonical, Principal: who, Groups: groups, At: at, Nonce: auth.Nonce, Message: message, Auth: *auth}, nil
}

// loginHint says more of a certificate that does not count.
func loginHint(key ssh.PublicKey, signers *sshsig.Allowed, err error) string {
	cert, ok := key.(*ssh.Certificate)
	switch {
	case !ok:
		return ""
	case errors.Is(err, sshsig.ErrNotNow):
		return ": log in again (`ctl login`)"
	case errors.Is(err, sshsig.ErrNotAllowed) && !signers.Certifies(cert.SignatureKey):
		return fmt.Sprintf(": the access file does not list the authority of certificate %.100q, %s: log in again (`ctl login`)", cert.KeyId, ssh.FingerprintSHA256(cert.SignatureKey))
	}
	return ""
}
