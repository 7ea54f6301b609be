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

// CPU is how much processor time the host took so far, for all that ended: it
// waits until no connection is served any more, whose part is known then only.
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

// hasChildren says whether a process has any, those included that it did not
// wait for yet.
func hasChildren(pid int) bool {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		// What has just ended has none.
		if stat, err := os.ReadFile(name); err == nil && statFields(stat)[1] == strconv.Itoa(pid) {
			return true
		}
	}
	return false
}

// statFields are those of a process's stat behind its name, which may hold anything.
func statFields(stat []byte) []string {
	return strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
}

// treeCPU is the processor time of a process and of the children that it
// waited for, theirs included.
func treeCPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, f := range statFields(stat)[11:15] { // utime stime cutime cstime, in the hundredths that Linux always tells
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return time.Duration(sum) * 10 * time.Millisecond, nil
}
