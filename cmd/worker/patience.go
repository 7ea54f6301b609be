package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sethvargo/go-retry"
)

const tryFor = 10 * time.Second

type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// final marks an error that a retry cannot fix.
func final(err error) error {
	if err == nil {
		return nil
	}
	return finalError{err}
}

// patiently repeats do until it succeeds, returns a final error, or ctx ends. It logs what
// it waits for.
func patiently(ctx context.Context, log *slog.Logger, what string, do func(context.Context) error) error {
	backoff := retry.WithCappedDuration(5*time.Second, retry.WithJitterPercent(20, retry.NewExponential(200*time.Millisecond)))
	began, told := time.Now(), false
	err := retry.Do(ctx, backoff, func(ctx context.Context) error {
		try, cancel := context.WithTimeout(ctx, tryFor)
		defer cancel()
		err := do(try)
		var f finalError
		switch {
		case err == nil:
			if told {
				log.Info("no longer waiting", "for", what, "after", time.Since(began).Round(time.Millisecond).String())
			}
			return nil
		case errors.As(err, &f):
			return f.error
		}
		if ctx.Err() == nil {
			told = true
			log.Warn("cannot reach it yet, trying again", "what", what, "err", err)
		}
		return retry.RetryableError(err)
	})
	return err
}
