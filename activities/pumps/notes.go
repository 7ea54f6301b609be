package pumps

import (
	"context"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
)

// RecordNotes writes notes of the workflow to the transcript of a session that ends without
// a host.
func (s *Activities) RecordNotes(ctx context.Context, in RecordNotesInput) (RecordNotesResult, error) {
	wrote := site.CarryAudit(ctx, s.Site, in.Audit)
	seq, err := RecordNotes(ctx, s.Site, in)
	return RecordNotesResult{Seq: seq, Audited: wrote()}, kit.Failing{}.Failure(ctx, "session "+in.Session+": write the transcript", err)
}

// RecordNotes does the activity's work, and returns the number of the newest entry.
func RecordNotes(ctx context.Context, s *site.Site, in RecordNotesInput) (int64, error) {
	if err := kit.CheckID("session", in.Session); err != nil {
		return in.Seq, err
	}
	segs, err := records.ListSegments(ctx, s.Store, in.Session)
	if err != nil {
		return in.Seq, err
	}
	var last records.Owner
	for _, seg := range segs {
		if seg.Owner.Compare(last) > 0 {
			last = seg.Owner
		}
	}
	seq, err := site.Record(ctx, s, in.Session, records.Owner{Generation: last.Generation, Pump: last.Pump, Part: 1}, in.Seq, in.Notes, nil)
	if err == nil {
		ForgetHeard(ctx, s, in.Session, last.Generation)
	}
	return seq, err
}
