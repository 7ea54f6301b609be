package activities

import "context"

// RecordNotes writes notes of the workflow to the transcript. It is used if a session
// ends without its host, so that no pump can write them.
func (s *PumpActs) RecordNotes(ctx context.Context, in RecordNotesInput) (RecordNotesResult, error) {
	seq, err := recordNotes(ctx, s.site, in)
	return RecordNotesResult{Seq: seq}, failing{}.failure(ctx, "session "+in.Session+": write the transcript", err)
}

func recordNotes(ctx context.Context, s *site, in RecordNotesInput) (int64, error) {
	if err := checkID("session", in.Session); err != nil {
		return in.Seq, err
	}
	segs, err := listSegments(ctx, s.Store, in.Session)
	if err != nil {
		return in.Seq, err
	}
	var last owner
	for _, seg := range segs {
		if seg.Owner.compare(last) > 0 {
			last = seg.Owner
		}
	}
	seq, err := record(ctx, s, in.Session, owner{last.Generation, last.Pump, 1}, in.Seq, in.Notes, nil)
	if err == nil {
		forgetHeard(ctx, s, in.Session, last.Generation)
	}
	return seq, err
}
