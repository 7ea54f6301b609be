package site

import (
	"context"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// Record writes notes as entries after seq, repeatably, and returns the newest number.
func Record(ctx context.Context, s *Site, session string, o records.Owner, seq int64, notes []conversation.Note, hide *seeds.Redactor) (int64, error) {
	t := &records.Transcript{Store: s.Store, Session: session, Owner: o, Now: s.Now, Stored: seq}
	var entries []protocol.Entry
	for i, n := range notes {
		e := noteEntry(seq+int64(i)+1, n)
		kit.HideIn(hide, &e)
		entries = append(entries, e)
		if err := t.Add(ctx, e); err != nil {
			return seq, err
		}
	}
	if err := t.Flush(ctx); err != nil {
		return seq, err
	}
	for _, e := range entries {
		Publish(s, records.SessionTopic(session), records.LiveEntry, e.Seq, e)
	}
	return seq + int64(len(notes)), nil
}

// noteEntry returns what a pump would write.
func noteEntry(seq int64, n conversation.Note) protocol.Entry {
	return protocol.Entry{Seq: seq, ID: n.ID, At: n.At.UTC(), Turn: n.Turn, Type: n.Type, Text: n.Text, Data: n.Data}
}
