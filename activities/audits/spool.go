package audits

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/localsocket"
	"fairlead.dev/fairlead/internal/store"
)

// Bounds of a folder of spools. The chain of a process bounds its file.
const (
	maxSpool  = 1 << 20 // bytes of one file
	maxSpools = 1000    // files that one drain reads
)

// The names of a spool's files.
const (
	spoolFile   = ".spool"
	spoolLock   = ".lock"
	spoolForged = ".refused"
)

// A spool is a file with the records of a process that the store has not taken yet. The
// kernel releases its lock when the process has ended: then another process of the machine
// stores the records.
//
// Line 1 of the file is the tag of the rest, by a key that only readers of the store have. So
// somebody who can write to the folder can remove records, and cannot make up any.
type spool struct {
	folder, name string
	store        *store.Store
	lock         *os.File

	mu      sync.Mutex
	through int64 // seq of the newest record that was in the file
	there   bool
}

// openSpool locks a spool of this process in a folder, which it makes.
func openSpool(folder, name string, st *store.Store) (*spool, error) {
	if err := localsocket.MakeFolder(folder); err != nil {
		return nil, err
	}
	if _, err := tagOf(st, name, nil); err != nil {
		return nil, err
	}
	lock, err := lockSpool(folder, name)
	for tries := 0; errors.Is(err, unix.EWOULDBLOCK) && tries < 50; tries++ { // another process looks whether this one is dead
		time.Sleep(10 * time.Millisecond)
		lock, err = lockSpool(folder, name)
	}
	if err != nil {
		return nil, err
	}
	return &spool{folder: folder, name: name, store: st, lock: lock}, nil
}

// lockSpool returns EWOULDBLOCK if another process has the lock, or has just removed it.
func lockSpool(folder, name string) (*os.File, error) {
	path := filepath.Join(folder, name+spoolLock)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	mine, err := f.Stat()
	is, serr := os.Stat(path)
	if err != nil || serr != nil || !os.SameFile(mine, is) {
		f.Close()
		return nil, unix.EWOULDBLOCK
	}
	return f, nil
}

func tagOf(st *store.Store, name string, body []byte) (string, error) {
	return st.Tag("audit spool", append([]byte(name+"\x00"), body...))
}

// keep writes the chain to the file, unless the store or the file has the record seq. When it
// returns nil, the record outlives the process and the machine's memory.
func (s *spool) keep(seq int64, now func() audit.Chain) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := now()
	if s.through >= seq || c.Seq-int64(len(c.Waiting)) >= seq {
		return nil
	}
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	tag, err := tagOf(s.store, s.name, body)
	if err != nil {
		return err
	}
	if err := replace(s.folder, s.name+spoolFile, append([]byte(tag+"\n"), body...)); err != nil {
		return err
	}
	s.through, s.there = c.Seq, true
	return nil
}

// clear removes the file once the store has all records.
func (s *spool) clear(now func() audit.Chain) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := now(); !s.there || !c.Empty() {
		return nil
	}
	s.there = false
	return os.Remove(filepath.Join(s.folder, s.name+spoolFile))
}

// close releases the lock. Without records, nothing of the spool is left.
func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if !s.there {
		err = os.Remove(s.lock.Name())
	}
	return errors.Join(err, s.lock.Close())
}

// replace writes a file of mode 0600, and returns when it is on the disk.
func replace(folder, name string, data []byte) error {
	f, err := os.CreateTemp(folder, name+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // nothing, once it has its name
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(folder, name)); err != nil {
		return err
	}
	dir, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// drain stores the records of processes that have ended.
func drain(ctx context.Context, st *store.Store, folder string, log *slog.Logger) {
	all, err := os.ReadDir(folder)
	if err != nil {
		log.Error("the records of workers that died cannot be looked for", "folder", folder, "err", err)
		return
	}
	seen := map[string]bool{}
	for _, e := range all {
		name, is := strings.CutSuffix(e.Name(), spoolLock)
		if !is {
			name, is = strings.CutSuffix(e.Name(), spoolFile)
		}
		if !is || seen[name] {
			continue
		}
		if seen[name] = true; len(seen) > maxSpools || ctx.Err() != nil {
			return
		}
		if err := drainOne(ctx, st, folder, name, log); err != nil {
			log.Error("the records of a worker that died are not in the store yet", "file", filepath.Join(folder, name+spoolFile), "err", err)
		}
	}
}

var errForged = errors.New("no worker of this store wrote it: its records do not count")

func drainOne(ctx context.Context, st *store.Store, folder, name string, log *slog.Logger) error {
	lock, err := lockSpool(folder, name)
	if errors.Is(err, unix.EWOULDBLOCK) { // its process runs
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	path := filepath.Join(folder, name+spoolFile)
	c, err := readSpool(st, path, name)
	switch {
	case errors.Is(err, fs.ErrNotExist): // its process had no records
		return os.Remove(lock.Name())
	case errors.Is(err, errForged):
		return errors.Join(err, os.Rename(path, filepath.Join(folder, name+spoolForged)), os.Remove(lock.Name()))
	case err != nil:
		return err
	}
	c.Settle()
	if b := c.Batch(); b != nil {
		ctx, cancel := context.WithTimeout(ctx, writeFor)
		defer cancel()
		if err := records.WriteAudit(ctx, st, *b); err != nil && !errors.Is(err, records.ErrAuditChanged) {
			return err
		}
		log.Info("the records of a worker that died are in the store", "entity", c.Entity, "seq", b.Last(), "hash", c.Head)
	}
	return errors.Join(os.Remove(path), os.Remove(lock.Name()))
}

func readSpool(st *store.Store, path, name string) (c audit.Chain, err error) {
	f, err := os.Open(path)
	if err != nil {
		return c, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSpool+1))
	if err != nil {
		return c, err
	}
	tag, body, _ := bytes.Cut(data, []byte("\n"))
	want, err := tagOf(st, name, body)
	if err != nil {
		return c, err
	}
	if len(data) > maxSpool || !hmac.Equal(tag, []byte(want)) {
		return c, errForged
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return c, fmt.Errorf("read it: %w", err)
	}
	return c, nil
}
