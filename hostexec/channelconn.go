package hostexec

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// connChunk is how much a connection through a channel reads at once, in bytes.
	connChunk = 8 << 10
	// connWait is how much it has room for while nothing comes: many of them carry answers for
	// minutes, and nothing in the other direction.
	connWait = 512
	// connKept is the largest buffer for writes that is kept for the next one.
	connKept = 2 << 10
)

// A channelConn is a net.Conn over an SSH channel. x/crypto's has no deadlines, which an
// HTTP server needs.
type channelConn struct {
	over        *sshConn
	ch          halfCloser
	local, peer net.Addr
	release     func()

	in     *detachedReader
	closed chan struct{}
	once   sync.Once

	reading     sync.Mutex
	writing     sync.Mutex
	out         []byte // for write; guarded by writing
	readBefore  deadline
	writeBefore deadline
}

type halfCloser interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// newChannelConn returns nil if the host is closed. release is called once when the
// connection is closed.
func newChannelConn(over *sshConn, ch halfCloser, local, peer net.Addr, release func()) *channelConn {
	c := &channelConn{over: over, ch: ch, local: local, peer: peer, release: release, closed: make(chan struct{})}
	c.readBefore.init()
	c.writeBefore.init()
	h := over.group.host
	c.in = newDetachedReader(ch, c.closed, h.ctx.Done(), connWait)
	c.in.waitSmall()
	if !h.tasks.Go(c.in.run) {
		ch.Close()
		return nil
	}
	return c
}

// Read returns io.EOF when the peer has closed its side, and another error when the SSH
// connection was lost.
func (c *channelConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	d := c.in
	late := c.readBefore.passed()
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	case <-late:
		return 0, os.ErrDeadlineExceeded
	default:
	}
	if len(d.rest) == 0 {
		select {
		case chunk, ok := <-d.chunks:
			if !ok {
				return 0, c.failure(d.err)
			}
			d.rest = chunk
		case <-late:
			return 0, os.ErrDeadlineExceeded
		case <-c.closed:
			return 0, net.ErrClosed
		}
	}
	n := copy(p, d.rest)
	if d.rest = d.rest[n:]; len(d.rest) == 0 {
		d.used <- struct{}{}
	}
	return n, nil
}

// failure tells a lost connection from a peer that is done; see link.
func (c *channelConn) failure(err error) error {
	switch {
	case errors.Is(err, errChannelClosed):
		return net.ErrClosed
	case errors.Is(err, io.EOF) && c.over.isDead():
		return errLost
	}
	return err
}

// Write blocks while the peer does not read. A write that its deadline interrupts closes
// the connection.
func (c *channelConn) Write(p []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for n < len(p) && err == nil {
		var m int
		m, err = c.write(p[n:min(len(p), n+2*connChunk)])
		n += m
	}
	return n, err
}

// write works on a copy, because a write to a channel may last as long as the connection
// when the peer does not read, also after the channel was closed.
func (c *channelConn) write(p []byte) (int, error) {
	late := c.writeBefore.passed()
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	case <-late:
		return 0, os.ErrDeadlineExceeded
	default:
	}
	type result struct {
		n   int
		err error
	}
	wrote := make(chan result, 1)
	buf := append(c.out[:0], p...)
	c.out = nil
	go func() {
		n, err := c.ch.Write(buf)
		wrote <- result{n, err}
	}()
	select {
	case r := <-wrote:
		if cap(buf) <= connKept {
			c.out = buf
		}
		if r.err != nil {
			r.err = c.failure(r.err)
		}
		return r.n, r.err
	case <-late:
		c.Close()
		return 0, os.ErrDeadlineExceeded
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

// CloseWrite tells the peer that no more follows. Reads go on.
func (c *channelConn) CloseWrite() error { return c.ch.CloseWrite() }

func (c *channelConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		// Close may block until a dead peer is noticed.
		c.over.group.host.tasks.Go(func() { c.ch.Close() })
		c.release()
	})
	return nil
}

func (c *channelConn) LocalAddr() net.Addr  { return c.local }
func (c *channelConn) RemoteAddr() net.Addr { return c.peer }

func (c *channelConn) SetDeadline(t time.Time) error {
	c.readBefore.set(t)
	c.writeBefore.set(t)
	return nil
}

func (c *channelConn) SetReadDeadline(t time.Time) error {
	c.readBefore.set(t)
	return nil
}

func (c *channelConn) SetWriteDeadline(t time.Time) error {
	c.writeBefore.set(t)
	return nil
}

// A deadline closes a channel at a time that may be changed, as that of net.Pipe does.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	late  chan struct{}
}

func (d *deadline) init() { d.late = make(chan struct{}) }

func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.late
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.late // the timer has fired and closes it
	}
	d.timer = nil
	over := false
	select {
	case <-d.late:
		over = true
	default:
	}
	if t.IsZero() {
		if over {
			d.late = make(chan struct{})
		}
		return
	}
	if wait := time.Until(t); wait > 0 {
		if over {
			d.late = make(chan struct{})
		}
		late := d.late
		d.timer = time.AfterFunc(wait, func() { close(late) })
		return
	}
	if !over {
		close(d.late)
	}
}
