package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A slowStore has every write to a file store wait, as a disk that is busy or a
// share whose server is: the file that the blob is first written to opens only
// after a while. Reads go on. The kernel asks us for leave to open; it grants
// all that is pending when this process ends, however it ends.
type slowStore struct {
	asked  *os.File
	by     time.Duration
	writes atomic.Int64
	stop   chan struct{}
	all    sync.WaitGroup
}

func slowDown(storeDir string, by time.Duration) (*slowStore, error) {
	dir := filepath.Join(storeDir, ".tmp") // of what is being written
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDONLY|unix.O_CLOEXEC)
	if err == nil {
		if err = unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN_PERM|unix.FAN_EVENT_ON_CHILD, unix.AT_FDCWD, dir); err != nil {
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("slow down writes below %s (needs root and a kernel with FANOTIFY_ACCESS_PERMISSIONS): %w", dir, err)
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
				s.all.Go(func() { s.answer(e.Fd) })
			}
		}
	}
}

// answer lets one file be opened; what is not a blob's, at once.
func (s *slowStore) answer(fd int32) {
	name, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) // one without a name is not a blob's
	if strings.HasPrefix(filepath.Base(name), "w-") {
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
	return 0, errors.New("nothing was written while the store was slow")
}
