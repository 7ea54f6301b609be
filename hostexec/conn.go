package hostexec

import (
	"context"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// An sshConn is one connection to a host and what runs over it.
type sshConn struct {
	group  *connGroup
	client *ssh.Client
	net    net.Conn
	dead   chan struct{} // closed when the connection is gone

	// guarded by group.mu:
	channels int       // open sessions, idle shells included
	forwards int       // connections through it, to hosts behind it
	limit    int       // sessions that it takes
	refusals int       // in a row
	lastUsed time.Time // when the last channel went away
}

// watch learns of the end of the connection, and asks every now and then
// whether the peer is still there; TCP alone would take minutes to tell.
func (c *sshConn) watch() {
	t, pool := &c.group.host.tasks, c.group.host.pool
	ended := t.Go(func() {
		c.client.Wait()
		c.net.Close()
		close(c.dead)
		c.group.remove(c)
	})
	if !ended {
		c.net.Close()
		close(c.dead)
		return
	}
	t.Go(func() {
		tick := time.NewTicker(pool.keepaliveEvery)
		defer tick.Stop()
		for {
			select {
			case <-c.dead:
				return
			case <-tick.C:
			}
			late := time.AfterFunc(pool.keepaliveWait, func() { c.net.Close() })
			_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil)
			late.Stop()
			if err != nil {
				c.net.Close()
			}
		}
	})
}

func (c *sshConn) isDead() bool {
	select {
	case <-c.dead:
		return true
	default:
		return false
	}
}

// open opens a session and gives it bootstrap. The exec request wants no
// reply: what follows tells whether it worked, one round trip earlier. The
// caller has counted the channel; it is uncounted when it ends.
func (c *sshConn) open(ctx context.Context) (*sshChannel, error) {
	type opened struct {
		ch   ssh.Channel
		reqs <-chan *ssh.Request
		err  error
	}
	result := make(chan opened, 1)
	ok := c.group.host.tasks.Go(func() {
		ch, reqs, err := c.client.OpenChannel("session", nil)
		if err == nil {
			_, err = ch.SendRequest("exec", false, ssh.Marshal(struct{ Command string }{bootstrap}))
			if err != nil {
				c.net.Close() // it is ending; nothing was sent
				for range reqs {
				}
			}
		}
		result <- opened{ch, reqs, err}
	})
	if !ok {
		c.group.release(c)
		return nil, errHostClosed
	}
	select {
	case o := <-result:
		if o.err != nil {
			c.group.release(c)
			return nil, o.err
		}
		return newSSHChannel(c, o.ch, o.reqs), nil
	case <-ctx.Done():
		// Nobody waits for it any more, but it counts until it is gone.
		c.group.host.tasks.Go(func() {
			if o := <-result; o.err == nil {
				newSSHChannel(c, o.ch, o.reqs).Close()
			} else {
				c.group.release(c)
			}
		})
		return nil, context.Cause(ctx)
	}
}

// through opens a connection to address from the host at the other end.
func (c *sshConn) through(ctx context.Context, address string) (net.Conn, error) {
	conn, err := c.client.DialContext(ctx, "tcp", address)
	if err != nil {
		c.group.releaseForward(c)
		return nil, err
	}
	return &forwardConn{Conn: conn, release: sync.OnceFunc(func() { c.group.releaseForward(c) })}, nil
}

// forwardConn gives its place back when it is closed.
type forwardConn struct {
	net.Conn
	release func()
}

func (f *forwardConn) Close() error {
	defer f.release()
	return f.Conn.Close()
}
