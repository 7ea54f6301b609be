package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"filippo.io/age"
)

// A ReaderAt reads parts of a blob. It is safe for concurrent use.
type ReaderAt struct {
	key     string
	src     *sourceAt
	content io.ReaderAt
	skip    int64 // what comes before the content
	size    int64
}

// A parts is an object of which parts can be read.
type parts interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// sourceAt remembers how its reader failed, as source does.
type sourceAt struct {
	parts
	mu  sync.Mutex
	err error
}

func (s *sourceAt) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.parts.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}
	return n, err
}

// mean gives an error its meaning.
func (s *sourceAt) mean(err error) error {
	s.mu.Lock()
	src := s.err
	s.err = nil
	s.mu.Unlock()
	switch {
	case errors.Is(src, ErrNotFound):
		return src
	case src != nil:
		return unreachable(src)
	}
	return fmt.Errorf("%w: %w", ErrTorn, noEOF(err))
}

// NewReaderAt opens a blob of which parts are read, with bounded memory: what
// it takes to read one is that part, and up to 64 KiB on either side of it.
// Every part is authentic by itself (or ErrTorn), and so is the size. A blob
// that Rekey encrypts meanwhile may have to be opened again. ctx bounds all
// reading.
func (s *Store) NewReaderAt(ctx context.Context, key string) (_ *ReaderAt, err error) {
	defer wrap(&err, "read "+clip(key)+" from the store")
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if len(s.identities) == 0 {
		return nil, ErrNoIdentity
	}
	p, err := s.place.readAt(ctx, key)
	if err != nil {
		return nil, s.surely(ctx, err)
	}
	r := &ReaderAt{key: key, src: &sourceAt{parts: p}}
	packed, err := r.open(s.identities)
	if err == nil && packed {
		err = r.unpack(ctx, s)
	}
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	return r, nil
}

// open decrypts up to the content, and says whether that is packed.
func (r *ReaderAt) open(identities []age.Identity) (packed bool, err error) {
	content, size, err := age.DecryptReaderAt(r.src, r.src.Size(), identities...)
	if err != nil {
		if noMatch := (*age.NoIdentityMatchError)(nil); errors.As(err, &noMatch) {
			return false, ErrWrongKey
		}
		return false, r.src.mean(err)
	}
	in := io.NewSectionReader(content, 0, size)
	b, err := readBeginning(in)
	if later := tooNew(""); errors.As(err, &later) {
		return false, err
	}
	if err != nil {
		return false, r.src.mean(err)
	}
	if b.key != r.key {
		return false, fmt.Errorf("%w: it was written as %q", ErrTorn, clip(b.key))
	}
	r.content = content
	r.skip, _ = in.Seek(0, io.SeekCurrent)
	r.size = size - r.skip
	if b.pack > packZstd {
		return false, tooNew(fmt.Sprintf("packing %d", b.pack))
	}
	return b.pack == packZstd, nil
}

// unpack brings a blob that is packed into memory: nobody can tell where in it
// a part is. Who means to read parts writes with NewPlainWriter.
func (r *ReaderAt) unpack(ctx context.Context, s *Store) error {
	in, err := s.newReader(ctx, r.key)
	if err != nil {
		return err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, MaxGet+1))
	if err != nil {
		return err
	}
	if len(data) > MaxGet {
		return ErrTooLarge
	}
	r.content, r.skip, r.size = bytes.NewReader(data), 0, int64(len(data))
	return nil
}

// Size is how long the content is.
func (r *ReaderAt) Size() int64 { return r.size }

// ReadAt fills p, or says why it cannot; at the end of the content that is io.EOF.
func (r *ReaderAt) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > r.size {
		return 0, fmt.Errorf("read %s from the store: %d is not within its %d bytes", clip(r.key), off, r.size)
	}
	n, err := r.content.ReadAt(p, r.skip+off)
	if err != nil && err != io.EOF {
		err = r.src.mean(err)
		wrap(&err, "read "+clip(r.key)+" from the store")
	}
	return n, err
}

// Close ends reading.
func (r *ReaderAt) Close() error { return r.src.Close() }
