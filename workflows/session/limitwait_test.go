package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

func TestSessionsOfOneSeedDoNotComeBackAtOnce(t *testing.T) {
	now := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	reset := now.Add(time.Hour)
	slots := map[time.Duration]bool{}
	for i := range 50 {
		s := assembled(&core{id: fmt.Sprintf("s-%d", i)})
		at := s.bounds.nextTry(0, now, reset, WaitAtMost)
		if again := s.bounds.nextTry(0, now, reset, WaitAtMost); !again.Equal(at) {
			t.Fatalf("%s and %s", at, again)
		}
		if at.Before(reset) || at.After(reset.Add(MostJitter)) {
			t.Errorf("session %d comes at %s", i, at)
		}
		slots[at.Sub(reset).Truncate(10*time.Second)] = true
	}
	if len(slots) < 10 {
		t.Errorf("50 sessions come in %d slots of 10 s", len(slots))
	}
	if at := assembled(&core{id: "s"}).bounds.nextTry(3, now, now.Add(-time.Second), WaitAtMost); at.After(now.Add(2*leastWait)) || at.Before(now.Add(leastWait)) {
		t.Errorf("a limit that is over is tried at %s", at)
	}
}

func TestAPolicySaysHowLongALimitIsWaitedOut(t *testing.T) {
	const day = "default: ask\nwait: {quota: true, at_most: 24h}\n"
	for name, c := range map[string]struct {
		opt  Options
		seed string
		want time.Duration
	}{
		"the option alone": {Options{OnLimit: protocol.LimitWait}, "", WaitAtMost},
		"longer":           {Options{Policy: day}, "", 24 * time.Hour},
		"the shortest":     {Options{Policy: day}, "default: ask\nwait: {quota: true, at_most: 2h}\n", 2 * time.Hour},
		"one says nothing": {Options{Policy: day}, "default: ask\nwait: {quota: true}\n", WaitAtMost},
		"option and time":  {Options{OnLimit: protocol.LimitWait, Policy: day}, "", 24 * time.Hour},
	} {
		s := assembled(&core{id: "s1", opt: c.opt, st: &State{policyState: policyState{SeedPolicy: c.seed}}})
		if got, waits := s.bounds.waitsOut(protocol.EndQuota); !waits || got != c.want {
			t.Errorf("%s: it waits (%v) for %s, want %s", name, waits, got, c.want)
		}
	}
}

// The tries last for as long as the session may wait.
func TestTriesDoNotRunOutBeforeTheTime(t *testing.T) {
	for _, atMost := range []time.Duration{WaitAtMost, 24 * time.Hour, 7 * 24 * time.Hour} {
		s, now := assembled(&core{id: "s1"}), time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
		l := limitWait{Since: now}
		for {
			l.Until = s.bounds.nextTry(l.Tries, now, time.Time{}, atMost)
			if why := l.tooLong(atMost); why != "" {
				if !strings.Contains(why, "longer than") || now.Sub(l.Since) < atMost*3/4 {
					t.Errorf("after %s of %s: %s", now.Sub(l.Since), atMost, why)
				}
				break
			}
			l.Tries++
			now = l.Until
		}
	}
}
