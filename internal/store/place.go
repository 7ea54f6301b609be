package store

import (
	"context"
	"fmt"
	"io"
	"net/url"
)

// A place holds objects, already encrypted, under keys that checkKey accepts.
// Errors wrap ErrNotFound, ErrExists or ErrUnreachable (or are ctx's own).
type place interface {
	// write begins an object; exclusive means only if the key is free when it
	// is committed. Nothing is visible before commit returns nil.
	write(ctx context.Context, key string, exclusive bool) (pending, error)
	read(ctx context.Context, key string) (io.ReadCloser, error)
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
