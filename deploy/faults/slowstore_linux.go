package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A slowStore has what is opened in a folder of a file store wait, as a disk that
// is busy or a share whose server is. Where that is what blobs are first written
// to, writes are slow, and reads go on. The kernel asks us for leave to open; it
// grants all that is pending when this process ends, however it ends.
type slowStore struct {
	asked  *os.File
	by     time.Duration
	writes atomic.Int64
	stop   chan struct{}
	all    sync.WaitGroup
}

// writing is the folder of what is being written.
const writing = ".tmp"

func slowDown(storeDir, part string, by time.Duration) (*slowStore, error) {
	dir := filepath.Join(storeDir, part)
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDONLY|unix.O_CLOEXEC)
	if err == nil {
		if err = unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN_PERM|unix.FAN_EVENT_ON_CHILD, unix.AT_FDCWD, dir); err != nil {
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("slow down %s (needs root and a kernel with FANOTIFY_ACCESS_PERMISSIONS): %w", dir, err)
	}
	s := &slowStore{asked: os.NewFile(uintptr(fd), "fanotify"), by: by, stop: make(chan struct{})}
	s.all.Go(s.serve)
	return s, nil
}

func (s *slowStore) serve() {
	buf := make([]byte, 64<<10)
	for {
		n, err := s.asked.Read(buf)
		if err != nil {
			return // closed
		}
		for r := bytes.NewReader(buf[:n]); ; {
			var e unix.FanotifyEventMetadata // without info records: it is the whole event
			if binary.Read(r, binary.NativeEndian, &e) != nil {
				break
			}
			if e.Fd >= 0 {
				s.all.Go(func() { s.answer(e.Fd, int(e.Pid)) })
			}
		}
	}
}

// answer lets one file be opened; a folder, and us, at once.
func (s *slowStore) answer(fd int32, pid int) {
	var st unix.Stat_t
	if pid != os.Getpid() && unix.Fstat(int(fd), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		select {
		case <-time.After(s.by):
			s.writes.Add(1)
		case <-s.stop:
		}
	}
	yes := binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(nil, uint32(fd)), unix.FAN_ALLOW)
	_, _ = s.asked.Write(yes) // whoever asked may have been killed
	_ = unix.Close(int(fd))
}

// end has writes be quick again, and says how many were not.
func (s *slowStore) end() (int64, error) {
	close(s.stop)
	err := s.asked.Close()
	s.all.Wait()
	if n := s.writes.Load(); n > 0 || err != nil {
		return n, err
	}
	return 0, errors.New("nobody wanted anything of the store while it was slow")
}
