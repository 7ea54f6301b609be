package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
)

// A place holds objects, already encrypted, under keys that checkKey accepts.
// Errors wrap ErrNotFound, ErrExists or ErrUnreachable (or are ctx's own).
type place interface {
	// write begins an object. If exclusive is set, commit fails unless the key is free at
	// that moment. Nothing is visible before commit returns nil.
	write(ctx context.Context, key string, exclusive bool) (pending, error)
	read(ctx context.Context, key string) (io.ReadCloser, error)
	// readAt opens an object for reading parts of it.
	readAt(ctx context.Context, key string) (parts, error)
	// readVersion is read that also returns the version of the object. The version is
	// valid while the reader is open.
	readVersion(ctx context.Context, key string) (io.ReadCloser, version, error)
	// exclusive returns nil if only one of several exclusive writes of a key succeeds. It
	// returns ErrNotExclusive if several are known to succeed.
	exclusive(ctx context.Context) error
	// replace begins an object that replaces a version. commit returns errMoved if the key
	// then holds another version, or nothing.
	replace(ctx context.Context, key string, was version) (pending, error)
	stat(ctx context.Context, key string) (Info, error)
	// list returns the objects sorted by key.
	list(ctx context.Context, prefix string) ([]Info, error)
	remove(ctx context.Context, key string) error
	// make prepares a place that has held no store so far.
	make(ctx context.Context) error
	close() error
}

// pending is an object that is being written. The caller must call either commit or abort,
// once.
type pending interface {
	io.Writer
	commit() error
	abort()
}

// A version identifies one content of a key: a file, or an S3 entity tag.
type version struct {
	file fs.FileInfo
	etag string
}

// errMoved means that the key no longer holds the version to be replaced.
var errMoved = errors.New("blob was changed or deleted meanwhile")

// openPlace returns the driver for a URL. It creates nothing.
func openPlace(ctx context.Context, rawURL string) (place, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("not a URL: %w", err)
	}
	switch u.Scheme {
	case "file":
		return openFolder(u)
	case "s3", "mem":
		return openBucket(ctx, rawURL)
	}
	return nil, fmt.Errorf("no driver for %q (use file:///folder or s3://bucket?region=…)", u.Scheme)
}
