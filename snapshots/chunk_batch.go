package snapshots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// BatchOptions say what a batch looks for.
type BatchOptions struct {
	// Mask makes what finds known secrets: what is read back from the store is
	// searched with it, chunk by chunk. nil where there are none.
	Mask func() Masker
}

// Added is what a batch brought into the store.
type Added struct {
	Packs  int   `json:"packs"`
	Chunks int64 `json:"chunks"`
	Bytes  int64 `json:"bytes"`  // of chunks, as they were given
	Stored int64 `json:"stored"` // compressed and encrypted
}

// A Batch is the chunks of one capture. Its methods are called by one
// goroutine; compressing, encrypting, writing and reading back go on beside
// it, with a bounded memory: Put waits when they cannot keep up.
//
// Put and Has note what the capture relies on. Flush says that all of it is in
// the store as it should be, Commit that it still is when the manifest is
// written. A batch ends with Commit or Abort; what it brought into the store
// and no manifest names is pruned some day.
type Batch struct {
	c      *Chunks
	ctx    context.Context // ends with the batch
	cancel context.CancelCauseFunc
	mask   func() Masker

	files, lists *packer
	ahead        chan error // what bringing the index up to date came to, where that was begun ahead
	fresh        bool       // the index was brought up to date
	begun        sync.WaitGroup
	dirty        bool // something was put since the last Flush

	mu      sync.Mutex            // guards what follows
	pending map[indexKey]struct{} // put, and not in the index yet
	relied  map[uint32]bitset     // by pack: positions
	added   Added
}

// A bitset is a set of positions in a pack.
type bitset []uint64

func (b bitset) with(pos uint16) bitset {
	if need := int(pos)/64 + 1; need > len(b) {
		b = append(b, make(bitset, need-len(b))...)
	}
	b[pos/64] |= 1 << (pos % 64)
	return b
}

func (b bitset) has(pos uint16) bool {
	return int(pos)/64 < len(b) && b[pos/64]&(1<<(pos%64)) != 0
}

// errEnded is why nothing of a batch runs any more.
var errEnded = errors.New("the batch has ended")

// NewBatch begins a capture. ctx bounds all of it. Commit or Abort must follow.
func (c *Chunks) NewBatch(ctx context.Context, opts BatchOptions) *Batch {
	ctx, cancel := context.WithCancelCause(ctx)
	b := &Batch{c: c, ctx: ctx, cancel: cancel, mask: opts.Mask,
		pending: map[indexKey]struct{}{}, relied: map[uint32]bitset{}}
	b.files, b.lists = newPacker(b, false), newPacker(b, true)
	return b
}

// Put stores a chunk of content, of at most MaxChunk bytes, unless the store
// has it. data may be used again after it returns.
func (b *Batch) Put(data []byte) (Digest, error) { return b.put(b.files, data) }

// PutList is Put for what lists other chunks (the entries of a tree). It goes
// into packs of its own, so that who reads the lists of many snapshots, or of
// a parent, reads no content with them.
func (b *Batch) PutList(data []byte) (Digest, error) { return b.put(b.lists, data) }

func (b *Batch) put(p *packer, data []byte) (Digest, error) {
	if len(data) > MaxChunk {
		return Digest{}, fmt.Errorf("a chunk of %d bytes is larger than %d", len(data), MaxChunk)
	}
	d := DigestOf(data)
	if b.Has(d) {
		return d, nil
	}
	return d, b.store(p, d, data)
}

// store puts a chunk that may be in the store already.
func (b *Batch) store(p *packer, d Digest, data []byte) error {
	if err := b.err(); err != nil {
		return err
	}
	b.dirty = true
	b.mu.Lock()
	b.pending[keyOf(d)] = struct{}{}
	b.mu.Unlock()
	return p.put(d, data)
}

// Has says whether the store has a chunk, or will have it with this batch. If
// so the batch relies on it from now on. After false the caller puts it.
func (b *Batch) Has(d Digest) bool {
	if err := b.begin(); err != nil {
		return false // Put says why
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.pending[keyOf(d)]; ok {
		return true
	}
	b.c.mu.Lock()
	at, ok := b.c.index.usable(d)
	b.c.mu.Unlock()
	if ok {
		b.relied[at.pack] = b.relied[at.pack].with(at.pos)
	}
	return ok
}

// begin brings the index up to date, once.
func (b *Batch) begin() error {
	if b.fresh || b.ctx.Err() != nil {
		return b.err()
	}
	if b.ahead == nil {
		b.refreshAhead()
	}
	if err := <-b.ahead; err != nil {
		b.cancel(err)
		return err
	}
	b.fresh = true
	return nil
}

// refreshAhead brings the index up to date beside what the caller does until it needs
// it: connecting to a host and having a tree listed. It need not be called.
func (b *Batch) refreshAhead() {
	b.ahead = make(chan error, 1)
	b.begun.Go(func() { b.ahead <- b.c.refresh(b.ctx) })
}

func (b *Batch) err() error {
	if b.ctx.Err() == nil {
		return nil
	}
	return context.Cause(b.ctx)
}

// indexed takes in a pack of this batch that is in the store, read back and
// indexed.
func (b *Batch) indexed(blob packID, p indexedPack) {
	b.c.mu.Lock()
	b.c.index.add(blob, []indexedPack{p})
	n := b.c.index.byID[p.id]
	b.c.mu.Unlock()

	b.mu.Lock()
	defer b.mu.Unlock()
	for pos, c := range p.table.chunks {
		b.relied[n] = b.relied[n].with(uint16(pos))
		delete(b.pending, keyOf(c.digest))
	}
	b.added.Packs++
	b.added.Chunks += int64(len(p.table.chunks))
	b.added.Bytes += p.table.raw()
	b.added.Stored += p.stored
}

// Flush returns once all that was put is in the store, was read back with the
// right digests, was searched for secrets and is in the index. After an error
// the batch is good for nothing but Abort; what it indexed so far another one
// finds. It may be called more than once.
func (b *Batch) Flush() (Added, error) {
	for _, p := range []*packer{b.files, b.lists} {
		p.flush()
	}
	for _, p := range []*packer{b.files, b.lists} {
		p.wait()
	}
	b.dirty = false
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.added, b.err()
}

// Commit makes sure that all that the batch relies on is in the store and not
// condemned, runs write (the manifest), and makes sure once more, so that a
// process that was stopped for hours in between is found out. What was
// condemned meanwhile is copied first; where that comes too late it is
// ErrCondemned, and what write wrote must be taken back. So it must after
// another error if it took long enough for a condemned pack to be deleted.
func (b *Batch) Commit(write func() error) error {
	if b.dirty {
		return errors.New("a batch is flushed before it is committed")
	}
	err := b.secure()
	if err == nil {
		err = write()
	}
	if err == nil {
		err = b.secure()
	}
	b.end()
	return err
}

// Abort ends a batch. After Commit it does nothing, so it can be deferred.
func (b *Batch) Abort() { b.end() }

func (b *Batch) end() {
	b.cancel(errEnded)
	b.begun.Wait()
	b.files.close()
	b.lists.close()
}

// secure makes sure of what the batch relies on.
func (b *Batch) secure() error {
	for range 5 {
		if err := b.c.refresh(b.ctx); err != nil {
			return err
		}
		b.fresh = true
		doubtful, err := b.doubtful()
		if err != nil || len(doubtful) == 0 {
			return err
		}
		if err := b.rescue(doubtful); err != nil {
			return err
		}
	}
	return ErrCondemned
}

// doubtful finds the packs that are relied on and condemned or gone.
func (b *Batch) doubtful() ([]uint32, error) {
	b.mu.Lock()
	relied := make([]uint32, 0, len(b.relied))
	for n := range b.relied {
		relied = append(relied, n)
	}
	b.mu.Unlock()
	slices.Sort(relied)
	if err := b.c.lookFor(b.ctx, relied); err != nil {
		return nil, err
	}
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	return slices.DeleteFunc(relied, func(n uint32) bool {
		return b.c.index.packs[n].reliable()
	}), nil
}

// rescue finds another place for what is relied on in packs that will not
// stay, and copies what has none.
func (b *Batch) rescue(packs []uint32) error {
	for _, n := range packs {
		digests, err := b.c.digestsOf(b.ctx, n)
		if err != nil {
			return tooLate(err)
		}
		b.mu.Lock()
		relied := b.relied[n]
		delete(b.relied, n)
		b.mu.Unlock()
		reader := b.c.NewReader(b.ctx)
		defer reader.Close()
		for pos, d := range digests {
			if !relied.has(uint16(pos)) || b.Has(d) {
				continue
			}
			data, err := reader.Get(d)
			if err != nil {
				return tooLate(err)
			}
			if _, err := b.Put(data); err != nil {
				return err
			}
		}
	}
	_, err := b.Flush()
	return err
}

// tooLate says that what was to be copied is not there any more.
func tooLate(err error) error {
	if errors.Is(err, ErrMissing) || errors.Is(err, ErrRotten) {
		return fmt.Errorf("%w: %w", ErrCondemned, err)
	}
	return err
}

// verifyTime bounds what is done for a batch that was ended: removing a pack
// with a secret in it.
const verifyTime = time.Minute
