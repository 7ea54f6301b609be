package activities

import (
	"context"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// record writes notes as entries after seq and returns the newest number. When repeated, it
// finds the entries there.
func record(ctx context.Context, s *site, session string, o owner, seq int64, notes []conversation.Note, hide *seeds.Redactor) (int64, error) {
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
		publish(s, SessionTopic(session), LiveEntry, e.Seq, e)
	}
	return seq + int64(len(notes)), nil
}

// noteEntry returns the entry of a note. It is the same as the one that a pump would
// write.
func noteEntry(seq int64, n conversation.Note) protocol.Entry {
	return protocol.Entry{Seq: seq, ID: n.ID, At: n.At.UTC(), Turn: n.Turn, Type: n.Type, Text: n.Text, Data: n.Data}
}
