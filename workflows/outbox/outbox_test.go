package outbox

import (
	"fmt"
	"strings"
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

func TestWhatWasLostStaysInTheLogLongest(t *testing.T) {
	var done []protocol.Notice
	add := func(id string, s protocol.NoticeState) { done = append(done, protocol.Notice{ID: id, State: s}) }
	add("f1", protocol.NoticeFailed)
	add("s1", protocol.NoticeSent)
	add("u1", protocol.NoticeUnknown)
	add("s2", protocol.NoticeSuppressed)
	var dropped []string
	for len(done) > 0 {
		i := leastNeeded(done)
		dropped = append(dropped, done[i].ID)
		done = without(done, i)
	}
	if got := strings.Join(dropped, " "); got != "s1 s2 f1 u1" {
		t.Errorf("they are dropped as %s", got)
	}
}
