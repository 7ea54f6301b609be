package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// execEvents reports the id of each process that executes a program, as the kernel's process
// connector does. Linux lets root listen in the first network namespace.
type execEvents struct{ socket int }

const (
	cnIdxProc      = 1
	cnValProc      = 1
	listenToEvents = 1
	eventExec      = 2
	netlinkHeader  = 16
	connHeader     = 20 // of struct cn_msg
	eventHeader    = 16 // of struct proc_event
)

func listenToExecs() (*execEvents, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_CONNECTOR)
	if err != nil {
		return nil, fmt.Errorf("listen to the kernel's process events: %w", err)
	}
	e := &execEvents{fd}
	message := make([]byte, netlinkHeader+connHeader+4)
	order := binary.NativeEndian
	order.PutUint32(message[0:], uint32(len(message)))
	order.PutUint16(message[4:], unix.NLMSG_DONE)
	order.PutUint32(message[12:], uint32(os.Getpid()))
	order.PutUint32(message[16:], cnIdxProc)
	order.PutUint32(message[20:], cnValProc)
	order.PutUint16(message[32:], 4)
	order.PutUint32(message[36:], listenToEvents)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20) // lost events make it look at all processes
	err = errors.Join(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: cnIdxProc}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}),
		unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	if err != nil {
		e.close()
		return nil, fmt.Errorf("listen to the kernel's process events: %w", err)
	}
	return e, nil
}

// next waits at most a second for events, and returns the processes that executed a program.
// lost says that there were more.
func (e *execEvents) next(buf []byte) (pids []uint32, lost bool) {
	n, _, err := unix.Recvfrom(e.socket, buf, 0)
	if err != nil {
		return nil, !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	}
	order := binary.NativeEndian
	for rest := buf[:n]; len(rest) >= netlinkHeader+connHeader+eventHeader+8; {
		size := int(order.Uint32(rest))
		if size < netlinkHeader+connHeader+eventHeader+8 || size > len(rest) {
			break
		}
		event := rest[netlinkHeader+connHeader : size]
		if order.Uint32(event) == eventExec {
			pids = append(pids, order.Uint32(event[eventHeader+4:])) // the thread group
		}
		rest = rest[min((size+3)&^3, len(rest)):]
	}
	return pids, false
}

func (e *execEvents) close() { _ = unix.Close(e.socket) }
