package chunks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/store"
)

// PruneOptions configure a prune.
type PruneOptions struct {
	// Condemn is the minimum age at which a pack is condemned. It must be longer than a
	// capture takes. 0 means 24 hours.
	Condemn time.Duration
	// Grace is how long a condemned pack is kept. It must be longer than the writing of a
	// manifest can take. 0 means 24 hours.
	Grace time.Duration
	// RepackBelow is the share of a pack's bytes below which needed chunks are copied into
	// another pack. 0 means 0.5, and a negative value never.
	RepackBelow float64
	// RepackMax bounds the bytes copied in one run. 0 means 2 GiB.
	RepackMax int64
	// Now is the time by the store's clock, which Prune reads if Now is zero.
	Now time.Time
	// DryRun changes nothing.
	DryRun bool
	// Progress is called often, from one goroutine. It may be nil.
	Progress Steps
}

// Steps reports progress. step is a few words, done and total count its parts; total is 0
// if unknown.
type Steps func(step string, done, total int64)

func (s Steps) tell(step string, done, total int) {
	if s != nil {
		s(step, int64(done), int64(total))
	}
}

const (
	pruneAge  = 24 * time.Hour
	repackMax = 2 << 30
)

// PruneReport lists what Prune changed or, with DryRun, would change.
type PruneReport struct {
	Packs     int   `json:"packs"` // deleted
	Freed     int64 `json:"freed"`
	Condemned int   `json:"condemned"` // a later run will delete them
	Repacked  int   `json:"repacked"`  // condemned after their needed chunks were copied
	Adopted   int   `json:"adopted"`   // indexed anew, because their index was lost
	Merged    int   `json:"merged"`    // index blobs merged into fewer
	// Needed by manifests.
	Chunks  int64 `json:"chunks"`
	Bytes   int64 `json:"bytes"`
	Stored  int64 `json:"stored"`  // bytes of all packs
	Missing int64 `json:"missing"` // needed, but in no pack
	Rotten  int   `json:"rotten"`  // packs that could not be copied
}

// Prune deletes packs that no manifest needs. Other processes may take and delete snapshots
// and prune at the same time. Prune can be killed at any moment and run again.
//
//   - A pack that no manifest needs and that is older than Condemn is condemned: Prune
//     writes a marker for it. From then on no batch begins to rely on the pack. A batch
//     that already does copies the chunks that it needs when it commits. A condemned pack
//     stays condemned. If a manifest turns out to need one of its chunks, that chunk is
//     copied too.
//   - A pack is deleted if it was condemned more than Grace before live is called, and no
//     manifest needs it. It is removed from the index, then from the store; a later run
//     removes the marker. If a manifest is written after live was called, its batch checked
//     its packs when the marker already existed.
//
// live calls yield with every digest that a manifest needs. If live fails, Prune changes
// nothing.
func (c *Store) Prune(ctx context.Context, live func(ctx context.Context, yield func(Digest) error) error, opts PruneOptions) (_ PruneReport, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("prune the store: %w", err)
		}
	}()
	p := &pruner{c: c, opts: opts}
	p.opts.Condemn, p.opts.Grace = cmp.Or(opts.Condemn, pruneAge), cmp.Or(opts.Grace, pruneAge)
	p.opts.RepackBelow, p.opts.RepackMax = cmp.Or(opts.RepackBelow, 0.5), cmp.Or(opts.RepackMax, repackMax)
	for _, step := range []func(context.Context) error{
		p.look,
		func(ctx context.Context) error { return p.mark(ctx, live) },
		p.adopt, p.copyOut, p.condemn, p.reindex, p.delete, p.forget,
	} {
		if err := step(ctx); err != nil {
			return p.report, err
		}
	}
	return p.report, nil
}

type pruner struct {
	c      *Store
	opts   PruneOptions
	now    time.Time
	report PruneReport

	packs   map[packID]store.Info
	markers map[packID]time.Time
	known   uint32 // later packs were added during this run
	live    map[uint32]bitset
	needed  map[uint32]int64 // bytes
	missing map[Digest]bool
	adopted map[packID]bool
	copied  map[uint32]bool
	doomed  []packID        // to delete in this run
	drop    map[packID]bool // to remove from the index: doomed, or not in the store
}

// look lists markers first, so that live, which runs later, sees every manifest that was
// written before a listed marker.
func (p *pruner) look(ctx context.Context) error {
	p.opts.Progress.tell("listing packs", 0, 0)
	if err := p.clock(ctx); err != nil {
		return err
	}
	p.markers, p.packs = map[packID]time.Time{}, map[packID]store.Info{}
	markers, err := p.c.Blobs.List(ctx, markerPrefix)
	if err != nil {
		return err
	}
	for _, m := range markers {
		if id, ok := idOf(m.Key, markerPrefix); ok {
			p.markers[id] = m.ModTime
		}
	}
	if err := p.c.refresh(ctx); err != nil {
		return err
	}
	p.c.mu.Lock()
	p.known = uint32(len(p.c.index.packs))
	p.c.mu.Unlock()
	// After the index, because a pack is stored before its index blob.
	packs, err := p.c.Blobs.List(ctx, PackPrefix)
	for _, info := range packs {
		if id, ok := idOf(info.Key, PackPrefix); ok {
			p.packs[id] = info
			p.report.Stored += info.Size
		}
	}
	return err
}

// clock asks the store, because its time is compared with that of blobs.
func (p *pruner) clock(ctx context.Context) error {
	if p.now = p.opts.Now; !p.now.IsZero() {
		return nil
	}
	if p.now = time.Now(); p.opts.DryRun {
		return nil
	}
	if err := p.c.Blobs.Put(ctx, clockKey, nil); err != nil {
		return err
	}
	info, err := p.c.Blobs.Stat(ctx, clockKey)
	p.now = info.ModTime
	return err
}

func (p *pruner) old(at time.Time, d time.Duration) bool { return p.now.Sub(at) > d }

// mark records one place of each needed chunk, which every pruner chooses alike.
func (p *pruner) mark(ctx context.Context, live func(context.Context, func(Digest) error) error) error {
	p.live, p.needed, p.missing = map[uint32]bitset{}, map[uint32]int64{}, map[Digest]bool{}
	seen := 0
	err := live(ctx, func(d Digest) error {
		p.markOne(d)
		seen++
		p.opts.Progress.tell("finding what is needed", seen, 0)
		return nil
	})
	if err != nil || len(p.missing) == 0 {
		return err
	}
	// Missing chunks may have been stored after the index was read.
	if err := p.c.refresh(ctx); err != nil {
		return err
	}
	p.markAgain()
	return nil
}

func (p *pruner) markAgain() {
	again := p.missing
	p.missing = map[Digest]bool{}
	for d := range again {
		p.markOne(d)
	}
}

func (p *pruner) markOne(d Digest) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	var best indexEntry
	found := false
	p.c.index.each(d, func(e indexEntry) bool {
		if !p.present(e.pack) {
			return true
		}
		if !found || p.better(e.pack, best.pack) {
			best, found = e, true
		}
		return true
	})
	switch {
	case !found:
		p.missing[d] = true
	case !p.live[best.pack].has(best.pos):
		p.live[best.pack] = p.live[best.pack].with(best.pos)
		p.needed[best.pack] += best.bytes()
		p.report.Chunks++
		p.report.Bytes += best.bytes()
	}
}

func (p *pruner) present(n uint32) bool {
	_, there := p.packs[p.c.index.packs[n].id]
	return there || n >= p.known
}

func (p *pruner) better(a, b uint32) bool {
	x, y := &p.c.index.packs[a], &p.c.index.packs[b]
	_, markedX := p.markers[x.id]
	_, markedY := p.markers[y.id]
	if markedX != markedY {
		return markedY
	}
	if x.found != y.found {
		return y.found
	}
	if c := x.created.Compare(y.created); c != 0 {
		return c < 0
	}
	return bytes.Compare(x.id[:], y.id[:]) < 0
}

// each calls fn for every pack that the index named at the beginning.
func (p *pruner) each(fn func(n uint32, info packInfo)) {
	for n := range p.known {
		p.c.mu.Lock()
		info := p.c.index.packs[n]
		p.c.mu.Unlock()
		if !info.gone && !p.adopted[info.id] {
			fn(n, info)
		}
	}
}

// orphans returns the packs of killed captures, which no index names. While a chunk is
// missing, it returns none, because a person might recover the chunk from one.
func (p *pruner) orphans() []packID {
	if len(p.missing) > 0 {
		return nil
	}
	return p.unindexed()
}

func (p *pruner) unindexed() (ids []packID) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	for id := range p.packs {
		if n, ok := p.c.index.byID[id]; (!ok || p.c.index.packs[n].gone) && !p.adopted[id] {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b packID) int { return bytes.Compare(a[:], b[:]) })
	return ids
}

// adopt indexes packs with needed chunks that no index names.
func (p *pruner) adopt(ctx context.Context) error {
	defer func() { p.report.Missing = int64(len(p.missing)) }()
	p.adopted = map[packID]bool{}
	if len(p.missing) > 0 {
		if err := p.c.salvage(ctx); err != nil {
			return err
		}
		p.markAgain()
	}
	for n := range p.live {
		p.c.mu.Lock()
		info := p.c.index.packs[n]
		p.c.mu.Unlock()
		if !info.found {
			continue
		}
		found, err := p.c.openPack(ctx, info.id)
		if err == nil {
			err = found.verify()
			found.Close()
		}
		switch {
		case spoiled(err):
			p.report.Rotten++ // the pack is needed and stays
			continue
		case err != nil:
			return err
		}
		p.report.Adopted++
		p.adopted[info.id] = true // this run does not change the pack any further
		if p.opts.DryRun {
			continue
		}
		pack := indexedPack{id: info.id, stored: info.stored, created: info.created, table: found.table}
		if err := p.c.addIndex(ctx, pack); err != nil {
			return err
		}
	}
	return nil
}

func (c *Store) addIndex(ctx context.Context, packs ...indexedPack) error {
	blob := newPackID()
	if err := c.putIndex(ctx, blob, appendIndex(nil, packs...)); err != nil {
		return err
	}
	c.mu.Lock()
	c.index.add(blob, packs)
	c.mu.Unlock()
	return nil
}

func (p *pruner) condemn(ctx context.Context) error {
	var ids []packID
	p.each(func(n uint32, info packInfo) {
		if p.copied[n] || len(p.live[n]) == 0 {
			ids = append(ids, info.id)
		}
	})
	for _, id := range append(ids, p.orphans()...) {
		_, marked := p.markers[id]
		info, there := p.packs[id]
		if marked || !there || !p.old(info.ModTime, p.opts.Condemn) {
			continue
		}
		p.report.Condemned++
		if p.opts.DryRun {
			continue
		}
		if err := p.c.Blobs.Create(ctx, id.marker(), nil); err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
		p.c.mu.Lock()
		p.c.index.condemn([]packID{id})
		p.c.mu.Unlock()
	}
	return nil
}

// reindex chooses packs to delete, removes them from the index, and merges index blobs.
func (p *pruner) reindex(ctx context.Context) error {
	p.opts.Progress.tell("putting the index in order", 0, 0)
	p.drop = map[packID]bool{}
	expired := func(id packID) bool {
		at, marked := p.markers[id]
		_, there := p.packs[id]
		return marked && there && p.old(at, p.opts.Grace)
	}
	p.each(func(n uint32, info packInfo) {
		_, there := p.packs[info.id]
		switch {
		case !there:
			p.drop[info.id] = true
		case len(p.live[n]) == 0 && expired(info.id):
			p.drop[info.id] = true
			p.doomed = append(p.doomed, info.id)
		}
	})
	for _, id := range p.orphans() {
		if expired(id) {
			p.doomed = append(p.doomed, id)
		}
	}
	if p.opts.DryRun {
		return nil
	}
	return p.merge(ctx)
}

func (p *pruner) delete(ctx context.Context) error {
	for n, id := range p.doomed {
		p.opts.Progress.tell("deleting packs", n, len(p.doomed))
		if !p.opts.DryRun {
			if err := p.c.Blobs.Delete(ctx, id.key()); err != nil {
				return err
			}
		}
		p.report.Packs++
		p.report.Freed += p.packs[id].Size
		p.report.Stored -= p.packs[id].Size
	}
	return nil
}

// forget removes markers of packs that were deleted long ago. Until then, a marker shows
// that an index blob which names the pack was written much too late.
func (p *pruner) forget(ctx context.Context) error {
	for id, at := range p.markers {
		_, there := p.packs[id]
		if there || p.drop[id] || p.opts.DryRun || !p.old(at, 2*p.opts.Grace) {
			continue
		}
		if err := p.c.Blobs.Delete(ctx, id.marker()); err != nil {
			return err
		}
	}
	return nil
}

// spoiled reports whether a pack is bad. A failed access is not enough.
func spoiled(err error) bool {
	return errors.Is(err, ErrMissing) || errors.Is(err, ErrRotten)
}
