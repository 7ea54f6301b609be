package hostexec

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sync"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

const (
	// sftpFrom is the size from which SFTP carries a file. A smaller one goes
	// with the script that receives it, in one round trip; SFTP takes some
	// five more, to open, fill and close what the script has made.
	sftpFrom = 1 << 20
	// sftpPackets are under way at a time, of 32 KiB each: more than a
	// channel's window. The size is the library's default, which every server
	// takes whole.
	sftpPackets = 128
	// sftpWait is how long the subsystem may take to say its version; rc files
	// that read its input swallow the question.
	sftpWait = 15 * time.Second
	// sftpPause is for how long a host whose subsystem did not work is left
	// alone with it.
	sftpPause = 30 * time.Minute
)

var sftpRequest = sessionRequest{name: "subsystem", payload: ssh.Marshal(struct{ Name string }{"sftp"}), reply: true}

// route returns the host that takes size bytes by SFTP, nil for none, and what
// the receive command must do.
func route(h Host, size int64) (*sshHost, string) {
	s, ok := h.(*sshHost)
	if !ok || size < sftpFrom {
		return nil, receiveInput
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.noSFTP) {
		return nil, receiveInput
	}
	return s, receiveTold
}

// feedBySFTP runs a receive command that is told (receiveTold) and gives it
// size bytes of r. The command's own channel stays open meanwhile: when it
// goes, the host drops what there is of the file. Where SFTP does not work the
// bytes go to the command itself, if they can be had again.
func (h *sshHost) feedBySFTP(ctx context.Context, c Command, r io.Reader, size int64, sum [sha256.Size]byte) error {
	c.Bulk = true
	c.Stdin = nil
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := h.Start(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()

	// Both sessions open at the same time, but the file is the command's to make.
	var x *sftpSession
	var noSFTP error
	var opening sync.WaitGroup
	wanted, giveUp := context.WithCancel(ctx)
	defer giveUp()
	opening.Go(func() { x, noSFTP = h.openSFTP(wanted) })
	_, notReady := io.ReadFull(s, make([]byte, len("ready\n")))
	if notReady != nil {
		err = s.Wait() // it says why
		giveUp()
	}
	opening.Wait()
	if x != nil {
		defer x.Close()
	}
	if notReady != nil {
		if err == nil {
			err = notReady
		}
		return err
	}

	var f *sftp.File
	if noSFTP == nil {
		// Never made here: the file is the one that the command made, or none.
		f, noSFTP = x.client.OpenFile(path.Join(path.Dir(c.Args[0]), ".fl-"+c.Args[4]), os.O_WRONLY)
	}
	if noSFTP == nil {
		again := rewinder(r)
		noSFTP = x.fill(f, r, size, sum)
		x.Close()
		switch {
		case noSFTP == nil:
			return tell(s, "there")
		case errors.Is(noSFTP, ErrSource):
			s.CloseWrite()
			return errors.Join(noSFTP, dropped(s))
		case ctx.Err() != nil:
			s.Wait() // it may have come to know before we stopped, and say anything
			return outcomeUnknown(ctx)
		case again == nil:
			return h.whyNot(s, x, noSFTP)
		}
		if err := again(); err != nil {
			s.CloseWrite()
			return errors.Join(fmt.Errorf("%w: %w", ErrSource, err), dropped(s))
		}
	}
	h.pool.opts.Logger.Info("no SFTP, the shell takes the file", "host", h.name, "error", noSFTP)
	if _, err := io.WriteString(s, "cat\n"); err != nil {
		return errors.Join(s.Wait(), err)
	}
	return pour(s, r, size, sum)
}

// tell says the last word to a receive command and waits for its end.
func tell(s Stream, word string) error {
	_, sendErr := io.WriteString(s, word+"\n")
	s.CloseWrite()
	if err := s.Wait(); err != nil {
		return err
	}
	return sendErr
}

// whyNot lets the command look for what SFTP has no words for.
func (h *sshHost) whyNot(s Stream, x *sftpSession, failure error) error {
	lost := x.ch.conn.isDead()
	err := tell(s, "why")
	var exit *ExitError
	switch {
	case errors.Is(err, ErrNoSpace), err != nil && !errors.As(err, &exit):
		return err
	case lost:
		return fmt.Errorf("%w: %w: nothing was written", ErrUnreachable, errLost)
	}
	return fmt.Errorf("sftp: %w: nothing was written", failure)
}

// rewinder returns what takes r back to where it is now; nil if r cannot.
func rewinder(r io.Reader) func() error {
	s, ok := r.(io.Seeker)
	if !ok {
		return nil
	}
	here, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil // a pipe
	}
	return func() error {
		_, err := s.Seek(here, io.SeekStart)
		return err
	}
}

// An sftpSession is an SFTP client on a channel of the pool.
type sftpSession struct {
	client *sftp.Client
	ch     *sshChannel
	stop   func() bool
}

// openSFTP opens a session that ends with ctx.
func (h *sshHost) openSFTP(ctx context.Context) (*sftpSession, error) {
	early, cancel := context.WithTimeoutCause(ctx, sftpWait, fmt.Errorf("no answer from SFTP in %v", sftpWait))
	defer cancel()
	ch, err := h.groups[bulk].sessionFor(early, sftpRequest)
	if err == nil {
		// It shares the channel's window: unread, it would stop the answers.
		h.tasks.Go(func() { io.Copy(io.Discard, ch.Stderr()) })
		stop := context.AfterFunc(early, func() { ch.Close() })
		var client *sftp.Client
		client, err = sftp.NewClientPipe(ch.Stdout(), ch, sftp.UseConcurrentWrites(true), sftp.MaxConcurrentRequestsPerFile(sftpPackets))
		inTime := stop()
		x := &sftpSession{client: client, ch: ch, stop: context.AfterFunc(ctx, func() { ch.Close() })}
		if err == nil && inTime {
			return x, nil
		}
		x.Close()
		if !inTime {
			err = context.Cause(early)
		}
		if ch.conn.isDead() {
			return nil, errLost
		}
	}
	if ctx.Err() == nil && !errors.Is(err, ErrUnreachable) {
		h.mu.Lock()
		h.noSFTP = time.Now().Add(sftpPause)
		h.mu.Unlock()
	}
	return nil, err
}

// Close gives the channel back and waits for the client. It may be called more
// than once.
func (x *sftpSession) Close() {
	x.stop()
	x.ch.Close() // first: the client may be stuck in a write
	if x.client != nil {
		x.client.Close()
	}
}

// fill writes size bytes of r to f and closes it. Its error wraps ErrSource if
// r is not what it was said to be; others may leave holes in the file.
func (x *sftpSession) fill(f *sftp.File, r io.Reader, size int64, sum [sha256.Size]byte) error {
	digest := sha256.New()
	// The library keeps several packets under way only for a reader of known
	// size, and this is one that it knows.
	src := &io.LimitedReader{R: io.TeeReader(readErrors{r}, digest), N: size}
	n, err := f.ReadFrom(src)
	switch {
	case err != nil:
		return err
	case n != size:
		return fmt.Errorf("%w: it ended early", ErrSource)
	case [sha256.Size]byte(digest.Sum(nil)) != sum:
		return fmt.Errorf("%w: its sha256 is %x, not %x", ErrSource, digest.Sum(nil), sum)
	}
	if _, ok := x.client.HasExtension("fsync@openssh.com"); ok {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return f.Close()
}
