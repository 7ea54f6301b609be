package stack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// A Process is a child as stack.json has it. Started guards against a pid that
// was given to somebody else; it is empty where the system does not tell.
type Process struct {
	Name    string `json:"name"` // temporal, worker, worker-2, …
	PID     int    `json:"pid"`
	Started string `json:"started"`
}

// startedAt is the start time of a process in the kernel's own count, with the
// boot it belongs to; empty if there is no such process or no /proc.
func startedAt(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name in parentheses may hold spaces and parentheses itself.
	s := string(data)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return fields[19] + "@" + strings.TrimSpace(string(boot))
}

// Zombie says whether the process has ended and only waits to be collected by
// its parent.
func (p Process) Zombie() bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	return len(fields) > 0 && fields[0] == "Z"
}

// Alive says whether the process still runs.
func (p Process) Alive() bool {
	if p.PID <= 0 || syscall.Kill(p.PID, 0) != nil || p.Zombie() {
		return false
	}
	return p.Started == "" || startedAt(p.PID) == p.Started
}

// stop ends a process that is not our child: TERM, patience, KILL.
func (p Process) stop(patience time.Duration) error {
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, patience}, {syscall.SIGKILL, 5 * time.Second}} {
		if !p.Alive() {
			return nil
		}
		if err := syscall.Kill(p.PID, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop %s (pid %d): %w", p.Name, p.PID, err)
		}
		for end := time.Now().Add(step.wait); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if !p.Alive() {
				return nil
			}
		}
	}
	return fmt.Errorf("stop %s (pid %d): it does not end", p.Name, p.PID)
}
