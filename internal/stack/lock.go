package stack

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrRunning: another supervisor holds the state folder.
var ErrRunning = errors.New("a stack is already running here")

// lock takes the folder for a supervisor. The kernel gives it back when the
// process dies; children do not inherit it.
func (l layout) lock() (*os.File, error) {
	f, err := os.OpenFile(l.in("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the state folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		pid := l.holder()
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s (pid %d)", ErrRunning, string(l), pid)
		}
		return nil, fmt.Errorf("lock the state folder: %w", err)
	}
	return f, nil
}

// sign writes down who holds the lock.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// holder is the pid that the lock's last holder wrote; 0 if none.
func (l layout) holder() int {
	data, err := os.ReadFile(l.in("lock"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0
	}
	return pid
}

// held says whether a supervisor lives.
func (l layout) held() (bool, error) {
	f, err := os.OpenFile(l.in("lock"), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		return false, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return true, nil
	default:
		return false, err
	}
}
