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
	channels int       // open sessions, idle shells included
	forwards int       // connections through it to hosts behind it
	limit    int       // the most sessions that it may carry
	refusals int       // of sessions, in a row
	lastUsed time.Time // when the last channel was released
}

// watch keeps the connection alive, and removes it from its group when it ends.
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

// A sessionRequest is the request that starts something in a new session.
type sessionRequest struct {
	name    string
	payload []byte
	reply   bool // whether to wait for the host's reply
}

// shellRequest starts a shell. It asks for no reply, to save a round trip: the shell's
// output shows whether the request worked.
var shellRequest = sessionRequest{name: "exec", payload: ssh.Marshal(struct{ Command string }{bootstrap})}

// errRefused means that the host opened a session and refused the request in it.
var errRefused = errors.New("the host refused the request")

// openInTime calls open with reachDeadline as its time limit.
func (c *sshConn) openInTime(ctx context.Context, what sessionRequest) (*sshChannel, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, reachDeadline, errTooLong)
	defer cancel()
	return c.open(ctx, what)
}

// open opens a session and makes a request on it. The caller has counted the channel in
// c.channels. The count is released when the channel ends or cannot be opened.
//
// The goroutine that opens the session is not one of the host's tasks, because OpenChannel
// may never return on a dying connection.
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
				c.net.Close() // the connection is ending; nothing was sent
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
			// Nobody waits for the channel any more, but it takes a place on the connection
			// until it is closed.
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

// through opens a connection to address from the host at the other end of c. The caller has
// counted it in c.forwards. The count is released when the connection is closed.
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

// A forwardConn releases its place on via when it is closed.
type forwardConn struct {
	net.Conn
	via     *sshConn
	release func()
}

func (f *forwardConn) Close() error {
	defer f.release()
	return f.Conn.Close()
}
