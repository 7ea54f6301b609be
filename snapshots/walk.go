package snapshots

import (
	"context"
	"errors"
)

// A treeSink takes the entries of a tree in their order. Of a file, what is in
// it follows: pieces and holes, as many as it is long, and then its end. A
// piece is good until piece returns.
type treeSink interface {
	entry(e Entry) error
	piece(data []byte) error
	hole(n int64) error
	end() error
}

// What was read from the store and is not written yet lies in batches, so that
// reading and writing go on beside each other. Every walk has a few, and takes
// more from what all walks of a worker share: so one that is slow neither
// stops the others nor takes more memory than it has a use for, and many are
// not much more than one.
const (
	batchBytes  = 256 << 10
	batchSteps  = 128
	walkBatches = 6      // each walk has
	walkMore    = 16     // and may have besides,
	sharedMore  = 2 * 16 // of as many as this
)

// A step is one call of a sink.
type step struct {
	entry *Entry
	data  []byte // of the batch
	hole  int64
}

// A stepBatch is steps, and what is in files.
type stepBatch struct {
	steps []step
	data  []byte
}

// walk gives a tree to a sink. Every piece was compared with its digest; an
// error that something is missing or damaged is ErrIncomplete.
func (c *Chunks) walk(ctx context.Context, t Tree, sink treeSink) error {
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
			for range w.full { // until it has noticed
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
	c     *Chunks
	ctx   context.Context //nolint:containedctx // of one walk
	full  chan *stepBatch // to the sink, in order
	used  chan *stepBatch // and back
	batch *stepBatch      // being filled
	made  int
	more  int // of those that are shared
}

func (w *walker) read(t Tree) error {
	lists, content := w.c.NewReader(w.ctx), w.c.NewReader(w.ctx)
	defer lists.Close()
	defer content.Close()
	err := t.each(lists.Get, func(e Entry) error {
		if err := w.add(step{entry: &e}); err != nil || e.Kind != File {
			return err
		}
		return e.content(lists.Get, content.view, w.piece)
	})
	if err == nil {
		err = w.send()
	}
	if errors.Is(err, ErrMissing) || errors.Is(err, ErrRotten) || errors.Is(err, errEncoding) {
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

// begin has a batch to fill: one that came back, a new one, or the next that
// comes back.
func (w *walker) begin() error {
	if w.batch != nil {
		return nil
	}
	select {
	case w.batch = <-w.used:
	default:
		switch {
		case w.made < walkBatches:
		case w.more < walkMore && w.c.ahead.TryAcquire(1):
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

// giveBack gives back what is shared; nothing is read any more.
func (w *walker) giveBack() { w.c.ahead.Release(int64(w.more)) }

// incomplete is an error that is ErrIncomplete, too.
type incomplete struct{ error }

func (e incomplete) Unwrap() error        { return e.error }
func (e incomplete) Is(target error) bool { return target == ErrIncomplete }
