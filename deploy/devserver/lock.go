package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// refusal is an error for the exit status exitRefused.
type refusal struct{ error }

// fileLock keeps other servers away from a database until the process dies.
type fileLock struct{ f *os.File }

// lockFile locks path+".lock" or refuses at once. A lock on the database itself would be
// lost when any other descriptor of that file is closed.
func lockFile(path string) (*fileLock, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock database %s: %w", path, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock database %s: %w", path, err)
		}
		return nil, refusal{fmt.Errorf("database %s is in use by another server%s: stop that one, or give another --db-filename", path, holder(f))}
	}
	l := &fileLock{f}
	// The pid is only for messages.
	if err := f.Truncate(0); err == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return l, nil
}

func holder(f *os.File) string {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0)
	if pid := strings.TrimSpace(string(b[:n])); pid != "" {
		return " (process " + pid + ")"
	}
	return ""
}

// release keeps the file: otherwise two servers could lock two files of one name.
func (l *fileLock) release() error {
	if l == nil {
		return nil
	}
	return l.f.Close()
}
