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

// A slowStore delays every open of a file in a folder of a file store, like a
// busy disk or network share. If the folder is the one that blobs are first
// written to, writes are slow and reads are not. The kernel asks this process
// for permission to open (fanotify); it grants all pending opens when this
// process ends, however it ends.
type slowStore struct {
	asked  *os.File
	by     time.Duration
	writes atomic.Int64
	stop   chan struct{}
	all    sync.WaitGroup
}

// writing is the folder of files that are being written.
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
			var e unix.FanotifyEventMetadata // without info records this is the whole event
			if binary.Read(r, binary.NativeEndian, &e) != nil {
				break
			}
			if e.Fd >= 0 {
				s.all.Go(func() { s.answer(e.Fd, int(e.Pid)) })
			}
		}
	}
}

// answer permits one open: of a regular file by another process after the
// delay, of anything else at once.
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
	_, _ = s.asked.Write(yes) // the process that asked may have been killed
	_ = unix.Close(int(fd))
}

// end makes opens fast again and returns how many were delayed.
func (s *slowStore) end() (int64, error) {
	close(s.stop)
	err := s.asked.Close()
	s.all.Wait()
	if n := s.writes.Load(); n > 0 || err != nil {
		return n, err
	}
	return 0, errors.New("nobody wanted anything of the store while it was slow")
}
