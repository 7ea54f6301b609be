package hostexec

import (
	"time"

	"golang.org/x/sys/unix"
)

func setUserTimeout(fd uintptr) {
	// By default the kernel retries for 15 minutes.
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

func kernelSigns(fd uintptr) signs {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return signs{}
	}
	return signs{
		arrived: uint64(info.Data_segs_in),
		acked:   info.Bytes_acked,
		queued:  info.Unacked > 0 || info.Notsent_bytes > 0,
	}
}
