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
	skip    int64 // bytes before the content
	size    int64
}

type parts interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// sourceAt remembers a read error, as source does.
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

// mean returns a remembered read error, or else ErrTorn.
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

// NewReaderAt opens a blob for reading parts. Memory is bounded by the part and 64 KiB on
// either side. Every part and the size are authenticated (ErrTorn). If Rekey replaces the
// blob, it may have to be reopened. ctx bounds all reading.
func (s *Store) NewReaderAt(ctx context.Context, key string) (_ *ReaderAt, err error) {
	defer wrap(&err, "read "+clip(key)+" from the store")
	if err := checkKey(key); err != nil {
		return nil, err
	}
	identities := s.keys().identities
	if len(identities) == 0 {
		return nil, ErrNoIdentity
	}
	p, err := s.place.readAt(ctx, key)
	if err != nil {
		return nil, s.surely(ctx, err)
	}
	r := &ReaderAt{key: key, src: &sourceAt{parts: p}}
	packed, err := r.open(identities)
	if err == nil && packed {
		err = r.unpack(ctx, s)
	}
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	return r, nil
}

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
		return false, fmt.Errorf("%w: it was written under the key %q", ErrTorn, clip(b.key))
	}
	r.content = content
	r.skip, _ = in.Seek(0, io.SeekCurrent)
	r.size = size - r.skip
	if b.pack > packZstd {
		return false, tooNew(fmt.Sprintf("packing %d", b.pack))
	}
	return b.pack == packZstd, nil
}

// unpack reads a compressed blob into memory: parts of it cannot be located. NewPlainWriter
// avoids this.
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

// Size is the content's length.
func (r *ReaderAt) Size() int64 { return r.size }

// ReadAt fills p or returns an error, io.EOF at the end.
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

// Close closes the blob.
func (r *ReaderAt) Close() error { return r.src.Close() }
