package core

import (
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// A typed is a line, or in the mode of Keys one key, with the time when it was read.
type typed struct {
	Text string
	At   time.Time
	Key  bool // Text is a key: a character, or the word for one, such as enter
}

// typing is the one reader of standard input. At a terminal it can be stopped, so that a
// program with a screen of its own can read there.
type typing struct {
	mu   sync.Mutex
	ch   chan typed
	stop func() // ends the reader and returns when it has ended
	keys atomic.Bool
}

// Lines returns what is typed, read by one reader. The line typed for an abandoned question
// reaches the next one, which must check its time.
func (a *App) Lines() <-chan typed {
	t := &a.typing
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ch != nil {
		return t.ch
	}
	ch, end, done := make(chan typed), make(chan struct{}), make(chan struct{})
	f, _ := a.In.(*os.File)
	var wake *os.File
	read := a.In.Read
	if f != nil && IsTerminal(f) {
		if r, w, err := os.Pipe(); err == nil {
			wake = w
			read = func(p []byte) (int, error) { return readUnless(f, r, p) }
		}
	}
	go func() {
		defer close(done)
		if t.readAll(read, ch, end) {
			close(ch)
		}
	}()
	t.ch, t.stop = ch, func() {
		if wake == nil {
			return // not a terminal: nothing else reads there
		}
		close(end)
		wake.Close() // the reader sees the end of the pipe
		<-done
	}
	return ch
}

// errStopped means that the reader is to leave the terminal to another program.
var errStopped = errors.New("the reader of the terminal was stopped")

// readUnless reads from a terminal until the other end of wake is closed.
func readUnless(f, wake *os.File, p []byte) (int, error) {
	for {
		fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}, {Fd: int32(wake.Fd()), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, err
		case fds[1].Revents != 0:
			wake.Close()
			return 0, errStopped
		}
		return f.Read(p)
	}
}

// readAll sends lines or keys until the input ends, which it reports, or end is closed.
func (t *typing) readAll(read func([]byte) (int, error), ch chan<- typed, end <-chan struct{}) (ended bool) {
	buf := make([]byte, 4<<10)
	var line []byte
	var k keyReader
	send := func(l typed) bool {
		select {
		case ch <- l:
			return true
		case <-end:
			return false
		}
	}
	for {
		n, err := read(buf)
		if errors.Is(err, errStopped) {
			return false
		}
		now := time.Now()
		switch data := buf[:n]; {
		case t.keys.Load():
			line = nil
			if key := k.one(data); key != "" && !send(typed{key, now, true}) {
				return false
			}
		default:
			k = keyReader{}
			for line = append(line, data...); ; {
				i := strings.IndexByte(string(line), '\n')
				if i < 0 {
					break
				}
				if !send(typed{Text: strings.TrimRight(string(line[:i+1]), "\r\n"), At: now}) {
					return false
				}
				line = line[i+1:]
			}
		}
		if err != nil {
			if len(line) > 0 && !send(typed{Text: strings.TrimRight(string(line), "\r\n"), At: now}) {
				return false
			}
			return true
		}
	}
}

// A keyReader finds keys in what a terminal sends.
type keyReader struct{ escape []byte }

// one returns the key that was pressed, or "". Several keys at once were pasted or typed
// ahead: a person who decides presses one. Enter after a key is a habit, and is dropped.
// A key that sends an escape sequence, such as an arrow, is dropped, even if the sequence comes
// in pieces.
func (k *keyReader) one(data []byte) string {
	var keys []string
	for len(data) > 0 {
		if len(k.escape) > 0 || data[0] == 0x1b {
			k.escape = append(k.escape, data[0])
			data = data[1:]
			if n, last := len(k.escape), k.escape[len(k.escape)-1]; n == 2 && last != '[' && last != 'O' || n > 2 && last >= 0x40 && last <= 0x7e || n > 32 {
				k.escape = nil
				keys = append(keys, "")
			}
			continue
		}
		r, size := utf8.DecodeRune(data)
		data = data[size:]
		switch r {
		case '\r', '\n':
			keys = append(keys, "enter")
		case 4:
			keys = append(keys, "^D")
		default:
			keys = append(keys, string(r))
		}
	}
	for len(keys) > 1 && keys[len(keys)-1] == "enter" {
		keys = keys[:len(keys)-1]
	}
	if len(keys) != 1 {
		return ""
	}
	return keys[0]
}

// Keys makes the terminal deliver each key at once, without showing it. ^C still interrupts.
func (a *App) Keys() (restore func(), err error) {
	back, err := a.changeTerminal(func(t *unix.Termios) {
		t.Lflag &^= unix.ICANON | unix.ECHO
		t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	})
	if err != nil {
		return nil, err
	}
	a.typing.keys.Store(true)
	return func() { a.typing.keys.Store(false); back() }, nil
}

// Lend stops reading the terminal, so that a program with a screen of its own can. The next
// call of Lines reads again.
func (a *App) Lend() {
	t := &a.typing
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ch == nil {
		return
	}
	t.stop()
	if f, ok := a.In.(*os.File); ok && IsTerminal(f) {
		t.ch, t.stop = nil, nil
	}
}
