package snapshots

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

// A Reader gives chunks back, each compared with its digest. Who asks for them
// in about the order in which they were put reads each pack once. It is for
// one goroutine.
type Reader struct {
	c     *Chunks
	ctx   context.Context
	fresh bool        // the index was brought up to date by this reader
	packs []*openPack // the last one used comes last
	size  int
	open  []openBlock // likewise
}

// What a reader keeps: packs as they are stored, and blocks unpacked.
const (
	readerPacks  = 40 << 20
	readerBlocks = 4
)

// An openPack is a pack in memory.
type openPack struct {
	number uint32
	data   []byte
	table  packTable
	places []chunkPlace // by position
	begins []int        // of blocks in data
}

type chunkPlace struct{ block, offset int }

type openBlock struct {
	pack  *openPack
	block int
	raw   []byte
}

// NewReader begins to read. ctx bounds all of it.
func (c *Chunks) NewReader(ctx context.Context) *Reader { return &Reader{c: c, ctx: ctx} }

// Get reads a chunk: ErrMissing, ErrRotten (both name the pack, where there is
// one), or the store's own error. What it returns stays as it is and is not to
// be changed.
func (r *Reader) Get(d Digest) ([]byte, error) {
	data, err := r.get(d)
	if err != nil && !r.fresh && (errors.Is(err, ErrMissing) || errors.Is(err, ErrRotten)) {
		// Others may have stored it, or moved it to another pack.
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

// read takes a chunk out of one pack.
func (r *Reader) read(d Digest, s slot) ([]byte, error) {
	p, err := r.pack(s.pack)
	if err != nil {
		return nil, err
	}
	if int(s.pos) >= len(p.places) || p.table.chunks[s.pos].digest != d {
		return nil, fmt.Errorf("pack %s: %w: it holds other chunks than the index says", r.c.packID(s.pack), ErrRotten)
	}
	place := p.places[s.pos]
	raw, err := r.block(p, place.block)
	if err == nil {
		raw = raw[place.offset:][:p.table.chunks[s.pos].size]
		if DigestOf(raw) != d {
			err = fmt.Errorf("%w: it has other bytes", ErrRotten)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", r.c.packID(s.pack), err)
	}
	return raw[:len(raw):len(raw)], nil
}

func (c *Chunks) packID(n uint32) packID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.index.packs[n].id
}

// sizeHint is about how large a pack is, 0 if nobody knows.
func (c *Chunks) sizeHint(id packID) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, ok := c.index.byID[id]; ok {
		return min(max(c.index.packs[n].stored, 0), store.MaxGet)
	}
	return 0
}

// pack has a pack in memory.
func (r *Reader) pack(n uint32) (*openPack, error) {
	if i := slices.IndexFunc(r.packs, func(p *openPack) bool { return p.number == n }); i >= 0 {
		p := r.packs[i]
		r.packs = append(slices.Delete(r.packs, i, i+1), p)
		return p, nil
	}
	id := r.c.packID(n)
	p, err := r.c.loadPack(r.ctx, id)
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", id, err)
	}
	p.number = n
	r.packs = append(r.packs, p)
	r.size += len(p.data)
	for len(r.packs) > 1 && r.size > readerPacks {
		r.size -= len(r.packs[0].data)
		r.packs = slices.Delete(r.packs, 0, 1)
	}
	return p, nil
}

// block has a block unpacked.
func (r *Reader) block(p *openPack, n int) ([]byte, error) {
	if i := slices.IndexFunc(r.open, func(b openBlock) bool { return b.pack == p && b.block == n }); i >= 0 {
		return r.open[i].raw, nil
	}
	b := p.table.blocks[n]
	// A buffer of its own: what Get returned before points into the others.
	raw, err := unpackRaw(b, p.data[p.begins[n]:][:b.stored], make([]byte, 0, b.raw))
	if err != nil {
		return nil, err
	}
	if len(r.open) >= readerBlocks {
		r.open = slices.Delete(r.open, 0, 1)
	}
	r.open = append(r.open, openBlock{p, n, raw})
	return raw, nil
}

// loadPack reads a pack whole: ErrMissing, ErrRotten or the store's error.
func (c *Chunks) loadPack(ctx context.Context, id packID) (*openPack, error) {
	p := &openPack{}
	err := func() error {
		blob, err := c.blobs.NewReader(ctx, id.key())
		if err != nil {
			return err
		}
		defer blob.Close()
		// A buffer that has to grow takes memory several times.
		buf := bytes.NewBuffer(make([]byte, 0, c.sizeHint(id)+bytes.MinRead))
		if _, err = buf.ReadFrom(io.LimitReader(blob, store.MaxGet)); err != nil {
			return err
		}
		p.data = buf.Bytes()
		p.table, err = readPackTail(p.data)
		return err
	}()
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	case errors.Is(err, errTable):
		return nil, fmt.Errorf("%w: %w", ErrRotten, err)
	case err != nil:
		return nil, rotten(err)
	}
	at := len(packMagic)
	chunks := p.table.chunks
	for n, b := range p.table.blocks {
		p.begins = append(p.begins, at)
		at += b.stored
		offset := 0
		for _, c := range chunks[:b.chunks] {
			p.places = append(p.places, chunkPlace{n, offset})
			offset += c.size
		}
		chunks = chunks[b.chunks:]
	}
	return p, nil
}

// digestsOf reads which chunks a pack holds, from itself.
func (c *Chunks) digestsOf(ctx context.Context, n uint32) ([]Digest, error) {
	p, err := c.loadPack(ctx, c.packID(n))
	if err != nil {
		return nil, err
	}
	digests := make([]Digest, len(p.table.chunks))
	for i, c := range p.table.chunks {
		digests[i] = c.digest
	}
	return digests, nil
}

// lookFor makes sure that packs are in the store, and marks those that are not.
func (c *Chunks) lookFor(ctx context.Context, packs []uint32) error {
	there := map[packID]bool{}
	if len(packs) > 100 {
		ids, err := c.ids(ctx, packPrefix)
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
				_, err := c.blobs.Stat(ctx, id.key())
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
