package hosttest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPU returns the processor time of all processes on the host that have ended. It waits
// until no connection is served any more, because the time of a process is known only after
// its end.
func (s *SSHD) CPU(ctx context.Context) (time.Duration, error) {
	if s.pid == 0 {
		return 0, errors.New("sshd is not running")
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if !hasChildren(s.pid) {
			return treeCPU(s.pid)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// hasChildren reports whether a process has children, including zombies.
func hasChildren(pid int) bool {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		// A process that has just ended has no stat file.
		if stat, err := os.ReadFile(name); err == nil && statFields(stat)[1] == strconv.Itoa(pid) {
			return true
		}
	}
	return false
}

// statFields returns the fields of /proc/PID/stat after the process's name,
// which may contain anything.
func statFields(stat []byte) []string {
	return strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
}

// treeCPU returns the processor time of a process and of its descendants, as far as their
// parents have waited for them.
func treeCPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, f := range statFields(stat)[11:15] { // utime stime cutime cstime, always in hundredths of a second on Linux
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return time.Duration(sum) * 10 * time.Millisecond, nil
}
