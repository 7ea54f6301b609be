package localsocket

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// ErrUnsupported means that this system does not say who is at the other end of a connection.
var ErrUnsupported = errors.New("this system does not say which user is at the other end of a TCP connection")

// LoopbackPeer returns the user at the other end of a TCP connection that was accepted on a
// loopback address. It returns an error if the other end is not open, because the kernel no
// longer knows whose it was. It returns [ErrUnsupported] on systems other than Linux.
func LoopbackPeer(conn net.Conn) (uid int, err error) {
	// The other end's own address is our remote address.
	theirs, err := addressOf(conn.RemoteAddr())
	if err != nil {
		return 0, err
	}
	ours, err := addressOf(conn.LocalAddr())
	if err != nil {
		return 0, err
	}
	return ownerOfTCP(theirs, ours)
}

// Trusted reports whether uid is our own user or root.
func Trusted(uid int) bool { return trusted(uid, nil) }

func addressOf(a net.Addr) (netip.AddrPort, error) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%v is not a TCP address", a)
	}
	ip := tcp.AddrPort().Addr().Unmap()
	if !ip.IsLoopback() {
		return netip.AddrPort{}, fmt.Errorf("%v is not a loopback address", a)
	}
	return netip.AddrPortFrom(ip, uint16(tcp.Port)), nil
}
