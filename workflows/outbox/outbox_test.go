package outbox

import (
	"fmt"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/notices"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestWhatWasSeenIsBoundedAndTheCursorMovesOn(t *testing.T) {
	begun := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	o := &outbox{st: &State{Cursor: begun, Seen: map[string]time.Time{}}}
	for i := range maxSeen + 10 {
		o.st.Seen[fmt.Sprint("e", i)] = begun.Add(time.Duration(i) * time.Second)
	}
	o.forget()
	if last := begun.Add(9 * time.Second); len(o.st.Seen) != maxSeen || !o.st.Cursor.Equal(last.Add(notices.Overlap)) || o.st.Problem == "" {
		t.Errorf("%d are kept, the cursor is %s, the problem %q", len(o.st.Seen), o.st.Cursor, o.st.Problem)
	}
}

func TestATestIsRefusedWhileTooManyNoticesWait(t *testing.T) {
	o := &outbox{st: &State{Messages: []*Message{{Notices: make([]protocol.Notice, maxWaiting-1)}}}}
	in := protocol.TestNotify{ID: "t1", To: "ann"}
	if err := o.checkTest(in); err != nil {
		t.Error(err)
	}
	o.st.Messages = append(o.st.Messages, &Message{Notices: make([]protocol.Notice, 1)})
	if o.checkTest(in) == nil {
		t.Error("the test is accepted")
	}
}
