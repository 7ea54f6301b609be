package lab

import (
	"context"
	"fmt"
	"slices"

	"fairlead.dev/fairlead/internal/protocol"
)

// Heard fails unless the model and the transcript have the messages of a session in their order,
// each once. Each message was a turn of its own.
func (l *Lab) Heard(ctx context.Context, id string, want []string) error {
	var v protocol.SessionView
	if err := l.JSON(ctx, &v, "session", "show", id); err != nil {
		return err
	}
	if v.Turn == nil || v.Turn.N != len(want) {
		return fmt.Errorf("session %s had %d messages, its turn is %+v", id, len(want), v.Turn)
	}
	if got := l.Model.UserMessages(v.ThreadID); !slices.Equal(got, want) {
		return fmt.Errorf("session %s: the model heard %q, and was told %q", id, got, want)
	}
	entries, err := Lines[protocol.Entry](ctx, l, "transcript", id)
	if err != nil {
		return err
	}
	var got []string
	seen := map[string]bool{}
	for _, e := range entries {
		if seen[e.ID] {
			return fmt.Errorf("the transcript of session %s has entry %s twice", id, e.ID)
		}
		seen[e.ID] = true
		if e.Type == protocol.EntryUser {
			got = append(got, e.Text)
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("the transcript of session %s has %q, and it was told %q", id, got, want)
	}
	return nil
}
