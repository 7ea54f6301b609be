package hostexec

import (
	"time"

	"golang.org/x/sys/unix"
)

func setUserTimeout(fd uintptr) {
	// Unsent data of 20 s means a dead peer; without it the kernel tries for 15 minutes.
	unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 20_000)
}

func setQuickAck(fd uintptr) {
	unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
}

func shortestRoundTrip(fd uintptr) time.Duration {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return time.Duration(info.Min_rtt) * time.Microsecond
}
