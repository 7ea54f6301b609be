package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Patience bounds how long Again waits. The machine may be busy.
const Patience = 4 * time.Minute

// A Wait says how to wait for something.
type Wait struct {
	Most time.Duration // in all
	Try  time.Duration // a single attempt
	Gap  time.Duration // between two attempts; longer, up to 1 s, after an attempt that took long
}

// Again retries do, which may fail while something is struck, until it
// succeeds or Patience is over.
func Again(ctx context.Context, what string, do func(context.Context) error) error {
	return Wait{Most: Patience, Try: 15 * time.Second, Gap: 100 * time.Millisecond}.For(ctx, what, do)
}

type hopeless struct{ error }

func (h hopeless) Unwrap() error { return h.error }

// Hopeless marks err as an error that retries do not mend.
func Hopeless(err error) error { return hopeless{err} }

// For retries do until it succeeds, returns an error that Hopeless marked, or the
// time is over.
func (w Wait) For(ctx context.Context, what string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, w.Most)
	defer cancel()
	for {
		began := time.Now()
		try, stop := context.WithTimeout(ctx, w.Try)
		err := do(try)
		stop()
		var end hopeless
		if err == nil || errors.As(err, &end) {
			return err
		}
		if Sleep(ctx, max(w.Gap, min(2*time.Since(began), time.Second))); ctx.Err() != nil {
			return fmt.Errorf("waited in vain for %s: %w", what, err)
		}
	}
}

// Sleep returns after d, or when ctx is done.
func Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
