package localsocket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Sizes, offsets and values of linux/inet_diag.h and linux/sock_diag.h.
const (
	sockDiagByFamily = 20
	diagRequestSize  = 56 // struct inet_diag_req_v2
	diagMessageSize  = 72 // struct inet_diag_msg
	diagStateAt      = 1
	diagUIDAt        = 64
	diagInodeAt      = 68
	tcpEstablished   = 1
)

// ownerOfTCP asks the kernel for the TCP socket from one address to another (sock_diag(7)).
func ownerOfTCP(from, to netip.AddrPort) (uid int, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, fmt.Errorf("ask the kernel about a connection: %w", os.NewSyscallError("socket", err))
	}
	defer unix.Close(fd)
	// The kernel answers while it takes the request, so that the bound only guards against a defect.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Sendto(fd, diagRequest(from, to), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("ask the kernel about a connection: %w", os.NewSyscallError("sendto", err))
	}
	answer := make([]byte, 4096)
	var n int
	for {
		n, _, err = unix.Recvfrom(fd, answer, 0)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return 0, fmt.Errorf("ask the kernel about a connection: %w", os.NewSyscallError("recvfrom", err))
	}
	return diagOwner(answer[:n])
}

func diagRequest(from, to netip.AddrPort) []byte {
	b := make([]byte, unix.SizeofNlMsghdr+diagRequestSize)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST)
	r := b[unix.SizeofNlMsghdr:]
	r[0] = unix.AF_INET6
	if from.Addr().Is4() {
		r[0] = unix.AF_INET
	}
	r[1] = unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(r[4:], 0xffffffff) // in any state
	id := r[8:]                                      // struct inet_diag_sockid
	binary.BigEndian.PutUint16(id, from.Port())
	binary.BigEndian.PutUint16(id[2:], to.Port())
	copy(id[4:20], from.Addr().AsSlice())
	copy(id[20:36], to.Addr().AsSlice())
	binary.NativeEndian.PutUint64(id[40:], ^uint64(0)) // INET_DIAG_NOCOOKIE
	return b
}

func diagOwner(answer []byte) (uid int, err error) {
	messages, err := syscall.ParseNetlinkMessage(answer)
	if err != nil || len(messages) == 0 {
		return 0, fmt.Errorf("the kernel's answer about a connection cannot be read: %v", err)
	}
	m := messages[0]
	switch {
	case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
		errno := syscall.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
		return 0, fmt.Errorf("ask the kernel about a connection: %w", errno)
	case m.Header.Type != sockDiagByFamily || len(m.Data) < diagMessageSize:
		return 0, fmt.Errorf("the kernel's answer about a connection has the type %d and %d bytes", m.Header.Type, len(m.Data))
	// A socket that its process has closed belongs to nobody: the kernel says root.
	case m.Data[diagStateAt] != tcpEstablished || binary.NativeEndian.Uint32(m.Data[diagInodeAt:]) == 0:
		return 0, errors.New("the other end of the connection is closed")
	}
	return int(binary.NativeEndian.Uint32(m.Data[diagUIDAt:])), nil
}
