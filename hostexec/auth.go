package hostexec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"fairlead.dev/fairlead/internal/localsocket"
)

// maxKeys bounds the keys offered to a host. sshd hangs up after MaxAuthTries keys (6 by
// default).
const maxKeys = 4

var usualKeys = []string{"id_ed25519", "id_ecdsa", "id_rsa"}

type credentials struct {
	signers []ssh.Signer
	agent   net.Conn // may be nil; open until the handshake is over
	notes   []string // keys that could not be used, and why
}

func (c *credentials) Close() {
	if c.agent != nil {
		c.agent.Close()
	}
}

// newCredentials collects the keys to offer. It fails with ErrAuth if there is none, or the
// named identity cannot be used.
func newCredentials(identity, agentSocket string) (*credentials, error) {
	c := &credentials{}
	agentSigners, agentErr := c.dialAgent(agentSocket)
	if identity != "" {
		s, err := loadIdentity(expandHome(identity), agentSigners)
		if err != nil {
			c.Close()
			if agentErr != nil {
				err = fmt.Errorf("%w (%w)", err, agentErr)
			}
			return nil, noKey(err)
		}
		c.signers = []ssh.Signer{s}
		return c, nil
	}
	if agentErr != nil {
		c.notes = append(c.notes, agentErr.Error())
	}
	c.addUsual(agentSigners)
	if len(c.signers) == 0 {
		c.Close()
		c.notes = append(c.notes, "no identity is named, and neither an agent nor ~/.ssh has a key that can be used")
		return nil, noKey(errors.New(strings.Join(c.notes, "; ")))
	}
	return c, nil
}

// A noKeyError means that this machine has no key to offer. It counts as ErrAuth.
type noKeyError struct {
	machine string
	err     error
}

func noKey(err error) error {
	machine, herr := os.Hostname()
	if herr != nil {
		machine = "of unknown name"
	}
	return &noKeyError{machine, err}
}

func (e *noKeyError) Error() string {
	return fmt.Sprintf("no key to offer from machine %s: %v", e.machine, e.err)
}

func (e *noKeyError) Unwrap() []error { return []error{ErrAuth, e.err} }

// addUsual adds usualKeys and the agent's keys. Agent keys with a file in ~/.ssh come
// first, because an agent may hold more than maxKeys keys.
func (c *credentials) addUsual(agentSigners []ssh.Signer) {
	add := func(s ssh.Signer) {
		same := func(o ssh.Signer) bool { return samePublic(o.PublicKey(), s.PublicKey()) }
		if len(c.signers) < maxKeys && !slices.ContainsFunc(c.signers, same) {
			c.signers = append(c.signers, s)
		}
	}
	for _, name := range usualKeys {
		file := expandHome("~/.ssh/" + name)
		s, err := loadIdentity(file, agentSigners)
		switch {
		case err == nil:
			add(s)
		case !errors.Is(err, fs.ErrNotExist):
			c.notes = append(c.notes, err.Error())
		}
	}
	for _, s := range agentSigners {
		add(s)
	}
	if n := len(agentSigners); n > maxKeys {
		c.notes = append(c.notes, fmt.Sprintf("the agent holds %d keys and at most %d are tried: name one as identity", n, maxKeys))
	}
}

func (c *credentials) dialAgent(socket string) ([]ssh.Signer, error) {
	if socket == "" {
		return nil, nil
	}
	conn, err := localsocket.DialAgent(context.Background(), socket)
	if err != nil {
		return nil, fmt.Errorf("ssh agent: %w", err)
	}
	c.agent = conn
	conn.SetDeadline(time.Now().Add(handshakeDeadline)) // an agent may ask a person
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		return nil, fmt.Errorf("ssh agent: list keys: %w", err)
	}
	return signers, nil
}

// loadIdentity returns the signer of a private key file. The agent signs if the file is
// encrypted, belongs to a key on a token, or is only a public key. A certificate beside the
// file (file-cert.pub) is used.
func loadIdentity(file string, agentSigners []ssh.Signer) (ssh.Signer, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("identity %s: %w", file, unwrapPath(err))
	}
	signer, err := ssh.ParsePrivateKey(raw)
	if err != nil {
		pub := publicOf(file, raw, err)
		var missing *ssh.PassphraseMissingError
		i := slices.IndexFunc(agentSigners, func(s ssh.Signer) bool { return pub != nil && samePublic(s.PublicKey(), pub) })
		switch {
		case i >= 0:
			signer = agentSigners[i]
		case errors.As(err, &missing):
			return nil, fmt.Errorf("identity %s is protected by a passphrase and no agent holds it: add it to the agent (ssh-add) or name another key", file)
		case pub != nil:
			return nil, fmt.Errorf("identity %s: no agent holds this key", file)
		default:
			return nil, fmt.Errorf("identity %s: %w", file, err)
		}
	}
	return withCertificate(file, signer)
}

// publicOf returns the public key of a key file that cannot sign by itself, or nil.
func publicOf(file string, raw []byte, err error) ssh.PublicKey {
	var missing *ssh.PassphraseMissingError
	if errors.As(err, &missing) && missing.PublicKey != nil {
		return missing.PublicKey
	}
	if key, _, _, _, err := ssh.ParseAuthorizedKey(raw); err == nil {
		return key
	}
	if raw, err := os.ReadFile(file + ".pub"); err == nil {
		if key, _, _, _, err := ssh.ParseAuthorizedKey(raw); err == nil {
			return key
		}
	}
	return nil
}

func withCertificate(file string, signer ssh.Signer) (ssh.Signer, error) {
	file = strings.TrimSuffix(file, ".pub") + "-cert.pub"
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return signer, nil
	}
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(raw)
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", file, err)
	}
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return nil, fmt.Errorf("certificate %s: it is a plain public key", file)
	}
	if s, err := ssh.NewCertSigner(cert, signer); err == nil {
		return s, nil
	}
	return nil, fmt.Errorf("certificate %s does not belong to the key beside it", file)
}

func samePublic(a, b ssh.PublicKey) bool { return string(a.Marshal()) == string(b.Marshal()) }

func expandHome(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return p
}

func unwrapPath(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}
