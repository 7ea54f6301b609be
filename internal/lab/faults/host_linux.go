package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// rulesLeft returns the iptables rules for a port that are still in force.
func rulesLeft(port int) (string, error) {
	out, err := exec.Command("iptables", "-w", "10", "-S", "INPUT").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("iptables: %w: %s", err, out)
	}
	var left []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, fmt.Sprintf("port %d ", port)) {
			left = append(left, strings.TrimSpace(line))
		}
	}
	return strings.Join(left, "; "), nil
}

// peek reads the content of a FIFO without consuming it.
func peek(fifo string) (string, error) {
	fd, err := unix.Open(fifo, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return "", err
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	if _, err := unix.Tee(fd, p[1], 64<<10, unix.SPLICE_F_NONBLOCK); err != nil && !errors.Is(err, unix.EAGAIN) {
		return "", fmt.Errorf("tee: %w", err)
	}
	buf := make([]byte, 64<<10)
	n, err := unix.Read(p[0], buf)
	if errors.Is(err, unix.EAGAIN) {
		return "", nil
	}
	return string(buf[:max(n, 0)]), err
}

// allStopped returns an error that names a thread of pids that is not yet
// stopped.
func allStopped(pids []int) error {
	for _, pid := range pids {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			return err
		}
		for _, name := range threads {
			stat, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if i := bytes.LastIndexByte(stat, ')'); !bytes.HasPrefix(stat[i+1:], []byte(" T")) {
				return fmt.Errorf("%s says %.60s", name, stat)
			}
		}
	}
	return nil
}

// fillInput shrinks a FIFO to the smallest size and fills it completely with
// blank lines, which mean nothing to its reader.
func fillInput(fifo string) error {
	fd, err := unix.Open(fifo, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, os.Getpagesize()); err != nil {
		return fmt.Errorf("shrink %s: %w", fifo, err)
	}
	for blank := bytes.Repeat([]byte("\n"), os.Getpagesize()); len(blank) > 0; {
		if _, err := unix.Write(fd, blank); errors.Is(err, unix.EAGAIN) {
			blank = blank[:len(blank)/2] // to the last byte
		} else if err != nil {
			return fmt.Errorf("fill %s: %w", fifo, err)
		}
	}
	return nil
}

func answered(text string) bool { return strings.Contains(text, `"decision"`) }

// trimBlank drops the blank lines that keep an attachment alive.
func trimBlank(s string) string { return strings.Trim(s, "\n") }

// A process belongs to a session.
type process struct {
	pid     int
	started string
	command string
}

// processesOf finds all processes of a session: by its mark; by its folder in
// their arguments, program or working directory; and all descendants of those.
func processesOf(session, dir string) []process {
	procs, _ := filepath.Glob("/proc/[0-9]*")
	parent, all, ours := map[int]int{}, map[int]process{}, map[int]bool{}
	for _, p := range procs {
		pid, err := strconv.Atoi(filepath.Base(p))
		if err != nil || pid == os.Getpid() {
			continue
		}
		ppid, started, ok := stat(p)
		if !ok {
			continue
		}
		cmd, _ := os.ReadFile(p + "/cmdline") // a process that has just exited has none
		env, _ := os.ReadFile(p + "/environ")
		cwd, _ := os.Readlink(p + "/cwd")
		exe, _ := os.Readlink(p + "/exe")
		parent[pid] = ppid
		all[pid] = process{pid, started, strings.TrimSpace(strings.ReplaceAll(string(cmd), "\x00", " "))}
		marked := bytes.Contains(append([]byte{0}, env...), []byte("\x00FAIRLEAD_SESSION="+session+"@"))
		if marked || bytes.Contains(cmd, []byte(dir)) || within(cwd, dir) || within(exe, dir) {
			ours[pid] = true
		}
	}
	var out []process
	for pid, p := range all {
		for q, steps := pid, 0; q > 1 && steps < 64; q, steps = parent[q], steps+1 {
			if ours[q] {
				out = append(out, p)
				break
			}
		}
	}
	return out
}

func within(path, dir string) bool {
	path = strings.TrimSuffix(path, " (deleted)")
	for _, root := range []string{dir, filepath.Join(filepath.Dir(dir), ".removing-"+filepath.Base(dir))} {
		if path == root || strings.HasPrefix(path, root+"/") {
			return true
		}
	}
	return false
}

// stat returns a process's parent and start time; ok is false if it is dead.
func stat(proc string) (ppid int, started string, ok bool) {
	data, err := os.ReadFile(proc + "/stat")
	if err != nil {
		return 0, "", false
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return 0, "", false
	}
	ppid, err = strconv.Atoi(fields[1])
	return ppid, fields[19], err == nil
}

func (p process) lives() bool {
	_, started, ok := stat("/proc/" + strconv.Itoa(p.pid))
	return ok && started == p.started
}

// biggest returns the process with the most private memory.
func biggest(ps []process) (process, bool) {
	var most process
	size := -1
	for _, p := range ps {
		data, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/statm")
		if err != nil {
			continue
		}
		if fields := strings.Fields(string(data)); len(fields) > 1 {
			if n, err := strconv.Atoi(fields[1]); err == nil && n > size {
				most, size = p, n
			}
		}
	}
	return most, size >= 0
}
