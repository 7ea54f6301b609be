package hostexec

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// dialer detects a dead peer in seconds. TCP keepalives cover the time before SSH
// keepalives begin.
var dialer = net.Dialer{
	Timeout:         10 * time.Second,
	KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	Control:         func(_, _ string, c syscall.RawConn) error { return c.Control(setUserTimeout) },
}

// tcpConn sends ACKs at once while eager. sshd sends its first answers as two small packets
// with Nagle's algorithm on, so a delayed ACK would cost 40 ms on a connection's first
// command.
type tcpConn struct {
	net.Conn
	raw   syscall.RawConn
	eager atomic.Bool
}

func newTCPConn(c net.Conn) *tcpConn {
	t := &tcpConn{Conn: c}
	if sc, ok := c.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			t.raw = raw
			t.eager.Store(true)
		}
	}
	return t
}

func (t *tcpConn) roundTrip() (rtt time.Duration) {
	if t.raw != nil {
		t.raw.Control(func(fd uintptr) { rtt = shortestRoundTrip(fd) })
	}
	return rtt
}

func (t *tcpConn) signs() (s signs) {
	if t.raw != nil {
		t.raw.Control(func(fd uintptr) { s = kernelSigns(fd) })
	}
	return s
}

func (t *tcpConn) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if t.eager.Load() {
		t.raw.Control(setQuickAck)
	}
	return n, err
}
