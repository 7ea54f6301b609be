package audits

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/store"
)

const (
	// soon is how long workflow code waits for the store.
	soon = time.Second
	// pause is how long the store is not asked again after it was too slow, so that many commands
	// in one workflow task do not wait for it one by one.
	pause = 15 * time.Second
)

// Soon returns a function that writes records of a workflow and reports whether the store has
// them. It waits for the store no longer than a second.
func Soon(st *store.Store, log *slog.Logger) func(audit.Batch) bool {
	var mu sync.Mutex
	var again time.Time
	return func(b audit.Batch) bool {
		mu.Lock()
		waits := time.Now().Before(again)
		mu.Unlock()
		if waits {
			return false
		}
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		done := make(chan error, 1) // a store may not heed its context
		go func() { done <- records.WriteAudit(ctx, st, b) }()
		var err error
		select {
		case err = <-done:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err == nil || errors.Is(err, records.ErrAuditChanged) {
			return true
		}
		log.Warn("audit records wait", "entity", b.Entity, "err", err)
		mu.Lock()
		again = time.Now().Add(pause)
		mu.Unlock()
		return false
	}
}
