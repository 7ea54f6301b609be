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
	_ "gocloud.dev/blob/memblob"
	_ "gocloud.dev/blob/s3blob"
	"gocloud.dev/gcerrors"
)

// bucket keeps objects in any bucket of gocloud.
type bucket struct {
	b *blob.Bucket

	mu       sync.Mutex // guards the fields below; not held during a request
	replaces bool       // honours If-Match
	excludes bool       // honours If-None-Match
	deafness error      // how the server fails to honour If-None-Match; nil also before a probe
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

var errNotS3 = errors.New("this driver cannot replace one version of an object (file and S3 can)")

// replace makes the server check the version (If-Match) at the end.
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

// probeKey is no valid key of a blob, so it is never listed.
const probeKey = ".probe"

// canReplace fails unless the server honours If-Match: without that, a blob deleted
// meanwhile would come back. Calls ask the server until it is known to honour If-Match;
// several may ask at once, so that a slow one does not delay others.
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
		return errors.Join(errors.New("the S3 server ignores If-Match, so a blob that is deleted during key rotation could come back (use a server that honours If-Match)"), b.remove(ctx, probeKey))
	case errors.Is(err, errMoved):
		b.mu.Lock()
		b.replaces = true
		b.mu.Unlock()
		return nil
	}
	return err
}

// exclusiveProbeKey is no valid key of a blob. The object stays for later probes.
const exclusiveProbeKey = ".probe-exclusive"

// exclusive asks the server until there is an answer, which holds for the process. Several
// calls may ask at once.
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

// probeExclusion tests whether the server refuses to write an object again. deafness says
// what it did instead.
func (b *bucket) probeExclusion(ctx context.Context) (honours bool, deafness, err error) {
	// The first write may make the object; the second must be refused. The object is never
	// deleted, so several calls may probe at once.
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

// status is a failed request's HTTP status, 0 if unknown.
func status(err error) int {
	var answer interface{ HTTPStatusCode() int }
	if errors.As(err, &answer) {
		return answer.HTTPStatusCode()
	}
	return 0
}

func (b *bucket) begin(ctx context.Context, key string, exclusive bool, before func(as func(any) bool) error) (pending, error) {
	// Cancelling ctx makes a gocloud writer drop all data.
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

	head []byte
	size int64
}

// headSize bytes identify an object: each age file begins with its own key and nonce.
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
		return errMoved // If-Match failed
	case p.exclusive && err == nil:
		return p.look()
	case p.exclusive && errors.Is(err, ErrExists) && p.look() == nil:
		return nil // a repeated request was refused because the first one succeeded
	}
	return err
}

func (p *pendingObject) close() error { return p.bucket.mean(p.w.Close()) }

// look compares the stored object with the written one: ErrExists if they differ,
// ErrUnreachable if it cannot tell.
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
		return fmt.Errorf("%w: the object was written, but the server did not find it when it was read back", ErrUnreachable)
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
	// replace detects a change between the two requests.
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
