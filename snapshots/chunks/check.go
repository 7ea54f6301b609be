package chunks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/internal/store"
)

// CheckOptions configure a check.
type CheckOptions struct {
	// ReadData compares every digest in every pack, not only the presence and size of
	// packs.
	ReadData bool
	// Progress is called often, from several goroutines. It may be nil.
	Progress Steps
}

// CheckReport is the result of a check.
type CheckReport struct {
	Packs    int   `json:"packs"`
	Chunks   int64 `json:"chunks"`   // needed by manifests
	Missing  int64 `json:"missing"`  // part of Chunks
	Rotten   int64 `json:"rotten"`   // part of Chunks
	Orphaned int   `json:"orphaned"` // packs of killed captures; prune deletes them
	// Problems describes bad packs and index blobs for people.
	Problems []string `json:"problems,omitempty"`

	bad map[Digest]error
}

// Bad returns ErrMissing or ErrRotten for a needed chunk that cannot be read, or nil.
func (r CheckReport) Bad(d Digest) error { return r.bad[d] }

const checkReaders = 2

// Check checks whether all chunks that live yields can be read. It condemns packs with
// rotten content, so that the next capture stores their chunks anew. Prune keeps these
// packs while other chunks in them are needed.
func (c *Store) Check(ctx context.Context, opts CheckOptions, live func(ctx context.Context, yield func(Digest) error) error) (_ CheckReport, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("check the store: %w", err)
		}
	}()
	k := &check{c: c, opts: opts, packs: map[uint32]error{}, chunks: map[slot]error{}, seen: map[uint32]bitset{}}
	k.report.bad = map[Digest]error{}
	if err := k.look(ctx); err != nil {
		return k.report, err
	}
	seen := 0
	err = live(ctx, func(d Digest) error {
		k.one(d)
		seen++
		opts.Progress.tell("finding what is needed", seen, 0)
		return nil
	})
	if err != nil {
		return k.report, err
	}
	if len(k.report.bad) > 0 {
		if err := k.again(ctx); err != nil {
			return k.report, err
		}
	}
	for _, err := range k.report.bad {
		if errors.Is(err, ErrRotten) {
			k.report.Rotten++
		} else {
			k.report.Missing++
		}
	}
	return k.report, nil
}

type check struct {
	c      *Store
	opts   CheckOptions
	report CheckReport
	seen   map[uint32]bitset

	mu     sync.Mutex // guards the fields below, and the report's problems
	packs  map[uint32]error
	chunks map[slot]error
}

func (k *check) problem(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.report.Problems) < 1000 {
		k.report.Problems = append(k.report.Problems, fmt.Sprintf(format, args...))
	}
}

func (k *check) look(ctx context.Context) error {
	k.opts.Progress.tell("listing packs", 0, 0)
	if err := k.c.refresh(ctx); err != nil {
		return err
	}
	listed, err := k.c.Blobs.List(ctx, PackPrefix)
	if err != nil {
		return err
	}
	sizes := map[packID]int64{}
	for _, info := range listed {
		if id, ok := idOf(info.Key, PackPrefix); ok {
			sizes[id] = info.Size
		}
	}
	k.report.Packs = len(sizes)
	k.c.mu.Lock()
	packs := append([]packInfo(nil), k.c.index.packs...)
	for blob, in := range k.c.index.blobs {
		if len(in) == 0 {
			k.problem("index %s cannot be read (prune makes it anew)", blob)
		}
	}
	k.c.mu.Unlock()
	var done atomic.Int64
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(checkReaders)
	for n, p := range packs {
		size, there := sizes[p.id]
		if p.gone {
			continue
		}
		delete(sizes, p.id)
		switch {
		case !there:
			k.spoil(uint32(n), p.id, fmt.Errorf("%w: the pack is not in the store", ErrMissing))
		case size < p.stored-p.stored/8-4096:
			// Encryption with another key changes the size slightly.
			k.spoil(uint32(n), p.id, fmt.Errorf("%w: it has %d bytes in place of %d", ErrRotten, size, p.stored))
		case k.opts.ReadData:
			g.Go(func() error {
				err := k.read(reading, uint32(n), p)
				k.opts.Progress.tell("reading packs", int(done.Add(1)), k.report.Packs)
				return err
			})
		}
	}
	k.report.Orphaned = len(sizes)
	if err := g.Wait(); err != nil {
		return err
	}
	return k.condemn(ctx, packs)
}

func (k *check) condemn(ctx context.Context, packs []packInfo) error {
	rotten := map[uint32]bool{}
	for n, err := range k.packs {
		rotten[n] = errors.Is(err, ErrRotten)
	}
	for at := range k.chunks {
		rotten[at.pack] = true
	}
	for n, is := range rotten {
		if !is {
			continue
		}
		id := packs[n].id
		if err := k.c.Blobs.Create(ctx, id.marker(), nil); err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
		k.c.mu.Lock()
		k.c.index.condemn([]packID{id})
		k.c.mu.Unlock()
	}
	return nil
}

func (k *check) spoil(n uint32, id packID, err error) {
	k.problem("pack %s: %v", id, err)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.packs[n] = fmt.Errorf("pack %s: %w", id, err)
}

// read compares a pack's chunks with their digests and the index.
func (k *check) read(ctx context.Context, n uint32, info packInfo) error {
	p, err := k.c.openPack(ctx, info.id)
	if spoiled(err) {
		k.spoil(n, info.id, err)
		return nil
	}
	if err != nil {
		return err
	}
	defer p.Close()
	at := 0
	var stored, buf []byte
	for i, b := range p.table.blocks {
		raw, err := p.block(i, &stored, &buf)
		if err != nil && !spoiled(err) {
			return err
		}
		for pos := at; pos < at+b.chunks; pos++ {
			c := p.table.chunks[pos]
			if err == nil && DigestOf(raw[p.offsets[pos]:][:c.size]) == c.digest && k.knows(c.digest, n, pos) {
				continue
			}
			k.mu.Lock()
			k.chunks[slot{n, uint16(pos)}] = fmt.Errorf("pack %s: %w", info.id, ErrRotten)
			k.mu.Unlock()
			k.problem("pack %s: chunk %d (%s) is rotten", info.id, pos, c.digest)
		}
		at += b.chunks
	}
	if at != info.chunks {
		k.spoil(n, info.id, fmt.Errorf("%w: it holds %d chunks and the index says %d", ErrRotten, at, info.chunks))
	}
	return nil
}

func (k *check) knows(d Digest, n uint32, pos int) (ok bool) {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	k.c.index.each(d, func(e indexEntry) bool {
		ok = e.pack == n && int(e.pos) == pos
		return !ok
	})
	return ok
}

// one records a chunk that has no good place as bad.
func (k *check) one(d Digest) {
	err := ErrMissing
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	k.c.index.each(d, func(e indexEntry) bool {
		place := k.packs[e.pack]
		if place == nil {
			place = k.chunks[slot{e.pack, e.pos}]
		}
		if err = place; err == nil && !k.seen[e.pack].has(e.pos) {
			k.seen[e.pack] = k.seen[e.pack].with(e.pos)
			k.report.Chunks++
		}
		return err != nil
	})
	if err == nil {
		return
	}
	if k.report.bad[d] == nil {
		k.report.Chunks++
	}
	k.report.bad[d] = err
}

// again rechecks bad chunks. Another worker may have stored them meanwhile, or an index
// blob was lost.
func (k *check) again(ctx context.Context) error {
	if err := k.c.refresh(ctx); err != nil {
		return err
	}
	if err := k.c.salvage(ctx); err != nil {
		return err
	}
	bad := k.report.bad
	k.report.bad = map[Digest]error{}
	k.report.Chunks -= int64(len(bad))
	for d := range bad {
		k.one(d)
	}
	return nil
}
