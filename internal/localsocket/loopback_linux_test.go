package localsocket

import (
	"net"
	"os"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/stranger"
)

// The user of a loopback connection is the one whose process holds its other end.
func TestAUserOfALoopbackPortIsKnown(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		ln, err := net.Listen("tcp", at)
		do(t, err)
		defer ln.Close()
		dial := func() (client, accepted net.Conn) {
			t.Helper()
			client, err := net.Dial("tcp", ln.Addr().String())
			do(t, err)
			accepted, err = ln.Accept()
			do(t, err)
			t.Cleanup(func() { client.Close(); accepted.Close() })
			return client, accepted
		}
		_, ours := dial()
		if uid, err := LoopbackPeer(ours); err != nil || uid != os.Geteuid() || !Trusted(uid) {
			t.Errorf("%s: we are uid %d, %v", at, uid, err)
		}
		var theirs net.Conn
		stranger.Do(t, func() { _, theirs = dial() })
		if uid, err := LoopbackPeer(theirs); err != nil || uid != stranger.UID || Trusted(uid) {
			t.Errorf("%s: the other user is uid %d, %v", at, uid, err)
		}
	}
}

// A socket that its process has closed belongs to nobody. It must not count as root's.
func TestAClosedLoopbackConnectionIsNobodys(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	do(t, err)
	defer ln.Close()
	stranger.Do(t, func() {
		client, dialErr := net.Dial("tcp", ln.Addr().String())
		if err = dialErr; err == nil {
			err = client.Close()
		}
	})
	do(t, err)
	accepted, err := ln.Accept()
	do(t, err)
	defer accepted.Close()
	if uid, err := LoopbackPeer(accepted); err == nil {
		t.Errorf("a closed connection is of uid %d", uid)
	}
}

func TestOnlyALoopbackConnectionHasAUser(t *testing.T) {
	dir := stranger.Folder(t)
	ln, err := net.Listen("unix", dir+"/s")
	do(t, err)
	defer ln.Close()
	client, err := net.Dial("unix", dir+"/s")
	do(t, err)
	defer client.Close()
	if uid, err := LoopbackPeer(client); err == nil || !strings.Contains(err.Error(), "not a TCP address") {
		t.Errorf("a unix socket: uid %d, %v", uid, err)
	}
	if _, err := addressOf(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}); err == nil {
		t.Error("192.0.2.1 is a loopback address")
	}
}
