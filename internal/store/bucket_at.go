package store

import (
	"context"
	"io"
	"sync"

	"gocloud.dev/blob"
)

// nearBy is the largest gap that is read and dropped, without a new request.
const nearBy = 256 << 10

// objectParts reads an object in parts.
type objectParts struct {
	ctx    context.Context //nolint:containedctx // of all reading, as the caller was told
	bucket *bucket
	key    string
	size   int64

	mu sync.Mutex
	r  *blob.Reader // guarded by mu; the current response
	at int64        // guarded by mu; position of r
}

func (b *bucket) readAt(ctx context.Context, key string) (parts, error) {
	r, err := b.b.NewReader(ctx, key, nil)
	if err != nil {
		return nil, b.mean(err)
	}
	return &objectParts{ctx: ctx, bucket: b, key: key, size: r.Size(), r: r}, nil
}

func (o *objectParts) Size() int64 { return o.size }

func (o *objectParts) ReadAt(p []byte, off int64) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if off >= o.size {
		return 0, io.EOF
	}
	if o.r == nil || off < o.at || off > o.at+nearBy {
		if off+int64(len(p)) == o.size { // age reads the end first
			return o.once(p, off)
		}
		if err := o.ask(off); err != nil {
			return 0, err
		}
		return o.goOn(p, off)
	}
	n, err := o.goOn(p, off)
	if err == nil || err == io.EOF || o.ctx.Err() != nil {
		return n, err
	}
	// The server may drop a response that is not read for long.
	if err := o.ask(off); err != nil {
		return 0, err
	}
	return o.goOn(p, off)
}

// once reads the end of the object and leaves the current response alone.
func (o *objectParts) once(p []byte, off int64) (int, error) {
	r, err := o.bucket.b.NewRangeReader(o.ctx, o.key, off, int64(len(p)), nil)
	if err != nil {
		return 0, o.bucket.mean(err)
	}
	defer r.Close()
	n, err := io.ReadFull(r, p)
	return n, o.bucket.mean(err)
}

func (o *objectParts) ask(off int64) error {
	o.drop()
	r, err := o.bucket.b.NewRangeReader(o.ctx, o.key, off, -1, nil)
	if err != nil {
		return o.bucket.mean(err)
	}
	o.r, o.at = r, off
	return nil
}

func (o *objectParts) goOn(p []byte, off int64) (n int, err error) {
	skipped, err := io.CopyN(io.Discard, o.r, off-o.at)
	o.at += skipped
	if err == nil {
		n, err = io.ReadFull(o.r, p)
		o.at += int64(n)
	}
	if err == io.ErrUnexpectedEOF && o.at == o.size {
		return n, io.EOF
	}
	if err != nil {
		o.drop()
		return n, o.bucket.mean(err)
	}
	return n, nil
}

func (o *objectParts) drop() {
	if o.r != nil {
		_ = o.r.Close()
		o.r = nil
	}
}

func (o *objectParts) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop()
	return nil
}
