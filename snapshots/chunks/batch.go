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
	// Mask returns a Masker that searches the chunks read back from the store. It may be
	// nil.
	Mask func() Masker
}

// Added counts what a batch added to the store.
type Added struct {
	Packs  int   `json:"packs"`
	Chunks int64 `json:"chunks"`
	Bytes  int64 `json:"bytes"`  // uncompressed
	Stored int64 `json:"stored"` // compressed and encrypted
}

// A Batch holds the chunks of one capture. Its methods must be called by one goroutine. Put
// blocks while the store cannot keep up, so memory is bounded.
//
// Put and Has record the chunks that the capture relies on. A batch ends with Commit or
// Abort. A later prune deletes added chunks that no manifest names.
type Batch struct {
	c      *Store
	ctx    context.Context
	cancel context.CancelCauseFunc
	mask   func() Masker

	files, lists *packer
	ahead        chan error
	fresh        bool // the index is up to date
	begun        sync.WaitGroup
	dirty        bool // a chunk was put since the last Flush

	mu      sync.Mutex            // guards the fields below
	pending map[IndexKey]struct{} // put, not indexed yet
	relied  map[uint32]bitset     // positions of chunks by pack
	added   Added
}

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

var errEnded = errors.New("the batch has ended")

// NewBatch begins a batch, which ends with ctx at the latest. The caller must call Commit
// or Abort.
func (c *Store) NewBatch(ctx context.Context, opts BatchOptions) *Batch {
	ctx, cancel := context.WithCancelCause(ctx)
	b := &Batch{c: c, ctx: ctx, cancel: cancel, mask: opts.Mask,
		pending: map[IndexKey]struct{}{}, relied: map[uint32]bitset{}}
	b.files, b.lists = newPacker(b, false), newPacker(b, true)
	return b
}

// Put stores a chunk of at most MaxChunk bytes, unless the store has it. The caller may
// reuse data.
func (b *Batch) Put(data []byte) (Digest, error) { return b.put(b.files, data) }

// PutList is Put for chunks that list other chunks. They go into packs of their own, so
// that readers of lists need not read content.
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

// store puts a chunk even if the store has it.
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
// batch relies on it from now on. If not, the caller must put it.
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

// RefreshAhead begins to update the index in the background. Calling it is optional.
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

// Flush returns when all chunks that were put have been read back from the store, compared,
// searched for secrets, and indexed. After an error, the caller can only Abort; other
// batches find the packs that were indexed. Flush may be called more than once.
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

// Commit calls write, which writes the manifest. Before and after the call, during which
// the process may be stopped for hours, Commit makes sure that all chunks that the batch
// relies on are in the store and not condemned, and copies condemned ones. If a chunk is
// lost, the error is ErrCondemned, and the caller must delete the manifest. After another
// error, the caller must delete it if so much time has passed that a condemned pack may
// have been deleted.
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

// Abort ends a batch. After Commit it does nothing.
func (b *Batch) Abort() { b.end() }

func (b *Batch) end() {
	b.cancel(errEnded)
	b.begun.Wait()
	b.files.close()
	b.lists.close()
}

// maxRescues bounds the rounds of copying, in case prunes condemn packs again and again.
const maxRescues = 50

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

// doubtful returns the condemned or lost packs that the batch relies on.
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

// rescue finds other places for the chunks in these packs that the batch relies on, or
// copies them.
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

func tooLate(err error) error {
	if errors.Is(err, ErrMissing) || errors.Is(err, ErrRotten) {
		return fmt.Errorf("%w: %w", ErrCondemned, err)
	}
	return err
}

// verifyTime bounds the removal of a bad pack.
const verifyTime = time.Minute
