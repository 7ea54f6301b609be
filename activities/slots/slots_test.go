package slots

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/worker"
)

func small(t *testing.T) *Slots {
	t.Helper()
	s, err := New(Limits{Pumps: 2, Watches: 1, Bulk: 1, Commands: 1, Short: 2})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// polled is an activity that has come by a poll.
func (s *Slots) polled(t *testing.T) *worker.SlotPermit {
	t.Helper()
	p := (*supplier)(s).TryReserveSlot(nil)
	if p == nil {
		t.Fatal("the worker does not poll")
	}
	return p
}

func (s *Slots) reported() { (*supplier)(s).ReleaseSlot(nil) }

// idle fails unless all slots are free.
func (s *Slots) idle(t *testing.T) {
	t.Helper()
	for _, c := range Classes() {
		if u := s.Use(c); u.Used != 0 {
			t.Errorf("%s: %+v", c, u)
		}
	}
	n := 0
	for ; s.short.TryAcquire(1); n++ {
	}
	if s.short.Release(int64(n)); n != s.limits[Short] || s.free != 0 {
		t.Errorf("%d of %d short slots are free, %d permits have none", n, s.limits[Short], s.free)
	}
}

func TestAFullClassLeavesTheShortSlotsForPolls(t *testing.T) {
	s := small(t)
	var ends []func()
	for range 2 {
		s.polled(t)
		done := s.take(Pumps, false, true)
		if done == nil {
			t.Fatal("no slot for a pump")
		}
		ends = append(ends, done)
	}
	s.polled(t)
	if s.take(Pumps, false, true) != nil {
		t.Error("a third pump has a slot")
	}
	if s.polled(t); (*supplier)(s).TryReserveSlot(nil) != nil {
		t.Error("more polls than short slots")
	}
	end := s.take(Short, false, false)
	if end == nil {
		t.Fatal("a short activity waits for pumps")
	}
	end()
	s.reported()
	urgent := s.take(Pumps, true, true) // the one that was sent back
	if urgent == nil {
		t.Fatal("a decision waits for pumps")
	}
	if u := s.Use(Pumps); u != (Use{Limit: 2, Used: 3}) {
		t.Errorf("pumps: %+v", u)
	}
	s.polled(t)
	if s.take(Pumps, true, true) != nil {
		t.Error("the slots for decisions are not bounded")
	}
	s.reported()
	for _, end := range append(ends, urgent) {
		end()
		s.reported()
	}
	s.idle(t)
}

// Polls that bring nothing, and short activities, come and go while long ones run. They have
// the short slots all the time.
func TestLongActivitiesTakeNoShortSlotsHoweverManyPollsThereAre(t *testing.T) {
	s := small(t)
	var ends []func()
	for _, c := range []Class{Pumps, Pumps, Watches, Bulk, Commands} {
		s.polled(t)
		ends = append(ends, s.take(c, false, true))
	}
	for range 20 {
		s.polled(t)
		s.polled(t)
		s.take(Short, false, false)()
		s.reported()
		s.reported()
	}
	for _, end := range ends {
		s.polled(t)
		s.polled(t)
		s.reported()
		s.reported()
		end()
		s.reported()
	}
	s.idle(t)
}

// What may not be sent back keeps its short slot, until none is left for polls.
func TestWhatMayNotBeSentBackKeepsItsShortSlot(t *testing.T) {
	s := small(t)
	var ends []func()
	for range 3 {
		s.polled(t)
		ends = append(ends, s.take(Bulk, false, false))
	}
	if bulk, short := s.Use(Bulk), s.Use(Short); bulk != (Use{Limit: 1, Used: 1}) || short != (Use{Limit: 2, Used: 2}) {
		t.Errorf("bulk: %+v, short: %+v", bulk, short)
	}
	if (*supplier)(s).TryReserveSlot(nil) != nil {
		t.Error("the worker polls without a slot for what comes")
	}
	for _, end := range ends {
		end()
		s.reported()
	}
	s.idle(t)
}

// However activities come and go, no slot is lost and none is made.
func TestNoSlotIsLost(t *testing.T) {
	s := small(t)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 200 {
				if _, err := (*supplier)(s).ReserveSlot(t.Context(), nil); err != nil {
					t.Error(err)
					return
				}
				if c := Classes()[rand.N(6)%5]; rand.N(4) > 0 {
					done := s.take(c, rand.N(8) == 0, rand.N(2) == 0)
					if u := s.Use(c); u.Used > s.limits.most(c) {
						t.Errorf("%s: %+v", c, u)
					}
					if done != nil {
						done()
					}
				}
				s.reported()
			}
		})
	}
	all.Wait()
	s.idle(t)
}

// However many activities find no slot, a worker sends few back in a second.
func TestTheRateOfActivitiesThatAreSentBackIsBounded(t *testing.T) {
	s := small(t)
	now := time.Unix(1e9, 0)
	s.now = func() time.Time { return now }
	if d := s.pause(Pumps); d < leastPause || d > 2*leastPause {
		t.Errorf("the first waits for %s", d)
	}
	var all []time.Duration
	for range 200 {
		all = append(all, s.pause(Pumps))
	}
	if last := slices.Max(all); last < 200*sentBackEach || last > longestPause*3/2 {
		t.Errorf("the last of 200 waits for %s", last)
	}
	for range 10_000 {
		if d := s.pause(Pumps); d > longestPause*3/2 {
			t.Fatalf("one waits for %s", d)
		}
	}
	if now = now.Add(time.Minute); s.pause(Watches) > 2*leastPause {
		t.Error("a crowd of a minute ago counts")
	}
	if u := s.Use(Pumps); u.SentBack != 10_201 {
		t.Errorf("pumps: %+v", u)
	}
}

func TestEachClassNeedsASlot(t *testing.T) {
	for _, c := range Classes() {
		l := Limits{Pumps: 1, Watches: 1, Bulk: 1, Commands: 1, Short: 1}
		l[c] = 0
		if _, err := New(l); err == nil {
			t.Errorf("a worker without slots for %s", c)
		}
	}
}
