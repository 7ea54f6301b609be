package chunks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/internal/store"
)

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// A Reader reads whole blocks and keeps the last few, so each block is read once if chunks
// are requested in about the order of their Put. It is not safe for concurrent use. Close
// ends it.
type Reader struct {
	c     *Store
	ctx   context.Context
	fresh bool        // it has updated the index
	packs []*openPack // most recently used last

	blocks []openBlock // most recently used last
	size   int         // of all buffers in blocks
	stored []byte
	spare  []byte
}

// A reader keeps at most readerPacks open packs, with 4 bytes for each of their chunks, and
// readerBlocks bytes of blocks, but at least one.
const (
	readerPacks  = 16
	readerBlocks = 4 << 20
)

type openBlock struct {
	pack  *openPack
	block int
	raw   []byte
}

// NewReader returns a reader that can be used until ctx ends.
func (c *Store) NewReader(ctx context.Context) *Reader { return &Reader{c: c, ctx: ctx} }

// Close closes the reader's packs.
func (r *Reader) Close() {
	for _, p := range r.packs {
		p.Close()
	}
	*r = Reader{c: r.c, ctx: r.ctx}
}

// Get reads a chunk. The error wraps ErrMissing or ErrRotten, or is one of the store.
func (r *Reader) Get(d Digest) ([]byte, error) {
	data, err := r.View(d)
	return bytes.Clone(data), err
}

// View is Get without a copy. The result is valid until the next call.
func (r *Reader) View(d Digest) ([]byte, error) {
	data, err := r.get(d)
	if err != nil && !r.fresh && (errors.Is(err, ErrMissing) || errors.Is(err, ErrRotten)) {
		// Another worker may have stored the chunk, or moved it to another pack.
		r.fresh = true
		if err := r.c.refresh(r.ctx); err != nil {
			return nil, err
		}
		if data, err = r.get(d); errors.Is(err, ErrMissing) {
			if err := r.c.salvage(r.ctx); err != nil {
				return nil, err
			}
			data, err = r.get(d)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read chunk %s: %w", d, err)
	}
	return data, nil
}

func (r *Reader) get(d Digest) ([]byte, error) {
	var places []slot
	r.c.mu.Lock()
	r.c.index.each(d, func(e indexEntry) bool {
		s := slot{e.pack, e.pos}
		if r.c.index.packs[e.pack].condemned {
			places = append(places, s)
		} else {
			places = slices.Insert(places, 0, s)
		}
		return true
	})
	r.c.mu.Unlock()
	failed := ErrMissing
	for _, s := range places {
		data, err := r.read(d, s)
		if err == nil || !errors.Is(err, ErrMissing) && !errors.Is(err, ErrRotten) {
			return data, err
		}
		failed = err
	}
	return nil, failed
}

func (r *Reader) read(d Digest, s slot) ([]byte, error) {
	was := r.isOpen(s.pack)
	raw, err := r.readOnce(d, s)
	if err != nil && was && (errors.Is(err, ErrMissing) || errors.Is(err, ErrRotten)) {
		// The pack may have been encrypted anew since it was opened.
		r.forget(s.pack)
		raw, err = r.readOnce(d, s)
	}
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", r.c.packID(s.pack), err)
	}
	return raw, nil
}

func (r *Reader) readOnce(d Digest, s slot) ([]byte, error) {
	p, err := r.pack(s.pack)
	if err != nil {
		return nil, err
	}
	if int(s.pos) >= len(p.offsets) {
		return nil, fmt.Errorf("%w: it holds other chunks than the index says", ErrRotten)
	}
	n, from, to := p.place(int(s.pos))
	raw, err := r.block(p, n)
	if err != nil {
		return nil, err
	}
	if raw = raw[from:to:to]; DigestOf(raw) != d {
		return nil, fmt.Errorf("%w: it has other bytes", ErrRotten)
	}
	return raw, nil
}

func (c *Store) packID(n uint32) packID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.index.packs[n].id
}

func (r *Reader) isOpen(n uint32) bool {
	return slices.ContainsFunc(r.packs, func(p *openPack) bool { return p.number == n })
}

func (r *Reader) pack(n uint32) (*openPack, error) {
	if i := slices.IndexFunc(r.packs, func(p *openPack) bool { return p.number == n }); i >= 0 {
		p := r.packs[i]
		r.packs = append(slices.Delete(r.packs, i, i+1), p)
		return p, nil
	}
	p, err := r.c.openPack(r.ctx, r.c.packID(n))
	if err != nil {
		return nil, err
	}
	p.number = n
	p.table.chunks = nil // content is compared with the requested digest
	if len(r.packs) >= readerPacks {
		r.packs[0].Close()
		r.packs = slices.Delete(r.packs, 0, 1)
	}
	r.packs = append(r.packs, p)
	return p, nil
}

func (r *Reader) forget(n uint32) {
	r.packs = slices.DeleteFunc(r.packs, func(p *openPack) bool {
		if p.number == n {
			p.Close()
		}
		return p.number == n
	})
	r.blocks = slices.DeleteFunc(r.blocks, func(b openBlock) bool {
		if b.pack.number == n {
			r.size -= cap(b.raw)
		}
		return b.pack.number == n
	})
}

func (r *Reader) block(p *openPack, n int) ([]byte, error) {
	if i := slices.IndexFunc(r.blocks, func(b openBlock) bool { return b.pack.number == p.number && b.block == n }); i >= 0 {
		b := r.blocks[i]
		r.blocks = append(slices.Delete(r.blocks, i, i+1), b)
		return b.raw, nil
	}
	for len(r.blocks) > 0 && r.size+p.table.blocks[n].raw > readerBlocks {
		r.spare = r.blocks[0].raw
		r.size -= cap(r.spare)
		r.blocks = slices.Delete(r.blocks, 0, 1)
	}
	buf := r.spare
	r.spare = nil
	raw, err := p.block(n, &r.stored, &buf)
	if err != nil {
		r.spare = buf
		return nil, err
	}
	r.blocks = append(r.blocks, openBlock{p, n, raw})
	r.size += cap(raw)
	return raw, nil
}

func (c *Store) digestsOf(ctx context.Context, n uint32) ([]Digest, error) {
	p, err := c.openPack(ctx, c.packID(n))
	if err != nil {
		return nil, err
	}
	defer p.Close()
	digests := make([]Digest, len(p.table.chunks))
	for i, c := range p.table.chunks {
		digests[i] = c.digest
	}
	return digests, nil
}

// lookFor marks packs that the store lacks as lost.
func (c *Store) lookFor(ctx context.Context, packs []uint32) error {
	there := map[packID]bool{}
	if len(packs) > 100 {
		ids, err := c.ids(ctx, PackPrefix)
		if err != nil {
			return err
		}
		for _, id := range ids {
			there[id] = true
		}
	} else {
		var mu sync.Mutex
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(refreshReaders)
		for _, n := range packs {
			id := c.packID(n)
			g.Go(func() error {
				_, err := c.Blobs.Stat(ctx, id.key())
				if errors.Is(err, store.ErrNotFound) {
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				there[id] = err == nil
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range packs {
		if !there[c.index.packs[n].id] {
			c.index.lose(n)
		}
	}
	return nil
}
