// Package takeover tells the workers of one machine which tasks a dead worker was doing, so
// that they need not wait for its heartbeat timeout.
//
// Each worker has a folder below a shared root, with a lock that it holds and a file for
// each task in progress. The kernel releases the lock when the process has ended, and not
// before.
//
//	ROOT/w-3141592653/lock   held by the worker
//	ROOT/w-3141592653/t-17   one task: its task token
//
// Guarantees:
//
//   - a worker that runs, hangs or is stopped by a signal (SIGSTOP) never counts as dead;
//   - if the file system has no such locks (NFS, some FUSE), Open fails;
//   - the tasks of a dead worker are given to one other worker at a time.
package takeover

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"fairlead.dev/fairlead/internal/localsocket"
)

// Bounds. A task beyond them ends by its heartbeat timeout.
const (
	maxTasks   = 10_000
	maxTask    = 16 << 10 // bytes
	maxWorkers = 1_000    // folders
)

const (
	lockName     = "lock"
	workerPrefix = "w-"
	taskPrefix   = "t-"
)

// A Ledger is this process's folder. It is safe for concurrent use.
type Ledger struct {
	root, dir string
	lock      *os.File
	last      atomic.Uint64
}

// held keeps the lock files reachable: the garbage collector would close them, and so
// release the locks.
var held sync.Map

// Open makes and locks a folder below root. It fails if files there cannot be locked
// exclusively, or if other users could replace root.
func Open(root string) (_ *Ledger, err error) {
	defer wrap(&err, "record running activities below "+root)
	if err := localsocket.MakeFolder(root); err != nil {
		return nil, err
	}
	// The folder gets its final name when it is locked, so that it never looks dead.
	dir, err := os.MkdirTemp(root, "new-*")
	if err != nil {
		return nil, err
	}
	l := &Ledger{root: root, dir: filepath.Join(root, workerPrefix+strings.TrimPrefix(filepath.Base(dir), "new-"))}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	l.lock, err = os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(l.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = refuses(l.lock.Name())
	}
	if err == nil {
		err = os.Rename(dir, l.dir)
	}
	if err != nil {
		return nil, errors.Join(err, l.lock.Close())
	}
	held.Store(l.lock, true)
	return l, nil
}

// refuses checks that a locked file cannot be locked again.
func refuses(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		return errors.New("file locks do not exclude each other there: use a folder on a disk of this machine")
	case !errors.Is(err, unix.EWOULDBLOCK):
		return err
	}
	return nil
}

// Begin records a task in progress. end removes the record.
func (l *Ledger) Begin(task []byte) (end func(), err error) {
	path := filepath.Join(l.dir, taskPrefix+strconv.FormatUint(l.last.Add(1), 10))
	if err := os.WriteFile(path, task, 0o600); err != nil {
		return func() {}, fmt.Errorf("write down a task: %w", err)
	}
	// The server knows that the task is done, so a record that stays does no harm.
	return func() { _ = os.Remove(path) }, nil
}

// Close removes the folder, unless tasks are in progress: then the lock ends with the
// process, and another worker takes them over.
func (l *Ledger) Close() error {
	tasks, err := names(l.dir, taskPrefix, 1)
	if err != nil || len(tasks) > 0 {
		return err
	}
	held.Delete(l.lock)
	return errors.Join(os.RemoveAll(l.dir), l.lock.Close())
}

// A Dead is a worker that has ended. Call exactly one of Forget and Release.
type Dead struct {
	dir  string
	lock *os.File
}

// Dead returns the dead workers below the root, each to one caller at a time.
func (l *Ledger) Dead() (dead []*Dead, err error) {
	defer wrap(&err, "look for dead workers below "+l.root)
	all, err := names(l.root, workerPrefix, maxWorkers)
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		dir := filepath.Join(l.root, name)
		if dir == l.dir {
			continue
		}
		d, buryErr := bury(dir)
		err = errors.Join(err, buryErr) // one folder's error does not hide the others
		if d != nil {
			dead = append(dead, d)
		}
	}
	return dead, err
}

// bury locks a worker's folder. It returns nil if the worker lives, or another process has
// taken or removed the folder.
func bury(dir string) (*Dead, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, f.Close()
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	is, err := f.Stat()
	if err == nil {
		var there fs.FileInfo
		if there, err = os.Stat(f.Name()); err == nil && os.SameFile(is, there) {
			return &Dead{dir, f}, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // somebody else removed it
	}
	return nil, errors.Join(err, f.Close())
}

// Tasks returns the tasks in progress when the worker died, in no order.
func (d *Dead) Tasks() (tasks [][]byte, err error) {
	defer wrap(&err, "read what a dead worker was doing in "+d.dir)
	all, err := names(d.dir, taskPrefix, maxTasks)
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		task, err := readTask(filepath.Join(d.dir, name))
		if err != nil {
			return nil, err
		}
		if len(task) > 0 { // empty if the worker died before it began
			tasks = append(tasks, task)
		}
	}
	return tasks, nil
}

func readTask(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	task, err := io.ReadAll(io.LimitReader(f, maxTask+1))
	if err != nil || len(task) > maxTask {
		return nil, err
	}
	return task, nil
}

// Forget removes the worker's folder. End its tasks first.
func (d *Dead) Forget() error { return errors.Join(os.RemoveAll(d.dir), d.lock.Close()) }

// Release leaves the worker to the next caller of Ledger.Dead.
func (d *Dead) Release() error { return d.lock.Close() }

// names returns at most most names with prefix.
func names(dir, prefix string, most int) (found []string, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for len(found) < most {
		some, err := f.Readdirnames(256)
		for _, name := range some {
			if strings.HasPrefix(name, prefix) && len(found) < most {
				found = append(found, name)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func wrap(err *error, doing string) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", doing, *err)
	}
}
