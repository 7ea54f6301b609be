package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Process is a child as recorded in stack.json. Started shows whether the pid has been
// reused; it is empty if the system gives no start time.
type Process struct {
	Name    string `json:"name"` // temporal, worker, worker-2, …
	PID     int    `json:"pid"`
	Started string `json:"started"`
}

// procDir exists only on Linux.
var procDir = "/proc"

// startedAt returns the start time of a process: the kernel's count and boot id or, without
// /proc, what ps prints. It is empty if unknown.
func startedAt(pid int) string {
	if _, err := os.Stat(filepath.Join(procDir, "self", "stat")); err != nil {
		return psStartedAt(pid)
	}
	data, err := os.ReadFile(filepath.Join(procDir, strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	// The name in parentheses may hold spaces and parentheses.
	s := string(data)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	boot, err := os.ReadFile(filepath.Join(procDir, "sys/kernel/random/boot_id"))
	if err != nil {
		return ""
	}
	return fields[19] + "@" + strings.TrimSpace(string(boot))
}

// psPatience bounds ps. A process that is not identified gets no signal.
const psPatience = 5 * time.Second

// psStartedAt asks ps, on BSD and macOS, for the second of the start.
func psStartedAt(pid int) string {
	ctx, cancel := context.WithTimeout(context.Background(), psPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ps", "-o", "stat=", "-o", "lstart=", "-p", strconv.Itoa(pid))
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	out, err := cmd.Output()
	if err != nil {
		return "" // no such process, or no ps
	}
	fields := strings.Fields(string(out))
	if len(fields) < 2 || strings.HasPrefix(fields[0], "Z") {
		return ""
	}
	return strings.Join(fields[1:], " ")
}

// Zombie reports whether the process has ended and waits to be reaped.
func (p Process) Zombie() bool {
	data, err := os.ReadFile(filepath.Join(procDir, strconv.Itoa(p.PID), "stat"))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	return len(fields) > 0 && fields[0] == "Z"
}

// Alive reports whether the process is still running.
func (p Process) Alive() bool {
	if p.PID <= 0 || syscall.Kill(p.PID, 0) != nil || p.Zombie() {
		return false
	}
	return p.Started == "" || startedAt(p.PID) == p.Started
}

// stop ends a process that is not a child: SIGTERM, wait, SIGKILL.
func (p Process) stop(patience time.Duration) error {
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, patience}, {syscall.SIGKILL, 5 * time.Second}} {
		if err := p.signal(step.signal); err != nil {
			return err
		}
		for end := time.Now().Add(step.wait); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if !p.Alive() {
				return nil
			}
		}
	}
	return fmt.Errorf("stop %s (pid %d): it still runs after SIGKILL", p.Name, p.PID)
}

// signal refuses a process without a recorded start time, and never reaches another process
// that reused the pid.
func (p Process) signal(sig syscall.Signal) error {
	// On Linux, FindProcess returns a handle of the process that has the pid now.
	is, err := os.FindProcess(p.PID)
	if err != nil {
		return fmt.Errorf("signal %s (pid %d): %w", p.Name, p.PID, err)
	}
	defer func() { _ = is.Release() }()
	if !p.Alive() {
		return nil
	}
	if p.Started == "" {
		return fmt.Errorf("stop %[1]s: process %[2]d is running, but it may not be %[1]s, because no start time was recorded: if it is, stop it by hand; if not, remove stack.json", p.Name, p.PID)
	}
	if err := is.Signal(sig); err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s (pid %d): %w", p.Name, p.PID, err)
	}
	return nil
}
