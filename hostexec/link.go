package hostexec

import (
	"io"
	"net"
	"sync/atomic"
	"time"
)

// A link is the byte stream below a connection. Once it ended in one
// direction it is over in both, and that is known here before it is anywhere
// else: x/crypto/ssh closes its channels first and the stream a moment later,
// and a channel that is opened in between (by somebody who was just told that
// a channel was lost) would wait for an answer for ever.
type link struct {
	net.Conn
	over atomic.Bool
}

func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if err != nil {
		l.over.Store(true)
	}
	return n, err
}

func (l *link) Write(p []byte) (int, error) {
	if l.over.Load() {
		return 0, io.ErrClosedPipe
	}
	return l.Conn.Write(p)
}

func (l *link) Close() error {
	l.over.Store(true)
	return l.Conn.Close()
}

// roundTrip is the shortest one so far, as the kernel has seen it; through a
// jump host, that to the first of them. 0 where nobody knows.
func (l *link) roundTrip() time.Duration {
	switch c := l.Conn.(type) {
	case *tcpConn:
		return c.roundTrip()
	case *forwardConn:
		return c.via.roundTrip()
	}
	return 0
}

// answered says that a command has answered; see tcpConn.
func (l *link) answered() {
	if tcp, ok := l.Conn.(*tcpConn); ok {
		tcp.eager.Store(false)
	}
}
