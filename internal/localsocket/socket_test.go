package localsocket

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/stranger"
)

// A process of another user that may write to the socket gets no answer, and we do.
func TestAListenerAnswersOnlyItsOwnUser(t *testing.T) {
	dir := stranger.Folder(t)
	path := filepath.Join(dir, "s")
	refused := make(chan error, 1)
	ln, err := Listen(path, func(err error) { refused <- err })
	do(t, err, os.Chmod(path, 0o777))
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("secret"))
			conn.Close()
		}
	}()
	read := func(conn net.Conn, err error) string {
		do(t, err)
		defer conn.Close()
		text, _ := io.ReadAll(conn) // a refused connection may be reset
		return string(text)
	}
	var theirs net.Conn
	stranger.Do(t, func() { theirs, err = net.Dial("unix", path) })
	if got := read(theirs, err); got != "" {
		t.Errorf("another user reads %q", got)
	}
	if err := <-refused; !errors.Is(err, ErrStranger) || !strings.Contains(err.Error(), "uid 65534") {
		t.Errorf("the refusal says %v", err)
	}
	if got := read(Dial(t.Context(), path)); got != "secret" {
		t.Errorf("our own user reads %q", got)
	}
	do(t, ln.Close())
	<-served
}

// Nothing is sent to a socket on which another user listens.
func TestASocketOfAnotherUserIsNotUsed(t *testing.T) {
	path := filepath.Join(stranger.Folder(t), "s")
	ln := stranger.Listen(t, path)
	if conn, err := Dial(t.Context(), path); !errors.Is(err, ErrStranger) || conn != nil {
		t.Errorf("dialled: %v, %v", conn, err)
	} else if text := err.Error(); !strings.Contains(text, path) || !strings.Contains(text, "uid 65534") {
		t.Errorf("the error says %q", text)
	}
	theirs, err := ln.Accept()
	do(t, err)
	if got, err := io.ReadAll(theirs); err != nil || len(got) > 0 {
		t.Errorf("the listener got %q, %v", got, err)
	}
	theirs.Close()
	conn, err := Dial(t.Context(), path, stranger.UID)
	do(t, err)
	conn.Close()
}

// A socket in a folder of another user is not even dialled.
func TestASocketInAFolderOfAnotherUserIsNotUsed(t *testing.T) {
	dir := stranger.Folder(t)
	path := filepath.Join(dir, "s")
	stranger.Listen(t, path)
	do(t, os.Chown(dir, stranger.UID, stranger.UID))
	if conn, err := Dial(t.Context(), path); !errors.Is(err, ErrFolder) || conn != nil {
		t.Errorf("dialled: %v, %v", conn, err)
	}
}

// The same rule holds for a socket that we make: not in a folder of another user.
func TestNoSocketIsMadeInAFolderOfAnotherUser(t *testing.T) {
	dir := stranger.Folder(t)
	do(t, os.Chown(dir, stranger.UID, stranger.UID))
	if ln, err := Listen(filepath.Join(dir, "s"), nil); !errors.Is(err, ErrFolder) || ln != nil {
		t.Errorf("listens: %v, %v", ln, err)
	}
}

// A user other than root uses an agent of its own or of root. Root may use any user's, as
// under sudo -E.
func TestAnAgentOfAnotherUserIsForRootAlone(t *testing.T) {
	dir := stranger.Folder(t)
	ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
	ln, err := net.Listen("unix", ours)
	do(t, err, os.Chmod(ours, 0o777))
	defer ln.Close()
	stranger.Listen(t, theirs)
	const third = 4711
	for _, c := range []struct {
		uid     uintptr
		socket  string
		allowed bool
	}{
		{0, ours, true}, {0, theirs, true}, {stranger.UID, theirs, true}, {stranger.UID, ours, true}, {third, ours, true}, {third, theirs, false},
	} {
		stranger.As(t, c.uid, func() {
			var conn net.Conn
			if conn, err = DialAgent(context.Background(), c.socket); conn != nil {
				conn.Close()
			}
		})
		if (err == nil) != c.allowed || err != nil && !errors.Is(err, ErrStranger) {
			t.Errorf("user %d and the agent at %s: %v", c.uid, c.socket, err)
		}
	}
}
