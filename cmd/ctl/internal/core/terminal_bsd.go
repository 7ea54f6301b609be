//go:build darwin || freebsd || netbsd || openbsd

package core

import "golang.org/x/sys/unix"

const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)

// fread is FREAD of sys/fcntl.h: discard unread input.
const fread = 1

func flushTyped(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, fread) }
