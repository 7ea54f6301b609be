package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockName is a lock file beside the files being written. An operation that creates or
// removes a name holds the lock shared, for an instant. Rekey holds it exclusively while it
// checks and renames, so that a blob that is deleted in between does not come back. The
// kernel releases the lock when its holder dies.
const lockName = "lock"

// lock takes the lock, shared (LOCK_SH) or exclusive (LOCK_EX). On a file system without
// locks, everything except replacing works.
func (f *folder) lock(ctx context.Context, how int) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(f.root, tempDir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unreachable(err)
	}
	for {
		err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = file.Close() }, nil
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EWOULDBLOCK):
			if how == syscall.LOCK_SH {
				return func() { _ = file.Close() }, nil
			}
			return nil, errors.Join(unreachable(err), file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		case <-time.After(200 * time.Microsecond):
		}
	}
}
