package hostexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"fairlead.dev/fairlead/hostexec/internal/script"
)

// ErrNoAgent means that the worker has no SSH agent, or that the host refuses agent
// forwarding.
var ErrNoAgent = errors.New("no SSH agent can be lent")

// A LentAgent makes the pool's SSH agent available to programs on a host. They can list its
// keys and sign with them, but not get, add or remove keys. On this machine (local) they
// use the agent's own socket, as every process of the worker's user can anyway.
type LentAgent struct {
	// Socket is the path of the agent's socket on the host.
	Socket string
	back   func()
}

// Close ends the loan. It may be called more than once.
func (l *LentAgent) Close() { l.back() }

// LendAgent lends the pool's agent to a host of the pool until ctx ends. It opens a
// connection of its own, because every command on a shared connection could use the agent.
func (p *Pool) LendAgent(ctx context.Context, h Host) (*LentAgent, error) {
	fail := func(err error) (*LentAgent, error) {
		return nil, fmt.Errorf("lend %s the SSH agent: %w", h.Name(), SentBy(h, err))
	}
	if p.opts.Agent == "" {
		return fail(fmt.Errorf("%w: this worker has none (SSH_AUTH_SOCK)", ErrNoAgent))
	}
	remote, ok := h.(*sshHost)
	if !ok {
		return &LentAgent{Socket: p.opts.Agent, back: func() {}}, nil // h is this machine
	}
	client, conn, err := remote.login(ctx, control)
	if err != nil {
		return fail(err)
	}
	l := &LentAgent{back: sync.OnceFunc(func() { client.Close(); conn.Close() })}
	stop := context.AfterFunc(ctx, l.back)
	if l.Socket, err = lend(ctx, client, p.opts.Agent); err != nil {
		stop()
		l.back()
		return fail(err)
	}
	return l, nil
}

// lendWait bounds the time until a host reports the socket's path; rc files run first.
const lendWait = startDeadline

// maxSocketPath exceeds the 108 bytes of a socket's path.
const maxSocketPath = 8 << 10

func lend(ctx context.Context, client *ssh.Client, socket string) (string, error) {
	if err := agent.ForwardToAgent(client, signOnly{socket}); err != nil {
		return "", err
	}
	session, err := client.NewSession()
	if err != nil {
		return "", unreachable(err)
	}
	// agent.RequestAgentForwarding returns the same error for a lost connection and for a
	// refusal.
	switch ok, err := session.SendRequest("auth-agent-req@openssh.com", true, nil); {
	case err != nil:
		return "", unreachable(err)
	case !ok:
		return "", fmt.Errorf("%w: the host's sshd refuses agent forwarding (AllowAgentForwarding)", ErrNoAgent)
	}
	in, err := session.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := session.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := session.Start(bootstrap); err != nil {
		return "", unreachable(err)
	}
	mark := script.NewMark()
	// cat keeps the session open.
	if _, err := io.WriteString(in, `printf '\n`+mark+` %s\n' "$SSH_AUTH_SOCK"; exec cat >/dev/null`+"\n"); err != nil {
		return "", unreachable(err)
	}
	late := time.AfterFunc(lendWait, func() { client.Close() })
	defer late.Stop()
	var noise []byte
	rest, err := skipPast(out, []byte("\n"+mark+" "), &noise)
	for err == nil && !strings.Contains(string(rest), "\n") {
		buf := make([]byte, 4<<10)
		var n int
		n, err = out.Read(buf)
		if rest = append(rest, buf[:n]...); len(rest) > maxSocketPath {
			return "", unreachable(fmt.Errorf("the host answered with more than %d bytes, expected the path of a socket", maxSocketPath))
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", unreachable(err)
	}
	where, _, _ := strings.Cut(string(rest), "\n")
	if !path.IsAbs(where) {
		return "", fmt.Errorf("%w: the host made no socket for the agent (check AllowAgentForwarding of its sshd)", ErrNoAgent)
	}
	return where, nil
}

// signOnly is an agent that only lists its keys and signs. A host cannot remove the keys or
// lock the agent.
type signOnly struct{ socket string }

func (a signOnly) with(use func(agent.ExtendedAgent) error) error {
	conn, err := net.Dial("unix", a.socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(handshakeDeadline)); err != nil { // the agent may ask a person
		return err
	}
	return use(agent.NewClient(conn))
}

func (a signOnly) List() (keys []*agent.Key, err error) {
	err = a.with(func(on agent.ExtendedAgent) error { keys, err = on.List(); return err })
	return keys, err
}

func (a signOnly) Sign(key ssh.PublicKey, data []byte) (*ssh.Signature, error) {
	return a.SignWithFlags(key, data, 0)
}

func (a signOnly) SignWithFlags(key ssh.PublicKey, data []byte, flags agent.SignatureFlags) (sig *ssh.Signature, err error) {
	err = a.with(func(on agent.ExtendedAgent) error { sig, err = on.SignWithFlags(key, data, flags); return err })
	return sig, err
}

var errSignOnly = errors.New("a lent agent only signs")

func (signOnly) Add(agent.AddedKey) error                 { return errSignOnly }
func (signOnly) Remove(ssh.PublicKey) error               { return errSignOnly }
func (signOnly) RemoveAll() error                         { return errSignOnly }
func (signOnly) Lock([]byte) error                        { return errSignOnly }
func (signOnly) Unlock([]byte) error                      { return errSignOnly }
func (signOnly) Signers() ([]ssh.Signer, error)           { return nil, errSignOnly }
func (signOnly) Extension(string, []byte) ([]byte, error) { return nil, agent.ErrExtensionUnsupported }

var _ agent.ExtendedAgent = signOnly{}
