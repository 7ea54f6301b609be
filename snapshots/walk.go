package snapshots

import (
	"context"
	"errors"

	"golang.org/x/sync/semaphore"
)

// A treeSink takes the entries of a tree in their order. Of a file, what is in
// it follows: pieces and holes, as many as it is long, and then its end.
type treeSink interface {
	entry(e Entry) error
	piece(data []byte) error
	hole(n int64) error
	end() error
}

// walkAhead bounds what was read from the store and is not written yet, so
// that reading and writing go on beside each other.
const walkAhead = 24 << 20

// A step is one call of a sink.
type step struct {
	entry *Entry
	data  []byte
	hole  int64
	cost  int64
}

// walk gives a tree to a sink. Every piece was compared with its digest; an
// error that something is missing or damaged is ErrIncomplete.
func (c *Chunks) walk(ctx context.Context, t Tree, sink treeSink) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	steps := make(chan step, 256)
	room := semaphore.NewWeighted(walkAhead)
	send := func(s step) error {
		s.cost = int64(200 + len(s.data))
		if err := room.Acquire(ctx, s.cost); err != nil {
			return context.Cause(ctx)
		}
		select {
		case steps <- s:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	var readErr error
	go func() {
		defer close(steps)
		readErr = c.read(ctx, t, send)
	}()
	var err error
	inFile := false
	for s := range steps {
		if err == nil {
			err = takeStep(sink, s, &inFile)
		}
		if err != nil {
			cancel(err) // and drain
		}
		room.Release(s.cost)
	}
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

func (c *Chunks) read(ctx context.Context, t Tree, send func(step) error) error {
	lists, content := c.NewReader(ctx).Get, c.NewReader(ctx).Get
	err := t.each(lists, func(e Entry) error {
		if err := send(step{entry: &e}); err != nil || e.Kind != File {
			return err
		}
		return e.content(lists, content, func(data []byte, hole int64) error { return send(step{data: data, hole: hole}) })
	})
	if errors.Is(err, ErrMissing) || errors.Is(err, ErrRotten) || errors.Is(err, errEncoding) {
		return incomplete{err}
	}
	return err
}

// incomplete is an error that is ErrIncomplete, too.
type incomplete struct{ error }

func (e incomplete) Unwrap() error        { return e.error }
func (e incomplete) Is(target error) bool { return target == ErrIncomplete }
