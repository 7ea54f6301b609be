package activities

import (
	"context"
	"errors"
	"slices"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
)

// RecordNotes writes notes of the workflow to the transcript. It is used if a session
// ends without its host, so that no pump can write them.
func (s *Sessions) RecordNotes(ctx context.Context, in RecordNotesInput) (RecordNotesResult, error) {
	seq, err := s.recordNotes(ctx, in)
	return RecordNotesResult{Seq: seq}, failing{}.failure(ctx, "session "+in.Session+": write the transcript", err)
}

func (s *Sessions) recordNotes(ctx context.Context, in RecordNotesInput) (int64, error) {
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
	seq, err := s.record(ctx, in.Session, owner{last.Generation, last.Pump, 1}, in.Seq, in.Notes, nil)
	if err == nil {
		s.forgetHeard(ctx, in.Session, last.Generation)
	}
	return seq, err
}

// record writes notes as entries after seq and returns the newest number. When repeated, it
// finds the entries there.
func (s *site) record(ctx context.Context, session string, o owner, seq int64, notes []conversation.Note, hide *seeds.Redactor) (int64, error) {
	t := &transcript{store: s.Store, session: session, owner: o, now: s.Now, stored: seq}
	var entries []protocol.Entry
	for i, n := range notes {
		e := noteEntry(seq+int64(i)+1, n)
		hideIn(hide, &e)
		entries = append(entries, e)
		if err := t.add(ctx, e); err != nil {
			return seq, err
		}
	}
	if err := t.flush(ctx); err != nil {
		return seq, err
	}
	for _, e := range entries {
		s.publish(SessionTopic(session), LiveEntry, e.Seq, e)
	}
	return seq + int64(len(notes)), nil
}

// noteEntry returns the entry of a note. It is the same as the one that a pump would
// write.
func noteEntry(seq int64, n conversation.Note) protocol.Entry {
	return protocol.Entry{Seq: seq, ID: n.ID, At: n.At.UTC(), Turn: n.Turn, Type: n.Type, Text: n.Text, Data: n.Data}
}

// DeleteSeedBlobs removes a seed's generations from the store. Missing ones are no error.
func (s *Seeds) DeleteSeedBlobs(ctx context.Context, in DeleteSeedInput) error {
	err := s.deleteSeed(ctx, in)
	return failing{}.failure(ctx, "delete seed "+in.Name, err)
}

func (s *Seeds) deleteSeed(ctx context.Context, in DeleteSeedInput) error {
	if err := seeds.ValidName(in.Name); err != nil {
		return badInput("%v", err)
	}
	orphans, err := seeds.Orphans(ctx, s.Store, in.Name, in.Before)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	keys := append(slices.Clone(in.Blobs), orphans...)
	return errors.Join(seeds.Delete(ctx, s.Store, keys...), seeds.DeleteIntents(ctx, s.Store, in.Name))
}
