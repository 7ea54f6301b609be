package login

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/secretfile"
	"fairlead.dev/fairlead/internal/sshsig"
)

// Bounds on the life of a certificate.
const (
	Lifetime    = 8 * time.Hour // the default
	MinLifetime = 5 * time.Minute
	MaxLifetime = 24 * time.Hour
)

const (
	maxKeyFile = 64 << 10 // bytes
	// atOnce bounds the logins that are verified at a time.
	atOnce = 8
)

// timeless is a time for keys that have no end.
var timeless = time.Unix(0, 0)

// Options configure a Desk.
type Options struct {
	Settings
	Claims
	// KeyFile has the private key of the certificate authority. Others must not read it. It
	// is read at each login, so that a new key needs no restart.
	KeyFile  string
	Lifetime time.Duration
	// Access returns the access file in force.
	Access func() *access.Access
	Logger *slog.Logger
	Now    func() time.Time // default time.Now
}

// A Desk gives certificates to people who have logged in. It is safe for concurrent use.
type Desk struct {
	opts     Options
	verifier *Verifier
	slots    chan struct{}
}

// Open checks the options and the key file. It does not ask the issuer.
func Open(o Options) (*Desk, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Lifetime < MinLifetime || o.Lifetime > MaxLifetime {
		return nil, fmt.Errorf("log people in: the lifetime of certificates is %s, and must be between %s and %s", o.Lifetime, MinLifetime, MaxLifetime)
	}
	d := &Desk{opts: o, verifier: NewVerifier(o.Settings, o.Claims, o.Now), slots: make(chan struct{}, atOnce)}
	key, err := d.key()
	if err != nil {
		return nil, fmt.Errorf("log people in: %w", err)
	}
	if a := o.Access(); !a.Signers().Certifies(key.PublicKey()) {
		o.Logger.Warn("nobody can log in yet: the access file does not list the certificate key under authorities", "key", ssh.FingerprintSHA256(key.PublicKey()), "access", a.Digest)
	}
	return d, nil
}

// Close closes idle connections to the issuer.
func (d *Desk) Close() { d.verifier.Close() }

// Settings say where people log in.
func (d *Desk) Settings() Settings { return d.opts.Settings }

// A Request asks for a certificate.
type Request struct {
	IDToken string `json:"id_token"`
	// Nonce is what the flow asked the token to have, if it asked for one.
	Nonce string `json:"nonce,omitempty"`
	// PublicKey is an ed25519 key as in a .pub file.
	PublicKey string `json:"public_key"`
	Proof     string `json:"proof"` // of Prove
}

// A Certificate is the answer to a Request.
type Certificate struct {
	Certificate string    `json:"certificate"` // as in a -cert.pub file
	KeyID       string    `json:"key_id"`
	Principal   string    `json:"principal"`
	Groups      []string  `json:"groups"`
	ExpiresAt   time.Time `json:"expires_at"`
}

// Certify verifies a request and signs a certificate. The error wraps one of the Err values. If
// it wraps ErrBadInput or ErrRefused, it is a *Denied.
func (d *Desk) Certify(ctx context.Context, r Request) (Certificate, error) {
	var who Person
	out, err := d.certify(ctx, r, &who)
	if errors.Is(err, ErrBadInput) || errors.Is(err, ErrRefused) {
		err = &Denied{Err: err, Person: who, Claimed: d.verifier.claimed(r.IDToken)}
	}
	return out, err
}

// certify sets proved once the ID token holds.
func (d *Desk) certify(ctx context.Context, r Request, proved *Person) (Certificate, error) {
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return Certificate{}, fmt.Errorf("%w: many log in at once: %w", ErrIssuer, context.Cause(ctx))
	}
	key, err := proven(r)
	if err != nil {
		return Certificate{}, err
	}
	who, err := d.verifier.Verify(ctx, r.IDToken, r.Nonce)
	if err != nil {
		return Certificate{}, err
	}
	*proved = who
	ca, err := d.key()
	if err != nil {
		return Certificate{}, err
	}
	now := d.opts.Now()
	cert, err := Issue(ca, key, who.Principal, who.Groups, d.opts.Lifetime, now)
	switch {
	case errors.Is(err, ErrRefused):
		return Certificate{}, fmt.Errorf("%w: claim %q: let the issuer send only groups that the access file names", err, d.verifier.claims.Groups)
	case err != nil:
		return Certificate{}, err
	}
	line := ssh.MarshalAuthorizedKey(cert)
	if err := d.counts(r, who.Principal, line, now); err != nil {
		return Certificate{}, err
	}
	out := Certificate{Certificate: strings.TrimSpace(string(line)), KeyID: cert.KeyId, Principal: who.Principal,
		Groups: append([]string{}, who.Groups...), ExpiresAt: time.Unix(int64(cert.ValidBefore), 0).UTC()}
	d.opts.Logger.Info("certificate issued", "principal", out.Principal, "groups", out.Groups, "certificate", out.KeyID, "until", out.ExpiresAt)
	return out, nil
}

// counts returns an error if commands that a new certificate signs would be refused, whatever
// the roles of the principal.
func (d *Desk) counts(r Request, principal string, line []byte, now time.Time) error {
	a := d.opts.Access()
	if a.RevokedPerson(principal) {
		return fmt.Errorf("%w: the access file says that %s is revoked", ErrRefused, principal)
	}
	who, err := sshsig.VerifyCertified([]byte(r.Proof), line, Namespace, message(r.IDToken), a.Signers(), now)
	switch {
	case err != nil:
		return fmt.Errorf("%w: by the access file, a certificate for %s would not count: %w: see authorities there", ErrRefused, principal, errors.Unwrap(err))
	case who != principal:
		return fmt.Errorf("%w: by the access file, the key is that of %s, and %s logs in", ErrRefused, who, principal)
	}
	return nil
}

// Admits returns an error if a person, whom an ID token names, would get no certificate that
// counts. It is for logins that give none: it judges them by a certificate for a key that is
// thrown away. The error wraps ErrRefused or ErrKey.
func (d *Desk) Admits(who Person) error {
	ca, err := d.key()
	if err != nil {
		return err
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrKey, err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrKey, err)
	}
	now := d.opts.Now()
	cert, err := Issue(ca, key.PublicKey(), who.Principal, who.Groups, d.opts.Lifetime, now)
	if err != nil {
		return err
	}
	const thrown = "a login without a certificate"
	proof, err := Prove(key, thrown)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrKey, err)
	}
	return d.counts(Request{IDToken: thrown, Proof: proof}, who.Principal, ssh.MarshalAuthorizedKey(cert), now)
}

// key reads the key of the certificate authority.
func (d *Desk) key() (ssh.Signer, error) {
	fail := func(why error) (ssh.Signer, error) {
		return nil, fmt.Errorf("%w: %s: %w", ErrKey, d.opts.KeyFile, why)
	}
	f, err := os.Open(d.opts.KeyFile)
	if err != nil {
		return fail(errors.Unwrap(err))
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return fail(err)
	case !info.Mode().IsRegular():
		return fail(errors.New("it is not a regular file"))
	case secretfile.Exposed(info):
		return fail(fmt.Errorf("its mode is %#o, so that others may read it: chmod 600", info.Mode().Perm()))
	}
	pem, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	switch {
	case err != nil:
		return fail(err)
	case len(pem) > maxKeyFile:
		return fail(fmt.Errorf("it has more than %d bytes", maxKeyFile))
	}
	key, err := sshsig.ParseKey(pem, nil)
	if err != nil {
		return fail(err)
	}
	return key, nil
}
