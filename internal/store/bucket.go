package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/memblob" // mem://
	_ "gocloud.dev/blob/s3blob"  // s3://
	"gocloud.dev/gcerrors"
)

// bucket keeps objects in any bucket that gocloud supports.
type bucket struct {
	b *blob.Bucket

	mu       sync.Mutex // guards the following fields; not held during a request
	replaces bool       // the server honours If-Match
	excludes bool       // the server honours If-None-Match
	deafness error      // in which way the server fails to honour If-None-Match; nil if it does honour it, or was not probed
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

// errNotS3 means that the bucket's driver cannot replace one version of an object.
var errNotS3 = errors.New("this driver cannot replace one version of an object (file and S3 can)")

// replace makes the server check the version (If-Match) when the object is complete.
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

// probeKey is not a valid key of a blob, so it is never listed.
const probeKey = ".probe"

// canReplace returns nil if the server honours If-Match. Some S3 servers ignore it. With
// them, a blob that is deleted meanwhile would come back. Each call asks the server, until
// one call has found that the server honours it. Several calls may ask at the same time, so
// that a slow call does not delay the others.
func (b *bucket) canReplace(ctx context.Context) error {
	b.mu.Lock()
	known := b.replaces
	b.mu.Unlock()
	if known {
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
		b.mu.Lock()
		b.replaces = true
		b.mu.Unlock()
		return nil
	}
	return err
}

// exclusiveProbeKey is not a valid key of a blob. The object is never deleted, so
// later probes find it.
const exclusiveProbeKey = ".probe-exclusive"

// exclusive returns nil if the server honours If-None-Match. Each call asks the server,
// until one call has an answer. This answer is used until the process ends. Several calls
// may ask at the same time, so that a slow call does not delay the others.
func (b *bucket) exclusive(ctx context.Context) error {
	b.mu.Lock()
	known, deafness := b.excludes || b.deafness != nil, b.deafness
	b.mu.Unlock()
	if known {
		return deafness
	}
	honours, deafness, err := b.probeExclusion(ctx)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.excludes = b.excludes || honours
	if b.deafness == nil {
		b.deafness = deafness
	}
	return b.deafness
}

// probeExclusion writes an object twice and reports whether the server refused to write it
// again. If the server did not refuse, deafness says what it did. If err is not nil, the
// answer is not known.
func (b *bucket) probeExclusion(ctx context.Context) (honours bool, deafness, err error) {
	// The first write may make the object, and then the server must refuse the second.
	// Nobody deletes the object, so that several calls may probe at the same time.
	for range 2 {
		w, err := b.begin(ctx, exclusiveProbeKey, true, nil)
		if err == nil {
			_, err = w.Write([]byte("a server that honours If-None-Match refuses to write this again\n"))
			if err != nil {
				w.abort()
			} else {
				err = w.(*pendingObject).close()
			}
		}
		switch {
		case errors.Is(err, ErrExists):
			return true, nil, nil
		case status(err) == http.StatusNotImplemented:
			return false, deaf("does not know If-None-Match"), nil
		case err != nil:
			return false, nil, err
		}
	}
	return false, deaf("ignores If-None-Match"), nil
}

func deaf(how string) error {
	return fmt.Errorf("%w: it %s (use a server that honours it, as S3 itself does, or a file:// store, and start the workers again)", ErrNotExclusive, how)
}

// status returns the HTTP status of a failed request, 0 if unknown.
func status(err error) int {
	var answer interface{ HTTPStatusCode() int }
	if errors.As(err, &answer) {
		return answer.HTTPStatusCode()
	}
	return 0
}

func (b *bucket) begin(ctx context.Context, key string, exclusive bool, before func(as func(any) bool) error) (pending, error) {
	// Cancelling this context makes a gocloud writer drop all written data.
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
	return &pendingObject{bucket: b, key: key, w: w, ctx: ctx, cancel: cancel, exclusive: exclusive, replaces: before != nil}, nil
}

type pendingObject struct {
	bucket *bucket
	key    string
	w      *blob.Writer
	ctx    context.Context //nolint:containedctx // of the writer
	cancel context.CancelFunc

	exclusive bool
	replaces  bool

	head []byte // the first bytes that were written
	size int64
}

// headSize is the number of bytes at the beginning of an object that identify it: each age
// file begins with its own key and nonce.
const headSize = 1 << 10

func (p *pendingObject) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if p.exclusive {
		p.head = append(p.head, b[:min(n, headSize-len(p.head))]...)
		p.size += int64(n)
	}
	return n, p.bucket.mean(err)
}

func (p *pendingObject) commit() error {
	defer p.cancel()
	err := p.close()
	switch {
	case p.replaces && (errors.Is(err, ErrExists) || errors.Is(err, ErrNotFound)):
		return errMoved // the condition If-Match was false
	case p.exclusive && err == nil:
		return p.look()
	case p.exclusive && errors.Is(err, ErrExists) && p.look() == nil:
		return nil // a repeated request was refused because the first one succeeded
	}
	return err
}

func (p *pendingObject) close() error { return p.bucket.mean(p.w.Close()) }

// look reads back the object and compares it with what was written. It returns ErrExists if
// they differ, and ErrUnreachable if it cannot find out.
func (p *pendingObject) look() error {
	r, err := p.bucket.b.NewRangeReader(p.ctx, p.key, 0, headSize, nil)
	if err == nil {
		var head []byte
		head, err = io.ReadAll(io.LimitReader(r, headSize))
		size := r.Size()
		err = errors.Join(err, r.Close())
		if err == nil && (size != p.size || !bytes.Equal(head, p.head)) {
			return ErrExists
		}
	}
	if err = p.bucket.mean(err); errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: what was written was not there when it was read back", ErrUnreachable)
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
	// A change between the two requests is detected when the version is replaced.
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

// mean translates a driver's error into one of this package.
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
