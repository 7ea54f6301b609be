package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockName is a file beside what is being written. Who gives or takes a name
// holds it shared, for an instant; who replaces one version of a blob by
// another (Rekey) holds it alone while it looks and renames, so that a blob
// that was deleted in between does not come back. The kernel gives it back
// when its holder dies.
const lockName = "lock"

// lock takes the lock, shared (LOCK_SH) or alone (LOCK_EX). A file system that
// has no locks is good enough for everything but replacing.
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
