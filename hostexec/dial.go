package hostexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sethvargo/go-retry"
	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/protocol"
)

const (
	// reachDeadline bounds the time until a connection is established.
	reachDeadline     = 30 * time.Second
	handshakeDeadline = 20 * time.Second
	// resetBudget bounds the retries after an sshd hung up because of too many logins
	// (MaxStartups).
	resetBudget = 20 * time.Second
)

func addressOf(s protocol.HostSpec) string {
	port := s.Port
	if port == 0 {
		port = 22
	}
	return net.JoinHostPort(s.Address, strconv.Itoa(port))
}

func loginOf(s protocol.HostSpec) (string, error) {
	if s.User != "" {
		return s.User, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("user: %w", err)
	}
	return u.Username, nil
}

type transport func(ctx context.Context) (net.Conn, error)

func dialTCP(address string) transport {
	return func(ctx context.Context) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return newTCPConn(c), nil
	}
}

// login makes a connection, checks the host key and logs in. Every error is typed. login
// retries if sshd hangs up because it is overloaded, but never after a refusal.
func login(ctx context.Context, spec protocol.HostSpec, agentSocket string, open transport) (*ssh.Client, *link, error) {
	pins, err := newPins(spec)
	if err != nil {
		return nil, nil, err
	}
	userName, err := loginOf(spec)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	var client *ssh.Client
	var conn *link
	backoff := retry.WithMaxDuration(resetBudget, retry.WithJitterPercent(50,
		retry.WithCappedDuration(10*time.Second, retry.NewExponential(200*time.Millisecond))))
	err = retry.Do(ctx, backoff, func(ctx context.Context) error {
		creds, err := newCredentials(spec.Identity, agentSocket)
		if err != nil {
			return err
		}
		defer creds.Close()
		client, conn, err = tryKeys(ctx, pins, userName, creds, open)
		if isReset(err) {
			return retry.RetryableError(err)
		}
		return err
	})
	if err != nil {
		return nil, nil, loginError(ctx, spec, userName, err)
	}
	return client, conn, nil
}

// tryKeys repeats the handshake until the host shows a pinned key or has no other key to
// show. A host shows one key per handshake, and a fingerprint does not tell the key's type.
func tryKeys(ctx context.Context, p *pins, userName string, creds *credentials, open transport) (*ssh.Client, *link, error) {
	algos := p.algorithms()
	var shown []protocol.HostKey
	for {
		client, conn, err := handshake(ctx, p.address, open, &ssh.ClientConfig{
			User:              userName,
			HostKeyAlgorithms: algos,
			HostKeyCallback:   p.check,
			ClientVersion:     clientVersion,
			Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
				return creds.signers, nil
			})},
		})
		var transport *transportError
		var keyErr *HostKeyError
		var noneErr *ssh.AlgorithmNegotiationError
		switch {
		case errors.As(err, &transport):
			return nil, nil, err
		case errors.As(err, &keyErr) && p.db == nil && len(keyErr.Shown) == 1:
			shown = append(shown, keyErr.Shown...)
			if algos = withoutType(algos, keyErr.Shown[0].Type); len(algos) > 0 {
				continue
			}
			keyErr.Shown = shown
			return nil, nil, keyErr
		case errors.As(err, &noneErr) && noneErr.What == "host key":
			if len(shown) == 0 {
				// No key of the host has a pinned type: report its keys.
				shown, _ = scan(ctx, p.address, open)
			}
			return nil, nil, &HostKeyError{Err: ErrHostKeyChanged, Address: p.address, Shown: shown, Pinned: p.expected()}
		case err != nil && strings.Contains(err.Error(), "unable to authenticate"),
			err != nil && strings.Contains(err.Error(), "oo many authentication"):
			return nil, nil, refused(p.address, userName, creds)
		}
		return client, conn, err
	}
}

const clientVersion = "SSH-2.0-Fairlead"

func refused(address, userName string, creds *credentials) error {
	var names []string
	for _, s := range creds.signers {
		names = append(names, s.PublicKey().Type()+" "+ssh.FingerprintSHA256(s.PublicKey()))
	}
	notes := ""
	if len(creds.notes) > 0 {
		notes = "; " + strings.Join(creds.notes, "; ")
	}
	return fmt.Errorf("%w: %s does not let %s in with %s%s: add the public key to its authorized_keys or name another identity",
		ErrAuth, address, userName, strings.Join(names, ", "), notes)
}

func handshake(ctx context.Context, address string, open transport, cfg *ssh.ClientConfig) (*ssh.Client, *link, error) {
	raw, err := open(ctx)
	if err != nil {
		return nil, nil, &transportError{err}
	}
	conn := &link{Conn: raw}
	conn.quota.Store(maxLogin)
	ctx, cancel := context.WithTimeoutCause(ctx, handshakeDeadline,
		fmt.Errorf("the host accepted the connection but did not finish the SSH handshake within %v", handshakeDeadline))
	defer cancel()
	// A channel through a jump host does not support SetDeadline.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	c, chans, reqs, err := ssh.NewClientConn(conn, address, cfg)
	if !stop() {
		if err == nil {
			c.Close()
		}
		return nil, nil, context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	conn.quota.Store(0)
	return ssh.NewClient(c, chans, reqs), conn, nil
}

// A transportError is an error from before the handshake. A text about keys or logins is
// then about a jump host.
type transportError struct{ err error }

func (e *transportError) Error() string { return e.err.Error() }
func (e *transportError) Unwrap() error { return e.err }

// isReset reports whether the peer hung up during the handshake, as sshd does when too many
// are under way.
func isReset(err error) bool {
	var transport *transportError
	if errors.As(err, &transport) {
		return false
	}
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func loginError(ctx context.Context, spec protocol.HostSpec, userName string, err error) error {
	for _, typed := range []error{ErrAuth, ErrHostKeyChanged, ErrHostKeyUnknown, ErrUnreachable, ErrFlood} {
		if errors.Is(err, typed) {
			return err
		}
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) {
		err = cause
	}
	hint := ""
	switch {
	case isReset(err):
		hint = ": it hangs up during the handshake; sshd may be overloaded (MaxStartups) or may block us"
	case errors.Is(err, syscall.ECONNREFUSED):
		hint = ": is sshd running there, on this port?"
	}
	return fmt.Errorf("%w: %s@%s: %w%s", ErrUnreachable, userName, addressOf(spec), err, hint)
}
