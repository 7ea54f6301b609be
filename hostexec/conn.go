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

type sshConn struct {
	group  *connGroup
	client *ssh.Client
	net    *link
	dead   chan struct{} // closed when the connection is gone

	// guarded by group.mu:
	channels int // open sessions, including idle shells
	forwards int // connections through it to hosts behind it
	limit    int
	refusals int // of sessions, in a row
	lastUsed time.Time
}

func (c *sshConn) watch() {
	t := &c.group.host.tasks
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
	t.Go(c.keepAlive)
}

func (c *sshConn) isDead() bool { return c.net.over.Load() }

type sessionRequest struct {
	name    string
	payload []byte
	reply   bool // wait for the host's reply
}

// shellRequest starts a shell. It asks for no reply, to save a round trip: the shell's
// output shows whether it worked.
var shellRequest = sessionRequest{name: "exec", payload: ssh.Marshal(struct{ Command string }{bootstrap})}

// errRefused means that the host refused a request in an open session.
var errRefused = errors.New("the host refused the request")

func (c *sshConn) openInTime(ctx context.Context, what sessionRequest) (*sshChannel, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, reachDeadline, errTooLong)
	defer cancel()
	return c.open(ctx, what)
}

// open opens a session and makes a request on it. The caller has counted the channel in
// c.channels; the count is released when the channel ends or cannot be opened.
//
// The goroutine is no task of the host, because OpenChannel may never return on a dying
// connection.
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
				c.net.Close() // nothing was sent
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
			// The channel counts until it is closed.
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

// through opens a connection to address from the other end of c. The caller has counted it
// in c.forwards; the count is released when the connection is closed.
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
	return &forwardConn{Conn: conn, via: c, release: sync.OnceFunc(func() { c.group.releaseForward(c) })}, nil
}

type forwardConn struct {
	net.Conn
	via     *sshConn
	release func()
}

func (f *forwardConn) Close() error {
	defer f.release()
	return f.Conn.Close()
}
