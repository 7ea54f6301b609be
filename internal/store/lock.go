package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockName is a file that is locked shared, for an instant, by each creation and removal of
// a name. Rekey locks it exclusively while it checks and renames, so that a blob deleted in
// between does not come back.
const lockName = "lock"

// lock takes LOCK_SH or LOCK_EX. On a file system without locks only LOCK_EX fails.
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
