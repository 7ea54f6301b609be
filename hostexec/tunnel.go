package hostexec

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"sync"

	"golang.org/x/crypto/ssh"
)

// ErrNotAnswered means that nobody listens at an address of a host.
var ErrNotAnswered = errors.New("nobody answers")

// Dial connects from a host to an address as the host sees it: network is "tcp" with
// host:port, or "unix" with the path of a socket. The connection has CloseWrite. It returns
// ErrForwardRefused if the host's sshd forbids it, and ErrNotAnswered if nobody listens.
func Dial(ctx context.Context, h Host, network, address string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, fmt.Errorf("connect to %s on %s: %w", address, h.Name(), SentBy(h, err))
	}
	switch network {
	case "tcp":
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fail(err)
		}
	case "unix":
		if !path.IsAbs(address) || len(address) > maxSocketName {
			return fail(fmt.Errorf("%q is no absolute path of a socket with at most %d bytes", address, maxSocketName))
		}
	default:
		return fail(fmt.Errorf("network %q is neither tcp nor unix", network))
	}
	remote, ok := h.(*sshHost)
	if !ok {
		c, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return fail(fmt.Errorf("%w: %w", ErrNotAnswered, err))
		}
		return c, nil
	}
	for try := 1; ; try++ {
		c, err := remote.groups[bulk].forward(ctx)
		if err != nil {
			return fail(unreachable(err))
		}
		conn, err := c.dial(ctx, network, address)
		var rejected *ssh.OpenChannelError
		switch {
		case err == nil:
			return conn, nil
		case errors.As(err, &rejected) || ctx.Err() != nil || try >= 3:
			return fail(forwardFailure(err, address))
		}
		// The connection was already lost.
		c.net.Close()
	}
}

// dial opens a channel to an address. The caller has counted it in c.forwards.
func (c *sshConn) dial(ctx context.Context, network, address string) (net.Conn, error) {
	release := sync.OnceFunc(func() { c.group.releaseForward(c) })
	ctx, cancel := context.WithTimeoutCause(ctx, reachDeadline, errTooLong)
	defer cancel()
	type result struct {
		conn net.Conn
		err  error
	}
	got := make(chan result, 1)
	go func() { // no task of the host: it may never return on a dying connection
		conn, err := c.client.Dial(network, address)
		got <- result{conn, err}
	}()
	abandon := func(err error) (net.Conn, error) {
		go func() {
			if r := <-got; r.err == nil {
				r.conn.Close()
			}
			release()
		}()
		return nil, err
	}
	select {
	case r := <-got:
		if r.err != nil {
			release()
			return nil, r.err
		}
		ch, ok := r.conn.(halfCloser)
		if !ok {
			r.conn.Close()
			release()
			return nil, errors.New("the channel has no half-close")
		}
		conn := newChannelConn(c, ch, r.conn.LocalAddr(), r.conn.RemoteAddr(), release)
		if conn == nil {
			release()
			return nil, errHostClosed
		}
		return conn, nil
	case <-c.dead:
		return abandon(errLost)
	case <-ctx.Done():
		return abandon(context.Cause(ctx))
	}
}
