package console

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// The console adds events to a stream. It writes them between other events, never within one.
func TestAddedEventsComeBetweenOthers(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "text/event-stream")
	s := &eventStream{ResponseWriter: w, began: make(chan struct{})}
	write := func(text string) {
		t.Helper()
		if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatalf("wrote %d of %d bytes: %v", n, len(text), err)
		}
	}
	write("retry: 1000\n\n")
	<-s.began
	write("event: entry\ndata: on")
	s.between("event: changed\ndata: 1\n\n")
	s.between("event: changed\ndata: 2\n\n")
	write("e\n")
	write("\nevent: entry\n")
	write("data: two\n\n")
	s.between("event: changed\ndata: 3\n\n")
	want := "retry: 1000\n\nevent: entry\ndata: one\n\nevent: entry\ndata: two\n\nevent: changed\ndata: 2\n\nevent: changed\ndata: 3\n\n"
	if got := w.Body.String(); got != want || strings.Count(got, "changed") != 2 {
		t.Errorf("the stream is %q", got)
	}
}
