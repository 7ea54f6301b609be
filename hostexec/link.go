package hostexec

import (
	"io"
	"net"
	"sync/atomic"
	"time"
)

// A link is the byte stream below a connection. When it has ended in one direction, over is
// set, and it is closed in both. x/crypto/ssh closes its channels a moment before the
// stream: without over, a caller that lost a channel and opened another one in between
// would wait for ever.
type link struct {
	net.Conn
	over  atomic.Bool
	heard atomic.Uint64 // reads that returned data
	quota atomic.Int64  // bytes that the peer may still send before it let us in; 0 is no bound
}

// maxLogin bounds what a host sends before it let us in, in bytes: its version, keys and
// banners.
const maxLogin = 1 << 20

func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if n > 0 {
		l.heard.Add(1)
	}
	if q := l.quota.Load(); q > 0 && !l.quota.CompareAndSwap(q, q-int64(n)) {
		q = 0 // the login has ended meanwhile
	} else if q > 0 && int64(n) >= q {
		l.over.Store(true)
		return 0, &FloodError{What: "what sshd says before the login", Limit: maxLogin}
	}
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

// roundTrip returns the shortest round trip that the kernel has seen, or 0 if unknown;
// behind jump hosts, that to the first jump host.
func (l *link) roundTrip() time.Duration {
	switch c := l.Conn.(type) {
	case *tcpConn:
		return c.roundTrip()
	case *forwardConn:
		return c.via.net.roundTrip()
	}
	return 0
}

// answered records that a command has answered; see tcpConn.
func (l *link) answered() {
	if tcp, ok := l.Conn.(*tcpConn); ok {
		tcp.eager.Store(false)
	}
}
