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
	// write begins an object; exclusive means only if the key is free when it
	// is committed. Nothing is visible before commit returns nil.
	write(ctx context.Context, key string, exclusive bool) (pending, error)
	read(ctx context.Context, key string) (io.ReadCloser, error)
	// readAt opens an object of which parts are read.
	readAt(ctx context.Context, key string) (parts, error)
	// readVersion is read and says which version of the object it is. The
	// version holds for as long as the reader is open.
	readVersion(ctx context.Context, key string) (io.ReadCloser, version, error)
	// replace begins an object in the place of a version of it: commit is
	// errMoved where the key holds another one by then, or none any more.
	replace(ctx context.Context, key string, was version) (pending, error)
	stat(ctx context.Context, key string) (Info, error)
	// list is sorted by key.
	list(ctx context.Context, prefix string) ([]Info, error)
	remove(ctx context.Context, key string) error
	// make prepares a place that held no store so far.
	make(ctx context.Context) error
	close() error
}

// pending is an object that is being written. Exactly one of commit and abort
// is called, once.
type pending interface {
	io.Writer
	commit() error
	abort()
}

// A version is one content that a key had: a file, or an S3 entity tag.
type version struct {
	file fs.FileInfo
	etag string
}

// errMoved: the key does not hold the version that was to be replaced.
var errMoved = errors.New("blob was changed or deleted meanwhile")

// openPlace finds the driver of a URL. It makes nothing.
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
