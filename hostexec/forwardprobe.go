package hostexec

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Forwarding says which forwards a host's sshd permits; nil means that it does.
type Forwarding struct {
	// Remote is about a port on the host, Socket about a socket there, and Local about
	// connections to ports of the host.
	Remote, Socket, Local error
}

// ProbeForwarding finds out by trial which forwards the sshd of a host permits. dir is a
// folder on the host for a socket, which is removed again. On this machine nothing forbids
// anything.
func ProbeForwarding(ctx context.Context, h Host, dir string) (Forwarding, error) {
	remote, ok := h.(*sshHost)
	if !ok {
		return Forwarding{}, nil
	}
	out, err := remote.probeForwarding(ctx, dir)
	if err != nil {
		err = fmt.Errorf("try forwards of %s: %w", h.Name(), SentBy(h, err))
	}
	return out, err
}

func (h *sshHost) probeForwarding(ctx context.Context, dir string) (out Forwarding, err error) {
	g := newConnGroup(h, control, h.pool.idleControl)
	defer g.close()
	defer context.AfterFunc(h.ctx, g.close)()
	c, err := g.forward(ctx)
	if err != nil {
		return out, unreachable(err)
	}
	refusal := func(err error) (told, failed error) {
		if errors.Is(err, ErrForwardRefused) || errors.Is(err, ErrForwardOpen) {
			return err, nil
		}
		return nil, err
	}
	port, err := c.listenTCP(ctx, 0)
	if err == nil {
		err = c.onLoopback(ctx, port)
		if _, _, gone := c.request(ctx, "cancel-tcpip-forward", listenTCP{loopback, uint32(port)}); gone != nil {
			return out, gone
		}
	}
	if out.Remote, err = refusal(err); err != nil {
		return out, err
	}
	socket := path.Join(dir, "s"+strings.ToLower(rand.Text()[:8]))
	if len(socket) > maxSocketName {
		out.Socket = fmt.Errorf("%w: a socket below %s: its path has more than %d bytes", ErrUnsupported, dir, maxSocketName)
	} else {
		err = c.listenUnix(ctx, socket)
		if err == nil {
			_, _, err = c.request(ctx, "cancel-streamlocal-forward@openssh.com", listenUnix{socket})
			err = errors.Join(err, c.once(ctx, Command{Script: `rm -f -- "$1"`, Args: []string{socket}}, nil))
		}
		if out.Socket, err = refusal(err); err != nil {
			return out, err
		}
	}
	// Nobody listens at port 1. sshd tells that apart from what it forbids.
	c2, err := g.forward(ctx)
	if err != nil {
		return out, unreachable(err)
	}
	conn, err := c2.dial(ctx, "tcp", loopback+":1")
	if err == nil {
		conn.Close()
		return out, nil
	}
	var rejected *ssh.OpenChannelError
	if !errors.As(err, &rejected) {
		return out, unreachable(err)
	}
	out.Local, _ = refusal(forwardFailure(err, loopback+":1"))
	return out, nil
}
