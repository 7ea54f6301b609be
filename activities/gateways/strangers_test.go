package gateways

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/audit"
)

func TestRequestsOfStrangersAreOnRecordOnceAMinuteWithTheirNumber(t *testing.T) {
	at := time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)
	s, out := strangersOf("web-1")
	ask := func(after time.Duration) (audit.Record, bool) {
		return s.refused("s1", "127.0.0.1:4711", at.Add(after))
	}
	r, due := ask(0)
	if !due || r.Object != "session/s1" || r.Verb != "model.ask" || r.Outcome != audit.Refused || r.Principal != "" ||
		!strings.Contains(r.Reason, ": 1 since 2026-11-03T12:00:00") || !strings.Contains(r.Reason, "host web-1") || !strings.Contains(r.Reason, "127.0.0.1:4711") {
		t.Errorf("the first: %v, %+v", due, r)
	}
	for n := range 500 {
		if r, due := ask(time.Duration(n) * 100 * time.Millisecond); due {
			t.Fatalf("one more record within the minute: %+v", r)
		}
	}
	if r, due := ask(time.Minute); !due || !strings.Contains(r.Reason, ": 501 since 2026-11-03T12:00:00") {
		t.Errorf("after the minute: %v, %+v", due, r)
	}
	if r, due := s.rest("s1", at.Add(time.Minute)); due {
		t.Errorf("nothing is left, and yet %+v", r)
	}
	ask(90 * time.Second)
	if r, due := s.rest("s1", at.Add(91*time.Second)); !due || !strings.Contains(r.Reason, ": 1 since 2026-11-03T12:01:30") {
		t.Errorf("at the end: %v, %+v", due, r)
	}
	if r, due := out.refused("s1", "127.0.0.1:4712", at); !due || r.Verb != "egress.ask" || r.Outcome != audit.Refused || !strings.Contains(r.Reason, "way out") || !strings.Contains(r.Reason, "127.0.0.1:4712") {
		t.Errorf("of the way out: %v, %+v", due, r)
	}
}
