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

	"fairlead.dev/fairlead/hostexec/internal/script"
	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

const (
	// sftpFrom is the size from which SFTP carries a file. SFTP takes about five more round
	// trips.
	sftpFrom = 1 << 20
	// sftpPackets is how many packets of 32 KiB (the library's default) are under way: more
	// than a channel's window.
	sftpPackets = 128
	// sftpWait bounds the wait for the subsystem's version, which never comes if rc files
	// consume its input.
	sftpWait = 15 * time.Second
	// sftpPause is how long SFTP is not tried again where it did not work.
	sftpPause = 30 * time.Minute
)

var sftpRequest = sessionRequest{name: "subsystem", payload: ssh.Marshal(struct{ Name string }{"sftp"}), reply: true}

// route returns the host if size bytes go by SFTP, or nil, and the text for the receive
// command.
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

// feedBySFTP runs a receive command (receiveTold) and sends size bytes of r by SFTP. When
// the command's channel closes, the host drops the partial file. If SFTP does not work and
// r can be rewound, the bytes go to the command.
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

	var x *sftpSession
	var noSFTP error
	var opening sync.WaitGroup
	wanted, giveUp := context.WithCancel(ctx)
	defer giveUp()
	opening.Go(func() { x, noSFTP = h.openSFTP(wanted) })
	_, notReady := io.ReadFull(s, make([]byte, len("ready\n")))
	if notReady != nil {
		err = s.Wait() // says why the command is not ready
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
		// This creates no file: it opens the one that the command made.
		f, noSFTP = x.client.OpenFile(path.Join(path.Dir(c.Args[0]), ".fl-"+c.Args[4]), os.O_WRONLY)
	}
	if noSFTP == nil {
		again := rewinder(r)
		noSFTP = x.fill(f, r, size, sum)
		x.Close()
		switch {
		case noSFTP == nil:
			return script.LastWord(s, "there")
		case errors.Is(noSFTP, ErrSource):
			s.CloseWrite()
			return errors.Join(noSFTP, dropped(s))
		case ctx.Err() != nil:
			s.Wait() // its error may come from the end of ctx
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

// whyNot lets the command find the cause: SFTP only says "failure".
func (h *sshHost) whyNot(s Stream, x *sftpSession, failure error) error {
	lost := x.ch.conn.isDead()
	err := script.LastWord(s, "why")
	var exit *ExitError
	switch {
	case errors.Is(err, ErrNoSpace), err != nil && !errors.As(err, &exit):
		return err
	case lost:
		return fmt.Errorf("%w: %w: nothing was written", ErrUnreachable, errLost)
	}
	return fmt.Errorf("sftp: %w: nothing was written", failure)
}

// rewinder returns a function that sets r back to its present position, or nil.
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

type sftpSession struct {
	client *sftp.Client
	ch     *sshChannel
	stop   func() bool
}

func (h *sshHost) openSFTP(ctx context.Context) (*sftpSession, error) {
	early, cancel := context.WithTimeoutCause(ctx, sftpWait, fmt.Errorf("no answer from SFTP in %v", sftpWait))
	defer cancel()
	ch, err := h.groups[bulk].sessionFor(early, sftpRequest)
	if err == nil {
		// Standard error shares the channel's window: unread, it would block the answers.
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

// Close may be called more than once.
func (x *sftpSession) Close() {
	x.stop()
	x.ch.Close() // first, because the client may be stuck in a write
	if x.client != nil {
		x.client.Close()
	}
}

// fill writes size bytes of r to f and closes f. The error wraps ErrSource if r does not
// match size and sum. After other errors the file may have holes.
func (x *sftpSession) fill(f *sftp.File, r io.Reader, size int64, sum [sha256.Size]byte) error {
	digest := sha256.New()
	// With a reader of unknown size, the library sends one packet at a time.
	src := &io.LimitedReader{R: io.TeeReader(script.MarkedReader{Reader: r, As: ErrSource}, digest), N: size}
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
