package hosttest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Leftover is a process or a file of a session on this machine.
type Leftover struct {
	// Kind is process, fifo, attachment (its tie.* or see.* file), watch, temp
	// (a file that was to be renamed or removed) or lock.
	Kind string
	PID  int    // of a process
	Path string // of anything else
	// Why contains the reason why a process belongs to the session, and its command line.
	Why string
}

func (l Leftover) String() string {
	if l.Kind == "process" {
		return fmt.Sprintf("process %d (%s)", l.PID, l.Why)
	}
	return l.Kind + " " + l.Path
}

// Leftovers lists the leftovers of a session on this machine. Leftovers are every process
// that carries the session's mark (the value of FAIRLEAD_SESSION), has its working
// directory or program below the session's folder, names the folder on its command line or
// holds a file in it open; every descendant of these processes; and every FIFO, attachment
// and temporary file in the folder and beside it. A closed session has no leftovers. A
// waiting session has the processes and the FIFO of its app-server, but no attachment.
//
// Leftovers checks more than process.Reap, to find leftovers that Reap misses.
func Leftovers(sessionDir, mark string) ([]Leftover, error) {
	files, err := leftFiles(sessionDir)
	return append(leftProcesses(sessionDir, mark), files...), err
}

func leftProcesses(dir, mark string) []Leftover {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		real = dir
	}
	roots := []string{dir, real, removedTo(dir), removedTo(real)}
	below := func(p string) bool {
		p = strings.TrimSuffix(p, " (deleted)")
		return slices.ContainsFunc(roots, func(root string) bool { return p == root || strings.HasPrefix(p, root+"/") })
	}
	parents := processes()
	whys := make(map[int]string)
	for pid := range parents {
		if why := belongs("/proc/"+strconv.Itoa(pid), dir, mark, below); why != "" && pid != os.Getpid() {
			whys[pid] = why
		}
	}
	for more := true; more; {
		more = false
		for pid, parent := range parents {
			if _, known := whys[pid]; !known && whys[parent] != "" && pid != os.Getpid() {
				whys[pid], more = fmt.Sprintf("child of %d", parent), true
			}
		}
	}
	var found []Leftover
	for pid, why := range whys {
		if cmd, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); err == nil {
			line := strings.ReplaceAll(string(cmd), "\x00", " ")
			found = append(found, Leftover{Kind: "process", PID: pid, Why: why + ": " + line[:min(len(line), 200)]})
		}
	}
	slices.SortFunc(found, func(a, b Leftover) int { return a.PID - b.PID })
	return found
}

// belongs returns the reason why a process belongs to a session. It returns an empty string
// if the process does not.
func belongs(proc, dir, mark string, below func(string) bool) string {
	if mark != "" {
		env, _ := os.ReadFile(proc + "/environ")
		if slices.Contains(strings.Split(string(env), "\x00"), "FAIRLEAD_SESSION="+mark) {
			return "mark"
		}
	}
	for _, link := range []string{"cwd", "exe"} {
		if to, err := os.Readlink(proc + "/" + link); err == nil && below(to) {
			return link + " " + to
		}
	}
	cmd, _ := os.ReadFile(proc + "/cmdline")
	for arg := range strings.SplitSeq(string(cmd), "\x00") {
		if arg == dir || strings.HasPrefix(arg, dir+"/") {
			return "command line"
		}
	}
	fds, _ := os.ReadDir(proc + "/fd")
	for _, fd := range fds {
		if to, err := os.Readlink(proc + "/fd/" + fd.Name()); err == nil && below(to) {
			return "holds " + to
		}
	}
	return ""
}

// removedTo returns the name that a folder has while hostexec.RemoveTree removes it.
func removedTo(dir string) string {
	return filepath.Join(filepath.Dir(dir), ".removing-"+filepath.Base(dir))
}

func leftFiles(dir string) ([]Leftover, error) {
	var found []Leftover
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err):
			return nil // deleted meanwhile
		case err != nil:
			return err
		}
		if kind := leftKind(d); kind != "" {
			found = append(found, Leftover{Kind: kind, Path: p})
		}
		return nil
	})
	if err != nil {
		return found, err
	}
	beside, err := os.ReadDir(filepath.Dir(dir))
	if os.IsNotExist(err) {
		return found, nil
	}
	for _, d := range beside {
		if strings.HasPrefix(d.Name(), ".fl-") || d.Name() == filepath.Base(removedTo(dir)) {
			found = append(found, Leftover{Kind: "temp", Path: filepath.Join(filepath.Dir(dir), d.Name())})
		}
	}
	return found, err
}

func leftKind(d fs.DirEntry) string {
	name := d.Name()
	switch {
	case strings.HasPrefix(name, "tie.") || strings.HasPrefix(name, "see."):
		return "attachment"
	case strings.HasPrefix(name, "watch."):
		return "watch"
	case d.Type()&fs.ModeNamedPipe != 0:
		return "fifo"
	case name == "lock.held" || name == "lock.break":
		return "lock"
	case name == "exit.new" || name == "trim.new":
		return "" // placeholders that stay as long as the process runs
	case strings.HasPrefix(name, ".fl-") || strings.HasPrefix(name, "started.") ||
		name == "epoch.new" || name == "before.new" || name == "noexec":
		return "temp"
	}
	return ""
}
