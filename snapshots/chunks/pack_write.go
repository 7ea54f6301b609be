package chunks

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"fairlead.dev/fairlead/internal/store"
)

// A packer has four concurrent stages: the caller gathers chunks into blocks; blocks are
// compressed; they are written in order; a complete pack is synced, read back and indexed.
// Each stage waits for the next one, so only a few blocks are in memory.
type packer struct {
	b     *Batch
	lists bool
	block *block
	queue chan *block // to the writer, in order; nil if none runs
	done  sync.WaitGroup
	bytes *semaphore.Weighted
	slots chan struct{} // packs being ended
}

type block struct {
	raw    []byte
	chunks []packChunk
	kind   byte
	buffer []byte
	packed []byte        // buffer, or raw if compression does not pay
	ready  chan struct{} // closed once compressed
}

// bytesInFlight bounds the raw bytes of unwritten blocks, which are also held compressed.
// packsEnding bounds the packs in the fourth stage, each with a block in memory.
const (
	bytesInFlight = 8 << 20
	packsEnding   = 2
)

// compressing bounds the compressions of the process.
var compressing = make(chan struct{}, max(2, runtime.GOMAXPROCS(0)))

var blocks = sync.Pool{New: func() any { return &block{} }}

func (b *block) weight() int64 { return int64(len(b.raw)) }

func (b *block) pack() {
	b.kind, b.packed = blockPlain, b.raw
	b.buffer = packEncoder.EncodeAll(b.raw, b.buffer[:0])
	if len(b.buffer) < len(b.raw)-len(b.raw)/32 {
		b.kind, b.packed = blockZstd, b.buffer
	}
}

func newPacker(b *Batch, lists bool) *packer {
	return &packer{b: b, lists: lists, bytes: semaphore.NewWeighted(bytesInFlight), slots: make(chan struct{}, packsEnding)}
}

func (p *packer) put(d Digest, data []byte) error {
	if p.block != nil && len(p.block.raw)+len(data) > p.b.c.opts.BlockBytes {
		p.send()
	}
	if p.block == nil {
		p.block = blocks.Get().(*block)
		p.block.raw, p.block.chunks, p.block.ready = p.block.raw[:0], p.block.chunks[:0], make(chan struct{})
	}
	p.block.raw = append(p.block.raw, data...)
	p.block.chunks = append(p.block.chunks, packChunk{digest: d, size: len(data)})
	if len(p.block.raw) >= p.b.c.opts.BlockBytes || len(p.block.chunks) >= maxPackChunks/4 {
		p.send()
	}
	return p.b.err()
}

func (p *packer) send() {
	if p.block == nil {
		return
	}
	if p.queue == nil {
		queue := make(chan *block, 64)
		p.queue = queue
		p.done.Go(func() { p.write(queue) })
	}
	blk := p.block
	p.block = nil
	// The writer takes every block, even if the batch has failed, so Acquire returns.
	_ = p.bytes.Acquire(context.Background(), blk.weight())
	p.queue <- blk
	compressing <- struct{}{}
	p.done.Go(func() {
		defer func() { <-compressing }()
		blk.pack()
		close(blk.ready)
	})
}

func (p *packer) flush() {
	p.send()
	if p.queue != nil {
		close(p.queue)
		p.queue = nil
	}
}

func (p *packer) wait() { p.done.Wait() }

func (p *packer) close() {
	p.block = nil
	p.flush()
	p.wait()
}

// write writes blocks into packs until queue is closed. An error ends the batch.
func (p *packer) write(queue <-chan *block) {
	var w *packWriter
	for blk := range queue {
		<-blk.ready
		if p.b.ctx.Err() == nil {
			if w != nil && w.full(blk) {
				p.end(w)
				w = nil
			}
			var err error
			if w == nil {
				w, err = p.b.c.newPack(p.b.ctx, p.lists)
			}
			if err == nil {
				err = w.add(blk)
			}
			if err != nil {
				p.b.cancel(err)
			}
		}
		p.bytes.Release(blk.weight())
		blocks.Put(blk)
	}
	switch {
	case w == nil:
	case p.b.ctx.Err() != nil:
		w.blob.Abort()
	default:
		p.end(w)
	}
}

func (p *packer) end(w *packWriter) {
	p.slots <- struct{}{}
	p.done.Go(func() {
		defer func() { <-p.slots }()
		if err := p.b.endPack(w); err != nil {
			p.b.cancel(err)
		}
	})
}

type packWriter struct {
	id    packID
	blob  BlobWriter
	table packTable
	size  int
	limit int
}

func (c *Store) newPack(ctx context.Context, lists bool) (*packWriter, error) {
	w := &packWriter{id: newPackID(), limit: c.opts.PackBytes, table: packTable{lists: lists}}
	var err error
	if w.blob, err = c.Blobs.OpenWriter(ctx, w.id.key()); err != nil {
		return nil, err
	}
	if _, err = w.blob.Write([]byte(packMagic)); err != nil {
		w.blob.Abort()
		return nil, err
	}
	return w, nil
}

func (w *packWriter) full(blk *block) bool {
	return w.size >= w.limit || len(w.table.chunks)+len(blk.chunks) > maxPackChunks
}

func (w *packWriter) add(blk *block) error {
	if _, err := w.blob.Write(blk.packed); err != nil {
		return err
	}
	w.table.blocks = append(w.table.blocks, packBlock{kind: blk.kind, stored: len(blk.packed), raw: len(blk.raw), chunks: len(blk.chunks)})
	w.table.chunks = append(w.table.chunks, blk.chunks...)
	w.size += len(blk.packed)
	return nil
}

// endPack indexes a pack after it is durable and read back.
func (b *Batch) endPack(w *packWriter) error {
	defer w.blob.Abort()
	if _, err := w.blob.Write(packTail(&w.table)); err != nil {
		return err
	}
	if err := w.blob.Close(); err != nil {
		return err
	}
	p := indexedPack{id: w.id, stored: w.blob.Stored(), created: time.Now(), table: w.table}
	if err := b.readBack(p); err != nil {
		err = fmt.Errorf("read back what was stored: %w", err)
		if errors.Is(err, store.ErrNotFound) {
			// This process was stopped for so long that a prune took the unindexed pack for
			// one of a dead process.
			err = fmt.Errorf("%w: %w", ErrCondemned, err)
		}
		return err
	}
	blob := newPackID()
	if err := b.c.putIndex(b.ctx, blob, appendIndex(nil, p)); err != nil {
		return err
	}
	b.indexed(blob, p)
	return nil
}

// readBack deletes a pack that contains a secret or is rotten.
func (b *Batch) readBack(p indexedPack) error {
	var mask Masker
	var see func([]byte)
	if b.mask != nil {
		mask = b.mask()
		see = func(chunk []byte) {
			for piece := range slices.Chunk(chunk, 128<<10) { // Next keeps its input in memory
				mask.Next(piece)
			}
			mask.Flush() // a secret is not searched across two chunks
		}
	}
	err := b.c.verify(b.ctx, p, see)
	if err == nil && mask != nil && mask.Count() > 0 {
		err = ErrSecret
	}
	if errors.Is(err, ErrSecret) || errors.Is(err, ErrRotten) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), verifyTime)
		defer cancel()
		if gone := b.c.Blobs.Delete(ctx, p.id.key()); gone != nil {
			err = errors.Join(err, gone)
		}
	}
	return err
}

func (c *Store) verify(ctx context.Context, p indexedPack, see func([]byte)) error {
	r, err := c.Blobs.NewReader(ctx, p.id.key())
	if err != nil {
		return err
	}
	defer r.Close()
	if err := verifyPack(r, &p.table, see); err != nil {
		return fmt.Errorf("pack %s: %w", p.id, err)
	}
	return nil
}

// putIndex retries once if the store was unreachable: only this process uses the key, and
// the content is the same.
func (c *Store) putIndex(ctx context.Context, blob packID, data []byte) error {
	err := c.Blobs.Put(ctx, indexPrefix+blob.String(), data)
	if errors.Is(err, store.ErrUnreachable) && ctx.Err() == nil {
		err = c.Blobs.Put(ctx, indexPrefix+blob.String(), data)
	}
	return err
}

func rotten(err error) error {
	if errors.Is(err, store.ErrTorn) || isEOF(err) {
		return fmt.Errorf("%w: %w", ErrRotten, err)
	}
	return err
}
