package hosttest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// processes returns every process of this machine with its parent.
func processes() map[int]int {
	parents := map[int]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(d + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 && fields[0] != "Z" {
			parents[pid], _ = strconv.Atoi(fields[1])
		}
	}
	return parents
}

// startTime returns a process's start time, which distinguishes it from a later
// process with the same pid. It returns false for a zombie.
func startTime(pid int) (string, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", false
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return fields[19], fields[0] != "Z"
}

func descendants(pid int) []int {
	if pid <= 0 {
		return nil
	}
	parents := processes()
	var out []int
	for p := range parents {
		for q, steps := p, 0; q > 1 && steps < 64; q, steps = parents[q], steps+1 {
			if q == pid && p != pid {
				out = append(out, p)
				break
			}
		}
	}
	return out
}

// processesOf returns the processes of a user, except zombies.
func processesOf(uid int) []int {
	var out []int
	for p := range processes() {
		if fi, err := os.Stat("/proc/" + strconv.Itoa(p)); err == nil {
			if st, ok := fi.Sys().(*syscall.Stat_t); ok && int(st.Uid) == uid {
				out = append(out, p)
			}
		}
	}
	return out
}

func isSSHD(pid int) bool {
	comm, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return strings.HasPrefix(string(comm), "sshd")
}

func kill(pid int) bool { return syscall.Kill(pid, syscall.SIGKILL) == nil }
