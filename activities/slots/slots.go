package slots

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"
	"golang.org/x/sync/semaphore"
)

const (
	// sentBackEach and leastPause bound the rate at which a worker sends activities of a class
	// back: each costs Temporal an attempt.
	sentBackEach = 50 * time.Millisecond
	leastPause   = time.Second
	longestPause = 30 * time.Second

	// slotsOfOthers is for tasks of workflows, and local activities. It is the SDK's default.
	slotsOfOthers = 1000
)

// Slots are those of one worker.
type Slots struct {
	limits Limits
	now    func() time.Time
	// short are the slots of short activities, of polls, and of activities whose type is not
	// known yet.
	short *semaphore.Weighted

	mu   sync.Mutex
	used map[Class]int
	// free is how many permits of the SDK have no short slot any more and are about to be
	// released: their activities have ended, and gave it back when they began. The SDK does not
	// say which permit it releases to whoever has counted it here, and permits are alike.
	free     int
	sentBack map[Class]int64
	next     map[Class]time.Time // the newest pause ends then
}

// New returns the slots of a worker.
func New(limits Limits) (*Slots, error) {
	if err := limits.check(); err != nil {
		return nil, err
	}
	return &Slots{
		limits: limits, now: time.Now, short: semaphore.NewWeighted(int64(limits[Short])),
		used: map[Class]int{}, sentBack: map[Class]int64{}, next: map[Class]time.Time{},
	}, nil
}

// A Use is how the slots of a class are used.
type Use struct {
	Limit, Used int
	SentBack    int64 // attempts that found no slot, since the start
}

// Use returns the use of a class.
func (s *Slots) Use(c Class) Use {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Use{Limit: s.limits[c], Used: s.used[c], SentBack: s.sentBack[c]}
}

// Tuner gives a worker these slots for activities.
func (s *Slots) Tuner() (worker.WorkerTuner, error) {
	others, err := worker.NewFixedSizeTuner(worker.FixedSizeTunerOptions{
		NumWorkflowSlots: slotsOfOthers, NumActivitySlots: slotsOfOthers, NumLocalActivitySlots: slotsOfOthers, NumNexusSlots: slotsOfOthers})
	if err != nil {
		return nil, err
	}
	return worker.NewCompositeTuner(worker.CompositeTunerOptions{
		WorkflowSlotSupplier: others.GetWorkflowTaskSlotSupplier(), ActivitySlotSupplier: (*supplier)(s),
		LocalActivitySlotSupplier: others.GetLocalActivitySlotSupplier(), NexusSlotSupplier: others.GetNexusSlotSupplier(),
		SessionActivitySlotSupplier: others.GetSessionActivitySlotSupplier(),
	})
}

// supplier gives the SDK a permit for each poll, and for each activity that comes without one.
type supplier Slots

func (s *supplier) ReserveSlot(ctx context.Context, _ worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	if err := s.short.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return &worker.SlotPermit{}, nil
}

func (s *supplier) TryReserveSlot(worker.SlotReservationInfo) *worker.SlotPermit {
	if !s.short.TryAcquire(1) {
		return nil
	}
	return &worker.SlotPermit{}
}

func (s *supplier) MarkSlotUsed(worker.SlotMarkUsedInfo) {}

// ReleaseSlot is called once for each permit: after its poll brought nothing, or after its
// activity has ended.
func (s *supplier) ReleaseSlot(worker.SlotReleaseInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free > 0 {
		s.free--
		return
	}
	s.short.Release(1)
}

func (s *supplier) MaxSlots() int { return s.limits.all() }

// take takes a slot for an activity that has a short one, and returns what gives it back. If
// the class is full, take returns nil for an activity that may be sent back, and leaves
// another one in its short slot.
func (s *Slots) take(c Class, urgent, returnable bool) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.limits[c]
	if urgent {
		limit = s.limits.most(c)
	}
	switch {
	case c == Short:
	case s.used[c] < limit:
		s.used[c]++
		s.short.Release(1)
		return func() { s.give(c) }
	case returnable:
		return nil
	}
	s.used[Short]++
	return func() { s.give(Short) }
}

// give gives back a slot of a class. The permit of the activity is released after that.
func (s *Slots) give(c Class) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[c]--
	if c != Short {
		s.free++
	}
}

// pause counts an activity that is sent back, and returns how long it stays away.
func (s *Slots) pause(c Class) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sentBack[c]++
	now := s.now()
	next := s.next[c].Add(sentBackEach)
	if least := now.Add(leastPause); next.Before(least) {
		next = least
	}
	if most := now.Add(longestPause); next.After(most) {
		next = most
	}
	s.next[c] = next
	d := next.Sub(now)
	return d + rand.N(d/2)
}
