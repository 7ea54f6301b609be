package hostexec

import (
	"errors"
	"io"
	"sync"

	"golang.org/x/crypto/ssh"
)

type sshChannel struct {
	conn     *sshConn
	ch       ssh.Channel
	out, err *detachedReader

	closeOnce sync.Once
	closed    chan struct{} // when we close the channel
	done      chan struct{} // when the session is over
	end       ending        // valid once done is closed
}

var (
	errLost          = errors.New("the connection was lost")
	errNoStatus      = errors.New("the session ended without an exit status")
	errChannelClosed = errors.New("the channel is closed")
)

func newSSHChannel(c *sshConn, ch ssh.Channel, reqs <-chan *ssh.Request) *sshChannel {
	s := &sshChannel{conn: c, ch: ch, closed: make(chan struct{}), done: make(chan struct{})}
	outSize, errSize := 8<<10, 2<<10
	if c.group.kind == bulk {
		outSize = 64 << 10
	}
	t := &c.group.host.tasks
	over := c.group.host.ctx.Done()
	s.out = newDetachedReader(ch, s.closed, over, outSize)
	s.err = newDetachedReader(ch.Stderr(), s.closed, over, errSize)
	watching := t.Go(func() {
		s.end = sessionEnd(reqs)
		if s.end.lost != nil && c.isDead() {
			s.end.lost = errLost
		}
		close(s.done)
		c.group.release(c)
	})
	if !watching {
		s.end = ending{lost: errHostClosed}
		close(s.done)
	}
	s.out.first = c.net.answered
	t.Go(s.out.run)
	t.Go(s.err.run)
	return s
}

func sessionEnd(reqs <-chan *ssh.Request) ending {
	end := ending{lost: errNoStatus}
	for req := range reqs {
		switch req.Type {
		case "exit-status":
			var msg struct{ Status uint32 }
			if ssh.Unmarshal(req.Payload, &msg) == nil {
				end = ending{status: int(msg.Status)}
			}
		case "exit-signal":
			var msg struct {
				Signal     string
				CoreDumped bool
				Error      string
				Lang       string
			}
			if ssh.Unmarshal(req.Payload, &msg) == nil {
				end = ending{status: 128 + signalNumbers[msg.Signal]}
			}
		}
		if req.WantReply {
			req.Reply(false, nil)
		}
	}
	return end
}

// signalNumbers are the numbers that POSIX shells add to 128.
var signalNumbers = map[string]int{
	"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9,
	"USR1": 10, "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "XCPU": 24, "XFSZ": 25, "SYS": 31,
}

func (s *sshChannel) Write(p []byte) (int, error) { return s.ch.Write(p) }
func (s *sshChannel) CloseWrite() error           { return s.ch.CloseWrite() }
func (s *sshChannel) Stdout() io.Reader           { return s.out }
func (s *sshChannel) Stderr() io.Reader           { return s.err }
func (s *sshChannel) Done() <-chan struct{}       { return s.done }
func (s *sshChannel) End() ending                 { return s.end }

func (s *sshChannel) Close() error {
	s.closeOnce.Do(func() {
		close(s.closed)
		// Close may block until a dead peer is noticed.
		s.conn.group.host.tasks.Go(func() { s.ch.Close() })
	})
	return nil
}

// A detachedReader reads in its own goroutine, because a read from an SSH channel cannot be
// interrupted.
type detachedReader struct {
	r      io.Reader
	closed <-chan struct{}
	over   <-chan struct{}
	buf    []byte
	few    []byte // the buffer of a reader that waits with a small one
	chunks chan []byte
	used   chan struct{}
	first  func() // called after the first data
	err    error  // valid once chunks is closed

	rest []byte // used by Read only
}

func newDetachedReader(r io.Reader, closed, over <-chan struct{}, size int) *detachedReader {
	return &detachedReader{r: r, closed: closed, over: over, buf: make([]byte, size), chunks: make(chan []byte), used: make(chan struct{}, 1)}
}

// waitSmall has the reader keep a small buffer while nothing comes, and read connChunk at once while
// more does.
func (d *detachedReader) waitSmall() { d.few = d.buf }

var bigChunks = sync.Pool{New: func() any { return new([connChunk]byte) }}

// fit chooses the buffer of the next read after one of n bytes. A read that did not fill its buffer
// has left nothing behind, so that the next one waits.
func (d *detachedReader) fit(n int) {
	small := len(d.buf) == len(d.few)
	switch {
	case d.few == nil:
	case small && n == len(d.buf):
		d.buf = bigChunks.Get().(*[connChunk]byte)[:]
	case !small && n < len(d.buf):
		bigChunks.Put((*[connChunk]byte)(d.buf))
		d.buf = d.few
	}
}

func (d *detachedReader) run() {
	defer close(d.chunks)
	for {
		n, err := d.r.Read(d.buf)
		if n > 0 {
			if d.first != nil {
				d.first()
				d.first = nil
			}
			select {
			case d.chunks <- d.buf[:n]:
			case <-d.closed:
				d.err = errChannelClosed
				return
			case <-d.over:
				d.err = errHostClosed
				return
			}
			select {
			case <-d.used:
			case <-d.closed:
				d.err = errChannelClosed
				return
			case <-d.over:
				d.err = errHostClosed
				return
			}
			d.fit(n)
		}
		if err != nil {
			d.err = err
			return
		}
	}
}

func (d *detachedReader) Read(p []byte) (int, error) {
	if len(d.rest) == 0 {
		select {
		case <-d.closed:
			return 0, errChannelClosed
		default:
		}
		select {
		case chunk, ok := <-d.chunks:
			if !ok {
				return 0, d.err
			}
			d.rest = chunk
		case <-d.closed:
			return 0, errChannelClosed
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	if len(d.rest) == 0 {
		d.used <- struct{}{}
	}
	return n, nil
}
