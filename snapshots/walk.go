package snapshots

import (
	"context"
	"errors"

	"fairlead.dev/fairlead/snapshots/chunks"
)

// A treeSink takes the entries of a tree, in order. A file's entry is followed by its
// content, as pieces and holes, and then by end. A piece is valid until piece returns.
type treeSink interface {
	entry(e Entry) error
	piece(data []byte) error
	hole(n int64) error
	end() error
}

// Batches hold data that was read and not yet written, so that reading and writing overlap.
// Every walk has a few of its own, and takes more from a pool that all walks of a worker
// share. So a slow walk does not stop others, and many walks need little memory.
const (
	batchBytes  = 256 << 10
	batchSteps  = 128
	walkBatches = 6  // per walk
	walkMore    = 16 // per walk, from the pool

)

type step struct {
	entry *Entry
	data  []byte
	hole  int64
}

type stepBatch struct {
	steps []step
	data  []byte
}

// walk passes a tree to a sink. If data is missing or damaged, the error is ErrIncomplete.
func walk(ctx context.Context, c *chunks.Store, t Tree, sink treeSink) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &walker{c: c, ctx: ctx, full: make(chan *stepBatch, walkBatches+walkMore), used: make(chan *stepBatch, walkBatches+walkMore)}
	var readErr error
	go func() {
		defer close(w.full)
		readErr = w.read(t)
	}()
	var err error
	inFile := false
	for b := range w.full {
		for _, s := range b.steps {
			if err = takeStep(sink, s, &inFile); err != nil {
				break
			}
		}
		if err != nil {
			cancel(err)
			for range w.full { // until the reader has stopped
			}
			break
		}
		w.used <- b
	}
	w.giveBack()
	if err == nil {
		err = readErr
	}
	if err == nil && inFile {
		err = sink.end()
	}
	return err
}

func takeStep(sink treeSink, s step, inFile *bool) error {
	switch {
	case s.entry == nil && s.hole > 0:
		return sink.hole(s.hole)
	case s.entry == nil:
		return sink.piece(s.data)
	}
	if *inFile {
		if err := sink.end(); err != nil {
			return err
		}
	}
	*inFile = s.entry.Kind == File
	return sink.entry(*s.entry)
}

// A walker reads a tree ahead of its sink.
type walker struct {
	c     *chunks.Store
	ctx   context.Context //nolint:containedctx // of one walk
	full  chan *stepBatch
	used  chan *stepBatch // back from the sink
	batch *stepBatch
	made  int
	more  int // batches from the pool
}

func (w *walker) read(t Tree) error {
	lists, content := w.c.NewReader(w.ctx), w.c.NewReader(w.ctx)
	defer lists.Close()
	defer content.Close()
	err := t.each(lists.Get, func(e Entry) error {
		if err := w.add(step{entry: &e}); err != nil || e.Kind != File {
			return err
		}
		return e.content(lists.Get, content.View, w.piece)
	})
	if err == nil {
		err = w.send()
	}
	if errors.Is(err, chunks.ErrMissing) || errors.Is(err, chunks.ErrRotten) || errors.Is(err, errEncoding) {
		return incomplete{err}
	}
	return err
}

func (w *walker) piece(data []byte, hole int64) error {
	if hole > 0 {
		return w.add(step{hole: hole})
	}
	for len(data) > 0 {
		if err := w.begin(); err != nil {
			return err
		}
		at := len(w.batch.data)
		n := min(len(data), batchBytes-at)
		w.batch.data = append(w.batch.data, data[:n]...)
		data = data[n:]
		if err := w.add(step{data: w.batch.data[at : at+n]}); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) add(s step) error {
	if err := w.begin(); err != nil {
		return err
	}
	w.batch.steps = append(w.batch.steps, s)
	if len(w.batch.steps) == batchSteps || len(w.batch.data) == batchBytes {
		return w.send()
	}
	return nil
}

// begin gets a batch to fill: one that the sink has returned or a new one. Otherwise it
// waits.
func (w *walker) begin() error {
	if w.batch != nil {
		return nil
	}
	select {
	case w.batch = <-w.used:
	default:
		switch {
		case w.made < walkBatches:
		case w.more < walkMore && w.c.Ahead.TryAcquire(1):
			w.more++
		default:
			select {
			case w.batch = <-w.used:
			case <-w.ctx.Done():
				return context.Cause(w.ctx)
			}
		}
	}
	if w.batch == nil {
		w.batch = &stepBatch{steps: make([]step, 0, batchSteps), data: make([]byte, 0, batchBytes)}
		w.made++
	}
	w.batch.steps, w.batch.data = w.batch.steps[:0], w.batch.data[:0]
	return nil
}

func (w *walker) send() error {
	if w.batch == nil {
		return nil
	}
	b := w.batch
	w.batch = nil
	select {
	case w.full <- b:
		return nil
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
}

func (w *walker) giveBack() { w.c.Ahead.Release(int64(w.more)) }

// incomplete makes an error also match ErrIncomplete.
type incomplete struct{ error }

func (e incomplete) Unwrap() error        { return e.error }
func (e incomplete) Is(target error) bool { return target == ErrIncomplete }
