package host

import (
	"net"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/stranger"
)

// Every user of a machine can connect to a loopback port, and a tunnel ends inside a host.
func TestATunnelTakesNoConnectionsOfOtherUsers(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	accepted := func(dial func() (net.Conn, error)) net.Conn {
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		local, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { local.Close() })
		return local
	}
	dial := func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
	if err := ofOurUser(accepted(dial)); err != nil {
		t.Errorf("our own connection: %v", err)
	}
	theirs := accepted(func() (c net.Conn, err error) {
		stranger.Do(t, func() { c, err = dial() })
		return c, err
	})
	if err := ofOurUser(theirs); err == nil || !strings.Contains(err.Error(), "uid 65534") {
		t.Errorf("another user's: %v", err)
	}
}
