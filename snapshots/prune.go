package snapshots

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

// PruneOptions say what may go.
type PruneOptions struct {
	// Condemn is how old a pack is, at least, that is condemned: longer than a
	// capture takes. 24 hours where it is 0.
	Condemn time.Duration
	// Grace is how long a condemned pack stays: longer than the writing of a
	// manifest ever takes. 24 hours where it is 0.
	Grace time.Duration
	// RepackBelow is the share of a pack's bytes that is needed below which
	// they are copied into another one. 0.5 where it is 0; below 0: never.
	RepackBelow float64
	// RepackMax bounds the bytes copied in one run. 2 GiB where it is 0.
	RepackMax int64
	// Now is the time by the clock of the store; zero asks it.
	Now time.Time
	// DryRun changes nothing.
	DryRun bool
	// Progress hears how far it is: often, from one goroutine. It may be nil.
	Progress Steps
}

// Steps hears what is being done to a store, in a word or two, and how much of
// it is done; total is 0 where nobody knows it.
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

// PruneReport says what was done, or with DryRun what would be.
type PruneReport struct {
	Packs     int   `json:"packs"`     // deleted
	Freed     int64 `json:"freed"`     // bytes of those
	Condemned int   `json:"condemned"` // to be deleted by a later run
	Repacked  int   `json:"repacked"`  // copied, then condemned
	Adopted   int   `json:"adopted"`   // their index was lost and made anew
	Merged    int   `json:"merged"`    // index blobs that became few
	// Of what is left: chunks that a manifest needs, and their bytes.
	Chunks  int64 `json:"chunks"`
	Bytes   int64 `json:"bytes"`
	Stored  int64 `json:"stored"`  // bytes of all packs
	Missing int64 `json:"missing"` // chunks that are needed and that no pack holds
	Rotten  int   `json:"rotten"`  // packs that could not be copied
}

// Prune deletes packs that no manifest needs. It is safe while others take
// snapshots, delete them and prune, and can be killed anywhere and run again:
//
//   - A pack that nothing needs and that is older than Condemn is condemned by
//     a marker. From then on no batch relies on it: one that did before copies
//     what it needs when it commits. A pack is never pardoned; what turns out to
//     be needed in one that is condemned is copied too.
//   - A pack that was condemned longer than Grace ago, when live is asked, and
//     that nothing needs is deleted: out of the index first, then the pack, and
//     by a later run the marker. A manifest that was written after live was
//     asked belongs to a batch that made sure after the marker was there.
//
// live calls yield with every digest that a manifest of today needs, and
// nothing is changed where it fails.
func (c *Chunks) Prune(ctx context.Context, live func(ctx context.Context, yield func(Digest) error) error, opts PruneOptions) (_ PruneReport, err error) {
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

// A pruner is one run.
type pruner struct {
	c      *Chunks
	opts   PruneOptions
	now    time.Time
	report PruneReport

	packs   map[packID]store.Info // in the store
	markers map[packID]time.Time
	known   uint32 // packs of a higher number are newer than this run
	live    map[uint32]bitset
	needed  map[uint32]int64 // bytes
	missing map[Digest]bool
	adopted map[packID]bool
	copied  map[uint32]bool
	doomed  []packID        // to be deleted by this run
	drop    map[packID]bool // to be forgotten by the index: doomed, or not in the store
}

// look lists what is in the store. The markers come first: what live says
// later is newer than any of them.
func (p *pruner) look(ctx context.Context) error {
	p.opts.Progress.tell("listing packs", 0, 0)
	if err := p.clock(ctx); err != nil {
		return err
	}
	p.markers, p.packs = map[packID]time.Time{}, map[packID]store.Info{}
	markers, err := p.c.blobs.List(ctx, markerPrefix)
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
	// After the index: a pack is in the store before its index is.
	packs, err := p.c.blobs.List(ctx, packPrefix)
	for _, info := range packs {
		if id, ok := idOf(info.Key, packPrefix); ok {
			p.packs[id] = info
			p.report.Stored += info.Size
		}
	}
	return err
}

// clock asks the store for the time, since it is its times that are compared.
func (p *pruner) clock(ctx context.Context) error {
	if p.now = p.opts.Now; !p.now.IsZero() {
		return nil
	}
	if p.now = time.Now(); p.opts.DryRun {
		return nil
	}
	if err := p.c.blobs.Put(ctx, clockKey, nil); err != nil {
		return err
	}
	info, err := p.c.blobs.Stat(ctx, clockKey)
	p.now = info.ModTime
	return err
}

// old says whether something happened longer than d ago.
func (p *pruner) old(at time.Time, d time.Duration) bool { return p.now.Sub(at) > d }

// mark notes what is needed, each chunk in one place: where two packs hold it
// every pruner chooses the same.
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
	// They may have been stored after the index was read.
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

// present says whether a pack that the index knows is in the store.
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

// each calls fn for every pack that the index named when this run began.
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

// orphans are packs that no index names: of captures that were killed. While
// something is missing they stay, in case that a person can make use of them.
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

// adopt makes the index of packs anew that hold what is needed and that no
// index names.
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
			p.report.Rotten++ // and it stays, since it is needed
			continue
		case err != nil:
			return err
		}
		p.report.Adopted++
		p.adopted[info.id] = true // nothing more is done to it in this run
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

// addIndex writes an index blob and takes it into memory.
func (c *Chunks) addIndex(ctx context.Context, packs ...indexedPack) error {
	blob := newPackID()
	if err := c.putIndex(ctx, blob, appendIndex(nil, packs...)); err != nil {
		return err
	}
	c.mu.Lock()
	c.index.add(blob, packs)
	c.mu.Unlock()
	return nil
}

// condemn puts markers.
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
		if err := p.c.blobs.Create(ctx, id.marker(), nil); err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
		p.c.mu.Lock()
		p.c.index.condemn([]packID{id})
		p.c.mu.Unlock()
	}
	return nil
}

// reindex takes what goes out of the index, and merges it where there are many.
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

// delete removes the packs that the index names no more.
func (p *pruner) delete(ctx context.Context) error {
	for n, id := range p.doomed {
		p.opts.Progress.tell("deleting packs", n, len(p.doomed))
		if !p.opts.DryRun {
			if err := p.c.blobs.Delete(ctx, id.key()); err != nil {
				return err
			}
		}
		p.report.Packs++
		p.report.Freed += p.packs[id].Size
		p.report.Stored -= p.packs[id].Size
	}
	return nil
}

// forget removes the markers of packs that are long gone. They stay that long
// so that an index that was written much too late is known for what it is.
func (p *pruner) forget(ctx context.Context) error {
	for id, at := range p.markers {
		_, there := p.packs[id]
		if there || p.drop[id] || p.opts.DryRun || !p.old(at, 2*p.opts.Grace) {
			continue
		}
		if err := p.c.blobs.Delete(ctx, id.marker()); err != nil {
			return err
		}
	}
	return nil
}

// spoiled tells whether a pack itself is at fault, and not the way to it.
func spoiled(err error) bool {
	return errors.Is(err, ErrMissing) || errors.Is(err, ErrRotten)
}
