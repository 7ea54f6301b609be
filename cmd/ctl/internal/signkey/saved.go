package signkey

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/localsocket"
	"fairlead.dev/fairlead/internal/sshsig"
)

// ErrNoLogin means that nobody is logged in.
var ErrNoLogin = errors.New("nobody is logged in")

// A Login is the key and the certificate of `ctl login`.
type Login struct {
	Signer    sshsig.Signer
	Principal string
	Groups    []string
	Issuer    string
	ExpiresAt time.Time

	cert *ssh.Certificate
}

// saved is the JSON of the file. One file has both, so that a key never stands beside the
// certificate of another one.
type saved struct {
	Version     int    `json:"version"`
	Issuer      string `json:"issuer"`
	Key         string `json:"key"`         // PEM
	Certificate string `json:"certificate"` // as in a -cert.pub file
}

const (
	savedVersion = 1
	maxSaved     = 256 << 10 // bytes
)

// A Pair is a new key that has no certificate yet.
type Pair struct {
	Signer sshsig.Signer
	pem    []byte
}

// NewPair makes a key.
func NewPair() (*Pair, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, err
	}
	return &Pair{signer, pem.EncodeToMemory(block)}, nil
}

// Public returns the line of the key as in a .pub file.
func (p *Pair) Public() string { return string(ssh.MarshalAuthorizedKey(p.Signer.PublicKey())) }

// savedPath returns the path of the file.
func savedPath(a *core.App) (string, error) {
	dir, err := a.StateDir()
	return filepath.Join(dir, "login", "certificate.json"), err
}

// Save keeps a key with its certificate, which must be usable now.
func Save(a *core.App, p *Pair, certificate, issuer string) (*Login, error) {
	s := saved{Version: savedVersion, Issuer: issuer, Key: string(p.pem), Certificate: certificate}
	l, err := s.login()
	if err != nil {
		return nil, err
	}
	if now := time.Now(); now.Unix() < int64(l.cert.ValidAfter) || !now.Before(l.ExpiresAt) {
		return nil, fmt.Errorf("the certificate counts from %s to %s, and the clock of this machine says %s: set the clock", time.Unix(int64(l.cert.ValidAfter), 0).UTC().Format(time.RFC3339),
			l.ExpiresAt.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	path, err := savedPath(a)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	if err := localsocket.MakeFolder(dir); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	return l, core.WriteWhole(path, func(w io.Writer) error { _, err := w.Write(data); return err })
}

// Saved returns the login of the state folder, perhaps one that has ended, or an ErrNoLogin.
func Saved(a *core.App) (*Login, error) {
	path, err := savedPath(a)
	if err != nil {
		return nil, err
	}
	fail := func(why error) (*Login, error) {
		return nil, fmt.Errorf("read the login %s: %w (`ctl login` makes it anew)", path, why)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrNoLogin
	case err != nil:
		return fail(err)
	case !info.Mode().IsRegular():
		return fail(errors.New("it is not a regular file"))
	case info.Mode().Perm()&0o077 != 0:
		return fail(fmt.Errorf("its mode is %#o, so that others may have read the key", info.Mode().Perm()))
	}
	if err := localsocket.CheckFolder(filepath.Dir(path)); err != nil {
		return fail(err)
	}
	data, err := core.ReadSmall("login", path, maxSaved)
	if err != nil {
		return nil, err
	}
	var s saved
	if json.Unmarshal(data, &s) != nil {
		return fail(errors.New("it is not JSON as ctl writes it"))
	}
	if s.Version != savedVersion {
		return fail(fmt.Errorf("it is of version %d, and this ctl knows %d", s.Version, savedVersion))
	}
	l, err := s.login()
	if err != nil {
		return fail(err)
	}
	return l, nil
}

// Forget removes the login. It reports whether there was one.
func Forget(a *core.App) (bool, error) {
	path, err := savedPath(a)
	if err != nil {
		return false, err
	}
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (s saved) login() (*Login, error) {
	key, err := sshsig.ParseKey([]byte(s.Key), nil)
	if err != nil {
		return nil, err
	}
	signer, err := sshsig.Certified(key, []byte(s.Certificate))
	if err != nil {
		return nil, err
	}
	cert := signer.PublicKey().(*ssh.Certificate) // of Certified
	if cert.CertType != ssh.UserCert || len(cert.ValidPrincipals) != 1 || cert.ValidBefore == ssh.CertTimeInfinity {
		return nil, errors.New("the certificate does not name one person and an end")
	}
	groups, err := access.CertificateGroups(cert)
	if err != nil {
		return nil, fmt.Errorf("the certificate: %w", err)
	}
	return &Login{Signer: signer, Principal: cert.ValidPrincipals[0], Groups: groups, Issuer: s.Issuer,
		ExpiresAt: time.Unix(int64(cert.ValidBefore), 0).UTC(), cert: cert}, nil
}

// Now returns an error with its hint if the login has ended.
func (l *Login) Now() error {
	if time.Now().Before(l.ExpiresAt) {
		return nil
	}
	return core.NewError(core.ExitRefused, "login_expired", "the login of %s ended at %s", l.Principal, l.ExpiresAt.Local().Format(time.DateTime)).
		Hinted("log in again: `ctl login`")
}

// fromLogin returns the signer of a login that has not ended.
func fromLogin(a *core.App) (sshsig.Signer, error) {
	l, err := Saved(a)
	if err == nil {
		err = l.Now()
	}
	if err != nil {
		return nil, err
	}
	return l.Signer, nil
}
