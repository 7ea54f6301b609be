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
// reused. It is empty if the system gives no start time.
type Process struct {
	Name    string `json:"name"` // temporal, worker, worker-2, …
	PID     int    `json:"pid"`
	Started string `json:"started"`
}

// procDir is the folder in which Linux describes processes. Other systems have none.
var procDir = "/proc"

// startedAt returns the start time of a process: the kernel's count and boot id or,
// without /proc, what ps prints. It is empty if unknown or if there is no such
// process.
func startedAt(pid int) string {
	if _, err := os.Stat(filepath.Join(procDir, "self", "stat")); err != nil {
		return psStartedAt(pid)
	}
	data, err := os.ReadFile(filepath.Join(procDir, strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	// The name in parentheses may hold spaces and parentheses itself.
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

// psPatience is how long ps may take. Without its answer a process cannot be
// identified and is not signalled.
const psPatience = 5 * time.Second

// psStartedAt asks ps, on BSD and macOS, for the second in which a process started.
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

// Zombie reports whether the process has ended and waits to be reaped by its parent.
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

// stop ends a process that is not a child: SIGTERM, wait, SIGKILL. It refuses a
// process whose start time was not recorded, because its pid may have been reused.
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
	return fmt.Errorf("stop %s (pid %d): it does not end", p.Name, p.PID)
}

// signal sends a signal to the process, and never to another one that reused its pid.
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
		return fmt.Errorf("signal %s: a process with its pid %d runs, and it is not known whether that is it: end it by hand if it is, and remove stack.json if not", p.Name, p.PID)
	}
	if err := is.Signal(sig); err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s (pid %d): %w", p.Name, p.PID, err)
	}
	return nil
}
