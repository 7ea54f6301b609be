package site

import (
	"context"
	"errors"
	"time"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/audit"
)

// WriteAudit writes the audit records that a workflow handed over, and returns the seq of
// the newest.
func WriteAudit(ctx context.Context, s *Site, b *audit.Batch) (int64, error) {
	if b == nil || len(b.Lines) == 0 {
		return 0, nil
	}
	err := records.WriteAudit(ctx, s.Store, *b)
	if errors.Is(err, records.ErrAuditChanged) {
		s.Logger.Error("ALARM: audit records in the store are not what was written: they were written again, and `ctl audit verify` names them", "entity", b.Entity, "err", err)
		err = nil
	}
	if err != nil {
		return 0, err
	}
	return b.Last(), nil
}

// carryFor bounds how long an activity with other work waits for the store.
const carryFor = 10 * time.Second

// CarryAudit begins WriteAudit for an activity with other work, and returns at once. The
// function wrote waits for the end of the write. It returns 0 if the store did not take the
// records: then the workflow hands them over again.
func CarryAudit(ctx context.Context, s *Site, b *audit.Batch) (wrote func() int64) {
	if b == nil || len(b.Lines) == 0 {
		return func() int64 { return 0 }
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), carryFor)
	done := make(chan int64, 1)
	go func() {
		defer cancel()
		seq, err := WriteAudit(ctx, s, b)
		if err != nil {
			s.Logger.Warn("audit records wait", "entity", b.Entity, "err", err)
		}
		done <- seq
	}()
	return func() int64 { return <-done }
}
