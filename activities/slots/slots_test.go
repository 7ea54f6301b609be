package slots

import (
	"context"
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
		if u := s.Use(c); u.Used != 0 || u.Waiting != 0 {
			t.Errorf("%s: %+v", c, u)
		}
	}
	n := 0
	for ; s.short.TryAcquire(1); n++ {
	}
	if s.short.Release(int64(n)); n != s.limits[Short] || s.free != 0 || s.waiting != 0 {
		t.Errorf("%d of %d short slots are free, %d permits have none, %d wait", n, s.limits[Short], s.free, s.waiting)
	}
}

func TestAFullClassLeavesTheShortSlotsForPolls(t *testing.T) {
	s := small(t)
	var ends []func()
	for range 2 {
		s.polled(t)
		done := s.take(Pumps, false)
		if done == nil {
			t.Fatal("no slot for a pump")
		}
		ends = append(ends, done)
	}
	s.polled(t)
	if s.take(Pumps, false) != nil {
		t.Error("a third pump has a slot")
	}
	if s.polled(t); (*supplier)(s).TryReserveSlot(nil) != nil {
		t.Error("more polls than short slots")
	}
	end := s.take(Short, false)
	if end == nil {
		t.Fatal("a short activity waits for pumps")
	}
	end()
	s.reported()
	urgent := s.take(Pumps, true) // the one that was sent back
	if urgent == nil {
		t.Fatal("a decision waits for pumps")
	}
	if u := s.Use(Pumps); u != (Use{Limit: 2, Used: 3}) {
		t.Errorf("pumps: %+v", u)
	}
	s.polled(t)
	if s.take(Pumps, true) != nil {
		t.Error("the slots for decisions are not bounded")
	}
	s.reported()
	for _, end := range append(ends, urgent) {
		end()
		s.reported()
	}
	s.idle(t)
}

func TestWhoWaitsGetsTheNextSlotInOrder(t *testing.T) {
	s := small(t)
	s.polled(t)
	first := s.take(Bulk, false)
	type got struct {
		n    int
		done func()
	}
	in := make(chan got)
	for n := range 3 {
		s.polled(t)
		go func() { in <- got{n, s.wait(t.Context(), Bulk, nil, nil, nil, nil)} }()
		for s.Use(Bulk).Waiting != n+1 {
			time.Sleep(time.Millisecond) // until it is in line
		}
	}
	s.polled(t) // those that wait keep no poll from its slot
	if s.take(Bulk, false) != nil {
		t.Error("a newcomer overtakes those that wait")
	}
	s.reported()
	end := first
	for n := range 3 {
		end()
		s.reported()
		g := <-in
		if g.n != n || g.done == nil {
			t.Fatalf("after %d ends, %d got a slot: %v", n+1, g.n, g.done != nil)
		}
		end = g.done
	}
	end()
	s.reported()
	s.idle(t)
}

func TestAWaitEndsWhenItsAttemptDoes(t *testing.T) {
	s := small(t)
	s.polled(t)
	end := s.take(Commands, false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	closed, past := make(chan struct{}), make(chan time.Time, 1)
	close(closed)
	past <- time.Time{}
	for _, try := range []func() func(){
		func() func() { return s.wait(ctx, Commands, nil, nil, nil, nil) },
		func() func() { return s.wait(t.Context(), Commands, closed, nil, nil, nil) },
		func() func() { return s.wait(t.Context(), Commands, nil, past, nil, nil) },
	} {
		s.polled(t)
		if try() != nil {
			t.Error("two commands have one slot")
		}
		s.reported()
	}
	end()
	s.reported()
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
					done := s.take(c, rand.N(8) == 0)
					if done == nil {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(300))*time.Microsecond)
						done = s.wait(ctx, c, nil, nil, nil, nil)
						cancel()
					}
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
