package store

import (
	"context"
	"errors"
	"io"
)

// How a request to a store's place ended, as Options.Asked is told.
const (
	AskedOK          = "ok"
	AskedMissing     = "missing" // there is no such blob
	AskedTaken       = "taken"   // the key is not free, or was changed meanwhile
	AskedUnreachable = "unreachable"
	AskedFailed      = "failed"
)

// Outcomes are all that Options.Asked is told.
var Outcomes = []string{AskedOK, AskedMissing, AskedTaken, AskedUnreachable, AskedFailed}

// counted tells how each request to a place ended. A request that its caller gave up is not told.
type counted struct {
	place
	asked func(outcome string)
}

func (c counted) tell(err error) {
	switch {
	case err == nil:
		c.asked(AskedOK)
	case errors.Is(err, ErrUnreachable):
		c.asked(AskedUnreachable)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errors.Is(err, ErrNotFound):
		c.asked(AskedMissing)
	case errors.Is(err, ErrExists), errors.Is(err, errMoved):
		c.asked(AskedTaken)
	default:
		c.asked(AskedFailed)
	}
}

func (c counted) write(ctx context.Context, key string, exclusive bool) (pending, error) {
	return c.begun(c.place.write(ctx, key, exclusive))
}

func (c counted) replace(ctx context.Context, key string, was version) (pending, error) {
	return c.begun(c.place.replace(ctx, key, was))
}

// begun tells of a write when it has ended.
func (c counted) begun(p pending, err error) (pending, error) {
	if err != nil {
		c.tell(err)
		return nil, err
	}
	return countedWrite{p, c}, nil
}

type countedWrite struct {
	pending
	c counted
}

func (w countedWrite) commit() error {
	err := w.pending.commit()
	w.c.tell(err)
	return err
}

func (c counted) read(ctx context.Context, key string) (io.ReadCloser, error) {
	r, err := c.place.read(ctx, key)
	c.tell(err)
	return r, err
}

func (c counted) readAt(ctx context.Context, key string) (parts, error) {
	r, err := c.place.readAt(ctx, key)
	c.tell(err)
	return r, err
}

func (c counted) readVersion(ctx context.Context, key string) (io.ReadCloser, version, error) {
	r, v, err := c.place.readVersion(ctx, key)
	c.tell(err)
	return r, v, err
}

func (c counted) stat(ctx context.Context, key string) (Info, error) {
	i, err := c.place.stat(ctx, key)
	if key == metaKey && errors.Is(err, ErrNotFound) {
		c.asked(AskedUnreachable) // the place has no store any more; see surely
	} else {
		c.tell(err)
	}
	return i, err
}

func (c counted) list(ctx context.Context, prefix string) ([]Info, error) {
	l, err := c.place.list(ctx, prefix)
	c.tell(err)
	return l, err
}

func (c counted) remove(ctx context.Context, key string) error {
	err := c.place.remove(ctx, key)
	c.tell(err)
	return err
}
