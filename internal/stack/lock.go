package stack

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrRunning means that another supervisor has locked the state folder.
var ErrRunning = errors.New("a stack is already running here")

// lock locks the folder until the process dies; children do not inherit the lock.
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

// signed is the file that describes the lock's holder. The lock file has only the pid.
const signed = "supervisor.json"

func (l layout) sign(f *os.File) error {
	pid := os.Getpid()
	if err := writeJSON(l.in(signed), Process{Name: "supervisor", PID: pid, Started: startedAt(pid)}); err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(pid)+"\n"), 0)
	return err
}

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

// supervisor returns the recorded holder of the lock. It may be the previous one, whose pid
// another process may have, as the start time shows.
func (l layout) supervisor() Process {
	p := Process{Name: "supervisor", PID: l.holder()}
	var known Process
	data, err := os.ReadFile(l.in(signed))
	if err == nil {
		err = json.Unmarshal(data, &known)
	}
	if err == nil && known.PID == p.PID {
		p.Started = known.Started
		return p
	}
	if err == nil && l.newer(signed, "lock") {
		return Process{Name: "supervisor"} // it has not written its pid yet
	}
	p.Started = startedAt(p.PID) // an older version wrote only its pid
	return p
}

func (l layout) newer(name, than string) bool {
	a, errA := os.Stat(l.in(name))
	b, errB := os.Stat(l.in(than))
	return errA == nil && errB == nil && a.ModTime().After(b.ModTime())
}

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
