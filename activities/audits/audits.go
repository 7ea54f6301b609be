// Package audits writes audit records (internal/audit) to the store: those that workflows
// hand over, and those of commands that this worker refused.
//
// A refused update leaves nothing in a workflow's history, so its record is in a chain of
// the worker's. The worker answers when the record is in the store. If the store takes longer
// than a moment, the worker answers when the record is in a file of its machine, which survives
// a crash. Another worker of the machine, or the next one, hands it to the store.
package audits

import (
	"context"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/audit"
)

// Activities write records that no other activity carries.
type Activities struct{ site *site.Site }

// New makes the activities of a worker.
func New(s *site.Site) *Activities { return &Activities{site: s} }

// WriteAudit writes records of a workflow.
func (a *Activities) WriteAudit(ctx context.Context, in audit.Batch) (audit.Written, error) {
	seq, err := site.WriteAudit(ctx, a.site, &in)
	return audit.Written{Entity: in.Entity, Seq: seq}, kit.Failing{}.Failure(ctx, "write the audit record", err)
}
