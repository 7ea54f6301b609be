package hostexec

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
)

// endless yields zeros, counts them, and fails the test if somebody reads far too many.
type endless struct {
	t    *testing.T
	read int64
}

func (e *endless) Read(p []byte) (int, error) {
	clear(p)
	if e.read += int64(len(p)); e.read > mostNoise+1<<20 {
		e.t.Fatal("it is read on and on")
	}
	return len(p), nil
}

func mustBeNoisy(t *testing.T, err error) {
	t.Helper()
	var flood *FloodError
	if !errors.As(err, &flood) || flood.Limit != mostNoise {
		t.Error(err)
	}
}

// Start files of a login shell may print much, but not for ever.
func TestStartFilesMayNotPrintForEver(t *testing.T) {
	if testing.Short() {
		t.Skip("reads as much as is allowed, byte by byte: slow with the race detector")
	}
	var noise []byte
	_, err := skipPast(&endless{t: t}, []byte("\nmark b\n"), &noise)
	mustBeNoisy(t, err)
	s := sections{r: &endless{t: t}}
	if sec := s.next("mark", MaxOutput); sec.began || !s.noisy || cap(s.buf) > 4*maxNoise {
		t.Errorf("began %v, noisy %v, and %d bytes are held", sec.began, s.noisy, cap(s.buf))
	}
	much := io.MultiReader(bytes.NewReader(make([]byte, mostNoise)), bytes.NewReader([]byte("\nmark b\nrest")))
	if rest, err := skipPast(much, []byte("\nmark b\n"), &noise); err != nil || string(rest) != "rest" {
		t.Errorf("as much as is allowed: %.20q, %v", rest, err)
	}
}

// What sshd sends before it lets us in has a bound, and what it sends later has not.
func TestSshdMayNotSendForEverBeforeTheLogin(t *testing.T) {
	for _, loggedIn := range []bool{false, true} {
		here, there := net.Pipe()
		conn := &link{Conn: here}
		conn.quota.Store(maxLogin)
		if loggedIn {
			conn.quota.Store(0)
		}
		go func() {
			defer there.Close()
			_, _ = io.Copy(there, io.LimitReader(&endless{t: t}, 2*maxLogin))
		}()
		n, err := io.Copy(io.Discard, conn)
		var flood *FloodError
		if loggedIn && (err != nil || n != 2*maxLogin) {
			t.Errorf("after the login: %d bytes, %v", n, err)
		}
		if !loggedIn && (!errors.As(err, &flood) || n >= maxLogin) {
			t.Errorf("before the login: %d bytes, %v", n, err)
		}
		if err != nil && isReset(err) {
			t.Error("it counts as an sshd that hung up, and would be dialled again")
		}
		conn.Close()
	}
}
