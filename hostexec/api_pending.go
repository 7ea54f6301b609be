package hostexec

// Functions that the owners of this package build; the bodies move into files
// of their own and this file goes away.

import (
	"context"
	"io"
	"io/fs"
)

// Root resolves the folder on the host that holds what is ours (Spec.Root, or
// .fairlead in the user's home) to an absolute path. It does not create it.
func Root(ctx context.Context, h Host, spec Spec) (string, error) { return "", nil }

// WriteFile writes a small file atomically: temp in the same folder, mode from
// the first byte, fsync, rename; parents are made 0700. Size and SHA-256 are checked.
func WriteFile(ctx context.Context, h Host, path string, data []byte, mode fs.FileMode, fence *Fence) error {
	return nil
}

// ReadFile reads a small file; an error wraps ErrNotExist where there is none,
// and is *OutputTooLongError beyond max bytes.
func ReadFile(ctx context.Context, h Host, path string, max int64) ([]byte, error) { return nil, nil }

// Upload writes size bytes of r to path as WriteFile does, for big files, and
// checks the SHA-256 (hex) on the host when it can compute one.
func Upload(ctx context.Context, h Host, path string, r io.Reader, size int64, sha256 string, mode fs.FileMode) error {
	return nil
}

// PutTree unpacks a tar stream into dir, made if missing.
func PutTree(ctx context.Context, h Host, dir string, tar io.Reader, fence *Fence) error { return nil }

// GetTree writes a tar stream of the named paths below dir (all when none).
// Sockets and FIFOs are left out; files that change while read do not fail it.
func GetTree(ctx context.Context, h Host, dir string, w io.Writer, paths ...string) error { return nil }

// RemoveTree removes path, which must lie below within (also through symlinks),
// and proves that it is gone. A path that is not there is success.
func RemoveTree(ctx context.Context, h Host, path, within string, fence *Fence) error { return nil }
