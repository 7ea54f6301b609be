package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Watch looks at every process of the machine, as root sees them in /proc, and reports
// those with a secret in their arguments or environment. It looks at each process when it
// executes a program, and at all of them every second. Where the kernel does not tell it of
// programs, it samples instead.
type Watch struct {
	stop    context.CancelFunc
	wg      sync.WaitGroup
	age     map[string]int // of each process, in samples
	mu      sync.Mutex
	found   []string
	samples int
}

// If the kernel does not tell of programs, a young process is read in every sample. Later
// only an exec changes what a process shows, so older ones are read seldom: reading all of
// them every time takes most of a processor.
const (
	young  = 50
	seldom = 25
)

// WatchProcesses looks until Stop is called.
func WatchProcesses(secret string) *Watch {
	events, err := listenToExecs()
	if err != nil {
		return watchProcesses(secret, nil)
	}
	return watchProcesses(secret, events)
}

func watchProcesses(secret string, events *execEvents) *Watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watch{stop: cancel, age: map[string]int{}}
	if events != nil {
		w.wg.Go(func() { w.follow(ctx, events, []byte(secret)) })
		return w
	}
	w.wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			w.sample([]byte(secret))
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return w
}

// follow looks at processes when they execute a program.
func (w *Watch) follow(ctx context.Context, events *execEvents, secret []byte) {
	defer events.close()
	buf := make([]byte, 64<<10)
	var last time.Time
	for ctx.Err() == nil {
		if time.Since(last) >= time.Second {
			w.all(secret)
			last = time.Now()
		}
		pids, lost := events.next(buf)
		for _, pid := range pids {
			w.look(fmt.Sprint(pid), secret)
		}
		if lost {
			last = time.Time{}
		}
	}
	w.all(secret)
}

func (w *Watch) all(secret []byte) {
	for _, pid := range processes() {
		w.look(pid, secret)
	}
	w.mu.Lock()
	w.samples++
	w.mu.Unlock()
}

func (w *Watch) sample(secret []byte) {
	age := map[string]int{}
	for _, pid := range processes() {
		n := w.age[pid] + 1
		age[pid] = n
		if n <= young || n%seldom == 0 {
			w.look(pid, secret)
		}
	}
	w.age = age
	w.mu.Lock()
	w.samples++
	w.mu.Unlock()
}

// processes returns the ids of all processes.
func processes() []string {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	return slices.DeleteFunc(names, func(name string) bool { return name[0] < '1' || name[0] > '9' })
}

func (w *Watch) look(pid string, secret []byte) {
	for _, file := range []string{"cmdline", "environ"} {
		data, err := os.ReadFile(filepath.Join("/proc", pid, file))
		if err != nil || !bytes.Contains(data, secret) {
			continue // it has exited, or has no secret
		}
		comm, _ := os.ReadFile(filepath.Join("/proc", pid, "comm"))
		w.mu.Lock()
		w.found = append(w.found, fmt.Sprintf("%s of %s (%s)", file, pid, strings.TrimSpace(string(comm))))
		w.mu.Unlock()
	}
}

// Stop stops the watch and returns where the secret was seen, and how often the watch looked
// at all processes.
func (w *Watch) Stop() (found []string, samples int) {
	w.stop()
	w.wg.Wait()
	return w.found, w.samples
}

// FindSecret searches every file below dirs: databases, logs, stores. It
// returns where the secret was found, and how many files and bytes were read. The room of a
// session's folder counts as a part of it.
func FindSecret(secret string, dirs ...string) (found []string, files int, size int64, err error) {
	for _, dir := range withRooms(dirs) {
		err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files++
			size += int64(len(data))
			if bytes.Contains(data, []byte(secret)) {
				found = append(found, path)
			}
			return nil
		})
		if err != nil {
			return found, files, size, err
		}
	}
	return found, files, size, nil
}

// withRooms adds the rooms of sessions' folders.
func withRooms(dirs []string) []string {
	all := slices.Clone(dirs)
	for _, dir := range dirs {
		if room, err := filepath.EvalSymlinks(filepath.Join(dir, "room")); err == nil {
			all = append(all, room)
		}
	}
	return all
}

// Below lists the processes whose arguments, working folder or program are
// below a folder, or which have the mark of the session with that folder.
func Below(dir string) []string {
	var out []string
	sum := sha256.Sum256([]byte(dir))
	mark := fmt.Appendf(nil, "FAIRLEAD_SESSION=%s@%x\x00", filepath.Base(dir), sum[:4])
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		if filepath.Base(p) == fmt.Sprint(os.Getpid()) {
			continue
		}
		cmd, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		cwd, _ := os.Readlink(filepath.Join(p, "cwd"))
		exe, _ := os.Readlink(filepath.Join(p, "exe"))
		env, _ := os.ReadFile(filepath.Join(p, "environ"))
		if bytes.Contains(env, mark) || bytes.Contains(cmd, []byte(dir)) || strings.HasPrefix(cwd, dir) || strings.HasPrefix(exe, dir) {
			out = append(out, fmt.Sprintf("%s %s", filepath.Base(p), strings.ReplaceAll(strings.TrimSuffix(string(cmd), "\x00"), "\x00", " ")))
		}
	}
	return out
}

// CodexOf returns the codex processes of a session on the lab's hosts, by the
// session's mark. Another lab on this machine may have a session of the same
// name.
func (l *Lab) CodexOf(session string) []int {
	var out []int
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		env, _ := os.ReadFile(filepath.Join(p, "environ"))
		exe, _ := os.Readlink(filepath.Join(p, "exe"))
		var pid int
		if filepath.Base(exe) == "codex" && bytes.Contains(append([]byte{0}, env...), []byte("\x00FAIRLEAD_SESSION="+session+"@")) && bytes.Contains(env, []byte(l.Dir+"/")) {
			if _, err := fmt.Sscan(filepath.Base(p), &pid); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}
