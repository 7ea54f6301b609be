//go:build !linux

package localsocket

import "net/netip"

func ownerOfTCP(_, _ netip.AddrPort) (uid int, err error) { return 0, ErrUnsupported }
