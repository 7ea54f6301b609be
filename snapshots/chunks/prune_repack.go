package chunks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"fairlead.dev/fairlead/internal/store"
)

// manySmall is the least number of small packs or index blobs to merge.
const manySmall = 16

// copyOut copies needed chunks out of condemned packs, packs with few needed chunks and, if
// there are many, small packs. The copies are indexed before a pack is condemned.
func (p *pruner) copyOut(ctx context.Context) error {
	p.copied = map[uint32]bool{}
	if p.opts.RepackBelow < 0 {
		p.opts.RepackMax = 0 // copy out of condemned packs only
	}
	var must, may []uint32
	small := map[bool]int{}
	isSmall := func(info packInfo) bool { return info.stored < int64(p.c.opts.PackBytes)/4 }
	p.each(func(n uint32, info packInfo) {
		pack, there := p.packs[info.id]
		_, marked := p.markers[info.id]
		switch {
		case !there || len(p.live[n]) == 0:
		case marked:
			must = append(must, n)
		case p.old(pack.ModTime, p.opts.Condemn):
			may = append(may, n)
			if isSmall(info) {
				small[info.lists]++
			}
		}
	})
	batch := p.c.NewBatch(ctx, BatchOptions{})
	defer batch.Abort()
	for _, n := range must {
		if err := p.copyPack(ctx, batch, n); err != nil {
			return err
		}
	}
	for _, n := range may {
		p.c.mu.Lock()
		info := p.c.index.packs[n]
		p.c.mu.Unlock()
		worth := float64(p.needed[n]) < p.opts.RepackBelow*float64(info.raw) || isSmall(info) && small[info.lists] >= manySmall
		if !worth || p.needed[n] > p.opts.RepackMax {
			continue
		}
		p.opts.RepackMax -= p.needed[n]
		if err := p.copyPack(ctx, batch, n); err != nil {
			return err
		}
	}
	_, err := batch.Flush()
	return err
}

// copyPack leaves a pack that cannot be read.
func (p *pruner) copyPack(ctx context.Context, batch *Batch, n uint32) error {
	p.opts.Progress.tell("copying packs", len(p.copied), 0)
	if p.opts.DryRun {
		p.report.Repacked++
		p.copied[n] = true
		return nil
	}
	pack, err := p.c.openPack(ctx, p.c.packID(n))
	if err == nil {
		err = p.copyChunks(batch, n, pack)
		pack.Close()
	}
	switch {
	case errors.Is(err, ErrMissing) || errors.Is(err, ErrRotten):
		p.c.log.Error("pack with chunks that are needed cannot be read", "pack", p.c.packID(n).String(), "error", err)
		p.report.Rotten++
		return nil
	case err != nil:
		return err
	}
	p.report.Repacked++
	p.copied[n] = true
	return nil
}

// copyChunks copies every good chunk, and returns an error if a needed one is bad.
func (p *pruner) copyChunks(batch *Batch, n uint32, pack *openPack) (rotten error) {
	to := batch.files
	if pack.table.lists {
		to = batch.lists
	}
	r := Reader{}
	for pos, c := range pack.table.chunks {
		if !p.live[n].has(uint16(pos)) {
			continue
		}
		block, from, end := pack.place(pos)
		raw, err := r.block(pack, block)
		if err != nil && !spoiled(err) {
			return err
		}
		if err != nil { // the other blocks may be good
			rotten = err
			continue
		}
		raw = raw[from:end]
		if DigestOf(raw) != c.digest {
			rotten = fmt.Errorf("chunk %s: %w", c.digest, ErrRotten)
			continue
		}
		if err := batch.store(to, c.digest, raw); err != nil {
			return err
		}
	}
	return rotten
}

// mergeBytes is the size of tables at which a merged index blob ends.
const mergeBytes = 4 << 20

// merge rewrites index blobs without the dropped packs, and merges small ones. A blob is
// deleted only after this run has written its content to another one, so several runs at a
// time lose nothing.
func (p *pruner) merge(ctx context.Context) error {
	var from, small, torn []packID
	p.c.mu.Lock()
	for blob, packs := range p.c.index.blobs {
		chunks := 0
		for _, n := range packs {
			chunks += p.c.index.packs[n].chunks
		}
		switch {
		case len(packs) == 0:
			torn = append(torn, blob)
		case slices.ContainsFunc(packs, func(n uint32) bool { return p.drop[p.c.index.packs[n].id] }):
			from = append(from, blob)
		case chunks*len(indexEntry{}.key)*2 < mergeBytes/4:
			small = append(small, blob)
		}
	}
	p.c.mu.Unlock()
	if len(small) >= manySmall {
		from = append(from, small...)
		p.report.Merged = len(small)
	}
	m := merger{p: p, seen: map[packID]bool{}}
	for _, blob := range from {
		if err := m.take(ctx, blob); err != nil {
			return err
		}
	}
	if err := m.flush(ctx); err != nil || len(p.missing) > 0 {
		return err
	}
	m.blobs = torn // they cannot be read
	return m.flush(ctx)
}

type merger struct {
	p     *pruner
	seen  map[packID]bool // written by this run
	blobs []packID        // read but not rewritten yet
	packs []indexedPack
	size  int
}

func (m *merger) take(ctx context.Context, blob packID) error {
	data, err := m.p.c.Blobs.Get(ctx, indexPrefix+blob.String())
	if errors.Is(err, store.ErrNotFound) {
		return nil // another pruner has merged the blob
	}
	if err != nil {
		return err
	}
	packs, err := readIndex(data)
	if err != nil {
		return err
	}
	m.blobs = append(m.blobs, blob)
	for _, p := range packs {
		if !m.p.drop[p.id] && !m.seen[p.id] {
			m.seen[p.id] = true
			m.packs = append(m.packs, p)
		}
	}
	if m.size += len(data); m.size >= mergeBytes {
		return m.flush(ctx)
	}
	return nil
}

func (m *merger) flush(ctx context.Context) error {
	if len(m.packs) > 0 {
		if err := m.p.c.addIndex(ctx, m.packs...); err != nil {
			return err
		}
	}
	for _, blob := range m.blobs {
		if err := m.p.c.Blobs.Delete(ctx, indexPrefix+blob.String()); err != nil {
			return err
		}
	}
	m.p.c.mu.Lock()
	m.p.c.index.drop(m.blobs)
	m.p.c.mu.Unlock()
	m.blobs, m.packs, m.size = nil, nil, 0
	return nil
}
