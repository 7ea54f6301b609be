package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
)

// A place holds encrypted objects under keys that checkKey accepts. Errors wrap
// ErrNotFound, ErrExists or ErrUnreachable, or are ctx's own.
type place interface {
	// write begins an object, visible only when commit returns nil. With exclusive, commit
	// fails unless the key is free then.
	write(ctx context.Context, key string, exclusive bool) (pending, error)
	read(ctx context.Context, key string) (io.ReadCloser, error)
	readAt(ctx context.Context, key string) (parts, error)
	// readVersion also returns the version, valid while the reader is open.
	readVersion(ctx context.Context, key string) (io.ReadCloser, version, error)
	// exclusive returns ErrNotExclusive if several exclusive writes of a key can succeed.
	exclusive(ctx context.Context) error
	// replace is write over one version. commit returns errMoved if the key no longer holds
	// it.
	replace(ctx context.Context, key string, was version) (pending, error)
	stat(ctx context.Context, key string) (Info, error)
	// list sorts by key.
	list(ctx context.Context, prefix string) ([]Info, error)
	remove(ctx context.Context, key string) error
	// make prepares a place for its first store.
	make(ctx context.Context) error
	close() error
}

// pending is an object being written. Its user calls commit or abort, once.
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

var errMoved = errors.New("blob was changed or deleted meanwhile")

// openPlace creates nothing.
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
