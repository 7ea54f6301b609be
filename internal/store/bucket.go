package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/memblob" // mem://
	_ "gocloud.dev/blob/s3blob"  // s3://
	"gocloud.dev/gcerrors"
)

// bucket keeps objects in whatever gocloud reaches.
type bucket struct {
	b *blob.Bucket

	probing sync.Mutex
	probed  bool // the server honours If-Match
}

func openBucket(ctx context.Context, url string) (*bucket, error) {
	b, err := blob.OpenBucket(ctx, url)
	if err != nil {
		return nil, err
	}
	return &bucket{b: b}, nil
}

func (b *bucket) close() error               { return b.b.Close() }
func (b *bucket) make(context.Context) error { return nil }

func (b *bucket) write(ctx context.Context, key string, exclusive bool) (pending, error) {
	return b.begin(ctx, key, exclusive, nil)
}

// errNotS3: a bucket of another driver, which cannot replace a version.
var errNotS3 = errors.New("this driver cannot replace one version of an object (file and S3 can)")

// replace asks the server itself to look (If-Match), when the object is whole.
func (b *bucket) replace(ctx context.Context, key string, was version) (pending, error) {
	if err := b.canReplace(ctx); err != nil {
		return nil, err
	}
	return b.begin(ctx, key, false, ifMatch(was.etag))
}

func ifMatch(etag string) func(as func(any) bool) error {
	return func(as func(any) bool) error {
		var put *transfermanager.UploadObjectInput
		if !as(&put) {
			return errNotS3
		}
		put.IfMatch = &etag
		return nil
	}
}

// probeKey is no key of a blob, so that nobody lists it.
const probeKey = ".probe"

// canReplace tries, once, whether the server honours If-Match: some that speak
// S3 ignore it, and then a blob that is deleted meanwhile would come back.
func (b *bucket) canReplace(ctx context.Context) error {
	b.probing.Lock()
	defer b.probing.Unlock()
	if b.probed {
		return nil
	}
	w, err := b.begin(ctx, probeKey, false, ifMatch(`"00000000000000000000000000000000"`))
	if err == nil {
		err = w.commit()
	}
	switch {
	case err == nil:
		return errors.Join(errors.New("the server ignores If-Match, so that what is deleted meanwhile could come back: use one that honours it"), b.remove(ctx, probeKey))
	case errors.Is(err, errMoved):
		b.probed = true
		return nil
	}
	return err
}

func (b *bucket) begin(ctx context.Context, key string, exclusive bool, before func(as func(any) bool) error) (pending, error) {
	// Ending this context is how a gocloud writer is told to drop everything.
	ctx, cancel := context.WithCancel(ctx)
	w, err := b.b.NewWriter(ctx, key, &blob.WriterOptions{
		IfNotExist:                  exclusive,
		BeforeWrite:                 before,
		ContentType:                 "application/octet-stream",
		DisableContentTypeDetection: true,
		MaxConcurrency:              1, // one part of 5 MB in memory, not five
	})
	if err != nil {
		cancel()
		return nil, b.mean(err)
	}
	return &pendingObject{bucket: b, w: w, cancel: cancel, replaces: before != nil}, nil
}

type pendingObject struct {
	bucket *bucket
	w      *blob.Writer
	cancel context.CancelFunc

	replaces bool
}

func (p *pendingObject) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	return n, p.bucket.mean(err)
}

func (p *pendingObject) commit() error {
	defer p.cancel()
	err := p.bucket.mean(p.w.Close())
	if p.replaces && (errors.Is(err, ErrExists) || errors.Is(err, ErrNotFound)) {
		return errMoved // If-Match did not hold
	}
	return err
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

func (b *bucket) readVersion(ctx context.Context, key string) (io.ReadCloser, version, error) {
	// What changes between the two is found out when it is to be replaced.
	a, err := b.b.Attributes(ctx, key)
	if err != nil {
		return nil, version{}, b.mean(err)
	}
	r, err := b.read(ctx, key)
	return r, version{etag: a.ETag}, err
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
