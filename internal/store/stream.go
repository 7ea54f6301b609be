package store

import (
	"context"
	"errors"
	"io"
)

// A Writer is a blob being written. It is not safe for concurrent use.
type Writer struct {
	key    string
	seal   *sealer
	to     *counter
	err    error
	done   bool
	stored int64
}

type counter struct {
	p pending
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.p.Write(b)
	c.n += int64(n)
	return n, err
}

var errClosed = errors.New("blob is closed")

// NewWriter begins a blob of any size, in bounded memory, replacing an older one. It
// becomes visible at Close, or never after Abort or the end of ctx.
func (s *Store) NewWriter(ctx context.Context, key string) (_ *Writer, err error) {
	defer wrap(&err, "store "+clip(key))
	return s.newWriter(ctx, key, false)
}

// NewPlainWriter does not compress. It is for compressed content and for reading parts.
func (s *Store) NewPlainWriter(ctx context.Context, key string) (_ *Writer, err error) {
	defer wrap(&err, "store "+clip(key))
	w, err := s.newWriter(ctx, key, false)
	if err == nil {
		w.seal.plain = true
	}
	return w, err
}

func (s *Store) newWriter(ctx context.Context, key string, exclusive bool) (*Writer, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	p, err := s.place.write(ctx, key, exclusive)
	if err != nil {
		return nil, err
	}
	to := &counter{p: p}
	seal, err := newSealer(to, key, s.keys().recipients)
	if err != nil {
		p.abort()
		return nil, err
	}
	return &Writer{key: key, seal: seal, to: to}, nil
}

// Write adds to the blob.
func (w *Writer) Write(p []byte) (int, error) {
	if w.done {
		return 0, errClosed
	}
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.seal.Write(p)
	w.err = err
	wrap(&err, "store "+clip(w.key))
	return n, err
}

// Close makes the blob visible. After ErrUnreachable it may also be stored, whole.
func (w *Writer) Close() (err error) {
	defer wrap(&err, "store "+clip(w.key))
	return w.close()
}

func (w *Writer) close() error {
	if w.done {
		return errClosed
	}
	if w.err == nil {
		w.err = w.seal.Close()
	}
	if w.err != nil {
		err := w.err
		w.Abort()
		return err
	}
	w.done = true
	w.stored = w.to.n
	return w.to.p.commit()
}

// Abort drops the blob. After Close it does nothing.
func (w *Writer) Abort() {
	if w.done {
		return
	}
	w.done = true
	w.seal.abandon()
	w.to.p.abort()
}

// Stored is the blob's size in the store, after Close.
func (w *Writer) Stored() int64 { return w.stored }

// NewReader opens a blob of any size, in bounded memory. A torn blob is detected while it
// is read (ErrTorn): the data is valid only after io.EOF.
func (s *Store) NewReader(ctx context.Context, key string) (_ io.ReadCloser, err error) {
	defer wrap(&err, "read "+clip(key)+" from the store")
	o, err := s.newReader(ctx, key)
	if err != nil {
		return nil, err
	}
	return &named{o, key}, nil
}

func (s *Store) newReader(ctx context.Context, key string) (*opener, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	identities := s.keys().identities
	if len(identities) == 0 {
		return nil, ErrNoIdentity
	}
	r, err := s.place.read(ctx, key)
	if err != nil {
		return nil, s.surely(ctx, err)
	}
	return newOpener(r, key, identities)
}

// named adds the key to errors of Read.
type named struct {
	*opener
	key string
}

func (n *named) Read(p []byte) (int, error) {
	c, err := n.opener.Read(p)
	if err != nil && err != io.EOF {
		wrap(&err, "read "+clip(n.key)+" from the store")
	}
	return c, err
}
