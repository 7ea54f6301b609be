//go:build darwin || freebsd

package localsocket

import "golang.org/x/sys/unix"

// solLocal is SOL_LOCAL of sys/un.h.
const solLocal = 0

func peerOf(fd int) (uid int, err error) {
	cred, err := unix.GetsockoptXucred(fd, solLocal, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
