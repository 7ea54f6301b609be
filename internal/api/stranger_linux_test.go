package api

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/lab/stranger"
	"fairlead.dev/fairlead/internal/localsocket"
)

// The worker's API on a socket answers its own user and root, even if the socket's mode lets
// others in.
func TestTheAPIOnASocketAnswersNoOtherUser(t *testing.T) {
	path := filepath.Join(stranger.Folder(t), "api.sock")
	b := serve(t, func(o *Options) { o.Listen = "unix://" + path })
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	var conn net.Conn
	var err error
	stranger.Do(t, func() {
		if conn, err = net.Dial("unix", path); err == nil {
			_, _ = io.WriteString(conn, "GET /v1/status HTTP/1.1\r\nHost: worker\r\nConnection: close\r\n\r\n") // may fail, if it is refused at once
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if text, _ := io.ReadAll(conn); len(text) > 0 { // a refused connection may be reset
		t.Errorf("another user reads %q", text)
	}
	if st, err := b.client("").Status(t.Context()); err != nil || st.PID != 7 {
		t.Errorf("its own user reads %+v, %v", st, err)
	}
}

// A client sends no token to a socket that another user has put where a worker's was.
func TestATokenIsNotSentToASocketOfAnotherUser(t *testing.T) {
	path := filepath.Join(stranger.Folder(t), "api.sock")
	ln := stranger.Listen(t, path)
	c, err := NewClient("unix://"+path, ClientOptions{Token: "a token of some length"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Status(t.Context()); !errors.Is(err, ErrUnreachable) || !errors.Is(err, localsocket.ErrStranger) {
		t.Errorf("asked for its status: %v", err)
	}
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if text, err := io.ReadAll(conn); err != nil || len(text) > 0 {
		t.Errorf("the other user got %q, %v", text, err)
	}
}

// A worker makes no socket where another user can replace it.
func TestASocketIsNotMadeInAFolderOfAnotherUser(t *testing.T) {
	dir := stranger.Folder(t)
	if err := errors.Join(os.Chmod(dir, 0o777|os.ModeSticky), os.Mkdir(filepath.Join(dir, "own"), 0o700), os.Mkdir(filepath.Join(dir, "theirs"), 0o700),
		os.Chown(filepath.Join(dir, "theirs"), stranger.UID, stranger.UID), os.Symlink("own", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"theirs", "link", "."} {
		s, err := Serve(Options{Listen: "unix://" + filepath.Join(dir, folder, "api.sock")})
		if !errors.Is(err, localsocket.ErrFolder) {
			t.Errorf("%s: %v", folder, err)
		}
		if err == nil {
			s.Close()
		}
	}
}

// A loopback address without a token answers its own user and root. Every other user of the
// machine can connect to it, and is told what to do.
func TestTheAPIOnLoopbackWithoutATokenAnswersNoOtherUser(t *testing.T) {
	refused := make(chan audit.Record, 1)
	b := serve(t, func(o *Options) {
		o.Listen = "127.0.0.1:0"
		o.RecordStranger = func(r audit.Record) { refused <- r }
	})
	var text []byte
	var err error
	stranger.Do(t, func() {
		var conn net.Conn
		if conn, err = net.Dial("tcp", strings.TrimPrefix(b.server.Address(), "http://")); err != nil {
			return
		}
		defer conn.Close()
		if _, err = io.WriteString(conn, "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err == nil {
			text, err = io.ReadAll(conn)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(text); !strings.HasPrefix(got, "HTTP/1.1 403 ") || !strings.Contains(got, "uid 65534 asks") || !strings.Contains(got, "api.token_file") {
		t.Errorf("another user reads %q", got)
	}
	if r := <-refused; r.Outcome != audit.Refused || !strings.Contains(r.Reason, "uid 65534") {
		t.Errorf("on record is %+v", r)
	}
	if st, err := b.client("").Status(t.Context()); err != nil || st.PID != 7 {
		t.Errorf("its own user reads %+v, %v", st, err)
	}
}
