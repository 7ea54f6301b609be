package chunks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// BatchOptions configure a batch.
type BatchOptions struct {
	// Mask returns a Masker for known secrets. Data that is read back from the store is
	// searched with it, chunk by chunk. Mask is nil if no secrets are known.
	Mask func() Masker
}

// Added counts the data that a batch added to the store.
type Added struct {
	Packs  int   `json:"packs"`
	Chunks int64 `json:"chunks"`
	Bytes  int64 `json:"bytes"`  // of chunks, uncompressed
	Stored int64 `json:"stored"` // compressed and encrypted
}

// A Batch holds the chunks of one capture. Its methods must be called by one goroutine.
// Compressing, encrypting, writing and reading back run concurrently with bounded memory:
// Put blocks while they cannot keep up.
//
// Put and Has record the chunks that the capture relies on. Flush makes sure that all new
// chunks are correctly in the store. Commit makes sure that the store still has all of the
// chunks when the manifest is written. A batch ends with Commit or Abort. If no manifest
// names a chunk that the batch added, a later prune deletes the chunk.
type Batch struct {
	c      *Store
	ctx    context.Context // ends with the batch
	cancel context.CancelCauseFunc
	mask   func() Masker

	files, lists *packer
	ahead        chan error // result of refreshAhead
	fresh        bool       // whether the index was brought up to date
	begun        sync.WaitGroup
	dirty        bool // a chunk was put since the last Flush

	mu      sync.Mutex            // guards the fields below
	pending map[IndexKey]struct{} // put, but not in the index yet
	relied  map[uint32]bitset     // by pack: positions of chunks
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

// errEnded is the cause that cancels a batch's work.
var errEnded = errors.New("the batch has ended")

// NewBatch begins a batch, which ends at the latest with ctx. The caller must call Commit
// or Abort.
func (c *Store) NewBatch(ctx context.Context, opts BatchOptions) *Batch {
	ctx, cancel := context.WithCancelCause(ctx)
	b := &Batch{c: c, ctx: ctx, cancel: cancel, mask: opts.Mask,
		pending: map[IndexKey]struct{}{}, relied: map[uint32]bitset{}}
	b.files, b.lists = newPacker(b, false), newPacker(b, true)
	return b
}

// Put stores a chunk of content of at most MaxChunk bytes, unless the store has it. The
// caller may reuse data afterwards.
func (b *Batch) Put(data []byte) (Digest, error) { return b.put(b.files, data) }

// PutList is Put for chunks that list other chunks (the entries of a tree). Lists go into
// packs of their own, so that a reader of many lists does not read content as well.
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

// store puts a chunk that the store may already have.
func (b *Batch) store(p *packer, d Digest, data []byte) error {
	if err := b.err(); err != nil {
		return err
	}
	b.dirty = true
	b.mu.Lock()
	b.pending[KeyOf(d)] = struct{}{}
	b.mu.Unlock()
	return p.put(d, data)
}

// Has reports whether the store has a chunk or will get it from this batch. If so, the
// batch relies on the chunk from now on. If not, the caller must put it.
func (b *Batch) Has(d Digest) bool {
	if err := b.begin(); err != nil {
		return false // Put returns the error
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.pending[KeyOf(d)]; ok {
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

// begin brings the index up to date in its first call.
func (b *Batch) begin() error {
	if b.fresh || b.ctx.Err() != nil {
		return b.err()
	}
	if b.ahead == nil {
		b.RefreshAhead()
	}
	if err := <-b.ahead; err != nil {
		b.cancel(err)
		return err
	}
	b.fresh = true
	return nil
}

// RefreshAhead begins to bring the index up to date in the background, so that the caller
// can connect to a host and list a tree meanwhile. Calling it is optional.
func (b *Batch) RefreshAhead() {
	b.ahead = make(chan error, 1)
	b.begun.Go(func() { b.ahead <- b.c.refresh(b.ctx) })
}

func (b *Batch) err() error {
	if b.ctx.Err() == nil {
		return nil
	}
	return context.Cause(b.ctx)
}

// indexed adds a pack of this batch to the index in memory. The pack has been written and
// read back, and the store has its index blob.
func (b *Batch) indexed(blob packID, p indexedPack) {
	b.c.mu.Lock()
	b.c.index.add(blob, []indexedPack{p})
	n := b.c.index.byID[p.id]
	b.c.mu.Unlock()

	b.mu.Lock()
	defer b.mu.Unlock()
	for pos, c := range p.table.chunks {
		b.relied[n] = b.relied[n].with(uint16(pos))
		delete(b.pending, KeyOf(c.digest))
	}
	b.added.Packs++
	b.added.Chunks += int64(len(p.table.chunks))
	b.added.Bytes += p.table.raw()
	b.added.Stored += p.stored
}

// Flush returns when all chunks that were put are in the store, have been read back with
// the right digests and searched for secrets, and are indexed. After an error, the caller
// can only Abort. Another batch finds the packs that were indexed before the error. Flush
// may be called more than once.
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

// Commit makes sure that all chunks that the batch relies on are in the store and not
// condemned. Then it calls write, which writes the manifest. Then it checks the chunks
// again, because the process may have been stopped for hours in between. Each time, it
// copies chunks that were condemned meanwhile. If a chunk cannot be copied any more, the
// error is ErrCondemned, and the caller must delete the manifest. After another error, the
// caller must delete the manifest if enough time has passed for a condemned pack to be
// deleted.
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

// Abort ends a batch. It does nothing after Commit, so it can be deferred.
func (b *Batch) Abort() { b.end() }

func (b *Batch) end() {
	b.cancel(errEnded)
	b.begun.Wait()
	b.files.close()
	b.lists.close()
}

// maxRescues bounds the rounds in which a batch copies chunks out of condemned packs. Each
// round copies only chunks that were condemned since the last one. The limit ends a batch
// if prunes condemn all packs again and again.
const maxRescues = 50

// secure makes sure that the store has all chunks that the batch relies on, in packs that
// are not condemned.
func (b *Batch) secure() error {
	for range maxRescues {
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

// doubtful returns the packs that the batch relies on and that are condemned or gone.
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

// rescue looks for other places of the chunks in these packs that the batch relies on. It
// copies chunks that have no other place.
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

// tooLate wraps the error of a lost chunk in ErrCondemned.
func tooLate(err error) error {
	if errors.Is(err, ErrMissing) || errors.Is(err, ErrRotten) {
		return fmt.Errorf("%w: %w", ErrCondemned, err)
	}
	return err
}

// verifyTime bounds the removal of a bad pack. The removal does not end with the context of
// the batch.
const verifyTime = time.Minute
