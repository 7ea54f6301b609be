package hostexec

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// An sshConn is one connection to a host and what runs over it.
type sshConn struct {
	group  *connGroup
	client *ssh.Client
	net    *link
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

func (c *sshConn) isDead() bool { return c.net.over.Load() }

// A sessionRequest says what is to run at the end of a session.
type sessionRequest struct {
	name    string
	payload []byte
	reply   bool // wait until the host says that it does
}

// shellRequest wants no reply: what follows tells whether it worked, one round
// trip earlier.
var shellRequest = sessionRequest{name: "exec", payload: ssh.Marshal(struct{ Command string }{bootstrap})}

// errRefused: the host opened a session and would not run what was asked for.
var errRefused = errors.New("the host refused the request")

// openInTime is open with a bound.
func (c *sshConn) openInTime(ctx context.Context, what sessionRequest) (*sshChannel, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, reachDeadline, errTooLong)
	defer cancel()
	return c.open(ctx, what)
}

// open opens a session and makes a request on it. The caller has counted the
// channel; it is uncounted when it ends.
//
// The goroutine is not one of the host's tasks: there are moments of a dying
// connection in which OpenChannel never returns.
func (c *sshConn) open(ctx context.Context, what sessionRequest) (*sshChannel, error) {
	type opened struct {
		ch   ssh.Channel
		reqs <-chan *ssh.Request
		err  error
	}
	result := make(chan opened)
	abandoned := make(chan struct{})
	go func() {
		ch, reqs, err := c.client.OpenChannel("session", nil)
		if err == nil {
			var ok bool
			ok, err = ch.SendRequest(what.name, what.reply, what.payload)
			switch {
			case err != nil:
				c.net.Close() // it is ending; nothing was sent
				go ssh.DiscardRequests(reqs)
			case what.reply && !ok:
				err = fmt.Errorf("%w: %s", errRefused, what.name)
				go ssh.DiscardRequests(reqs)
				ch.Close()
			}
		}
		select {
		case result <- opened{ch, reqs, err}:
		case <-abandoned:
			// Nobody waits for it any more, but it counts until it is gone.
			if err == nil {
				newSSHChannel(c, ch, reqs).Close()
			} else {
				c.group.release(c)
			}
		}
	}()
	select {
	case o := <-result:
		if o.err != nil {
			c.group.release(c)
			return nil, o.err
		}
		return newSSHChannel(c, o.ch, o.reqs), nil
	case <-c.dead:
		close(abandoned)
		return nil, errLost
	case <-ctx.Done():
		close(abandoned)
		return nil, context.Cause(ctx)
	}
}

// through opens a connection to address from the host at the other end. The
// caller has counted it; it is uncounted when it is closed.
func (c *sshConn) through(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	defer close(over)
	c.group.host.tasks.Go(func() {
		select {
		case <-c.dead:
			cancel(errLost)
		case <-over:
		}
	})
	conn, err := c.client.DialContext(ctx, "tcp", address)
	if err != nil {
		c.group.releaseForward(c)
		if context.Cause(ctx) == errLost {
			err = errLost
		}
		return nil, err
	}
	return &forwardConn{Conn: conn, via: c.net, release: sync.OnceFunc(func() { c.group.releaseForward(c) })}, nil
}

// forwardConn gives its place back when it is closed.
type forwardConn struct {
	net.Conn
	via     *link
	release func()
}

func (f *forwardConn) Close() error {
	defer f.release()
	return f.Conn.Close()
}
