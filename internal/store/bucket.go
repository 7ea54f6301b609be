package store

import (
	"context"
	"errors"
	"fmt"
	"io"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/memblob" // mem://
	_ "gocloud.dev/blob/s3blob"  // s3://
	"gocloud.dev/gcerrors"
)

// bucket keeps objects in whatever gocloud reaches.
type bucket struct {
	b *blob.Bucket
}

func openBucket(ctx context.Context, url string) (*bucket, error) {
	b, err := blob.OpenBucket(ctx, url)
	if err != nil {
		return nil, err
	}
	return &bucket{b}, nil
}

func (b *bucket) close() error               { return b.b.Close() }
func (b *bucket) make(context.Context) error { return nil }

func (b *bucket) write(ctx context.Context, key string, exclusive bool) (pending, error) {
	// Ending this context is how a gocloud writer is told to drop everything.
	ctx, cancel := context.WithCancel(ctx)
	w, err := b.b.NewWriter(ctx, key, &blob.WriterOptions{
		IfNotExist:                  exclusive,
		ContentType:                 "application/octet-stream",
		DisableContentTypeDetection: true,
		MaxConcurrency:              1, // one part of 5 MB in memory, not five
	})
	if err != nil {
		cancel()
		return nil, b.mean(err)
	}
	return &pendingObject{bucket: b, w: w, cancel: cancel}, nil
}

type pendingObject struct {
	bucket *bucket
	w      *blob.Writer
	cancel context.CancelFunc
}

func (p *pendingObject) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	return n, p.bucket.mean(err)
}

func (p *pendingObject) commit() error {
	defer p.cancel()
	return p.bucket.mean(p.w.Close())
}

func (p *pendingObject) abort() {
	p.cancel()
	_ = p.w.Close()
}

func (b *bucket) read(ctx context.Context, key string) (io.ReadCloser, error) {
	r, err := b.b.NewReader(ctx, key, nil)
	if err != nil {
		return nil, b.mean(err)
	}
	return r, nil
}

func (b *bucket) stat(ctx context.Context, key string) (Info, error) {
	a, err := b.b.Attributes(ctx, key)
	if err != nil {
		return Info{}, b.mean(err)
	}
	return Info{Key: key, Size: a.Size, ModTime: a.ModTime}, nil
}

func (b *bucket) list(ctx context.Context, prefix string) ([]Info, error) {
	var found []Info
	it := b.b.List(&blob.ListOptions{Prefix: prefix})
	for {
		o, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, b.mean(err)
		}
		if !o.IsDir && checkKey(o.Key) == nil {
			found = append(found, Info{Key: o.Key, Size: o.Size, ModTime: o.ModTime})
		}
	}
}

func (b *bucket) remove(ctx context.Context, key string) error {
	return b.mean(b.b.Delete(ctx, key))
}

// mean says in our words what a driver's error means.
func (b *bucket) mean(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return ErrNotFound
	case gcerrors.FailedPrecondition, gcerrors.AlreadyExists:
		return ErrExists
	case gcerrors.Canceled:
		return fmt.Errorf("%w: %w", context.Canceled, err)
	}
	return unreachable(err)
}
