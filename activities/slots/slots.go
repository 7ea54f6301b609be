package slots

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"
	"golang.org/x/sync/semaphore"
)

const (
	// mostWaiting is how many activities wait in a worker without a short slot.
	mostWaiting = 1000
	// sentBackEach and leastPause bound the rate at which a worker sends activities back: each
	// costs Temporal an attempt.
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

	mu      sync.Mutex
	used    map[Class]int
	lines   map[Class][]chan struct{} // those that wait, in order; a closed one has a slot
	waiting int                       // without a short slot
	// free is how many permits of the SDK have given back their short slot already. Permits
	// are alike, so it does not matter which.
	free     int
	sentBack map[Class]int64
	next     time.Time // the newest pause ends then
}

// New returns the slots of a worker.
func New(limits Limits) (*Slots, error) {
	if err := limits.check(); err != nil {
		return nil, err
	}
	return &Slots{
		limits: limits, now: time.Now, short: semaphore.NewWeighted(int64(limits[Short])),
		used: map[Class]int{}, lines: map[Class][]chan struct{}{}, sentBack: map[Class]int64{},
	}, nil
}

// A Use is how the slots of a class are used.
type Use struct {
	Limit, Used, Waiting int
	SentBack             int64 // attempts that found no slot, since the start
}

// Use returns the use of a class.
func (s *Slots) Use(c Class) Use {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Use{Limit: s.limits[c], Used: s.used[c], Waiting: len(s.lines[c]), SentBack: s.sentBack[c]}
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

// leaveShort gives back the short slot of an activity that goes on elsewhere. The caller
// holds mu.
func (s *Slots) leaveShort() {
	s.free++
	s.short.Release(1)
}

// take takes a slot for an activity that has a short one. It returns nil if there is none.
func (s *Slots) take(c Class, urgent bool) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.limits[c]
	if urgent {
		limit = s.limits.most(c)
	}
	// Who waits goes first. Short activities have their slot.
	if c != Short && (s.used[c] >= limit || len(s.lines[c]) > 0 && !urgent) {
		return nil
	}
	s.used[c]++
	if c != Short {
		s.leaveShort()
	}
	return func() { s.give(c) }
}

// give frees a slot, or hands it to whoever has waited longest.
func (s *Slots) give(c Class) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gives(c)
}

// gives is give for a caller that holds mu.
func (s *Slots) gives(c Class) {
	if line := s.lines[c]; len(line) > 0 && s.used[c] <= s.limits[c] {
		s.lines[c] = line[1:]
		close(line[0])
		return
	}
	s.used[c]--
}

// wait waits in line until there is a slot, until ctx ends or until enough is closed. It calls
// each time that tick ticks. It returns nil if it got no slot.
func (s *Slots) wait(ctx context.Context, c Class, enough <-chan struct{}, until <-chan time.Time, tick <-chan time.Time, beat func()) (done func()) {
	s.mu.Lock()
	if s.used[c] < s.limits[c] && len(s.lines[c]) == 0 { // meanwhile
		s.used[c]++
		s.leaveShort()
		s.mu.Unlock()
		return func() { s.give(c) }
	}
	mine := make(chan struct{})
	s.lines[c] = append(s.lines[c], mine)
	apart := s.waiting < mostWaiting
	if apart {
		s.waiting++
		s.leaveShort()
	}
	s.mu.Unlock()
	got := false
	for over := false; !over; {
		select {
		case <-mine:
			got, over = true, true
		case <-ctx.Done():
			over = true
		case <-enough:
			over = true
		case <-until:
			over = true
		case <-tick:
			beat()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if apart {
		s.waiting--
	}
	if !got {
		if i := slices.Index(s.lines[c], mine); i >= 0 {
			s.lines[c] = slices.Delete(s.lines[c], i, i+1)
			return nil
		}
		// It was given a slot at the same time.
		if ctx.Err() != nil {
			s.gives(c)
			return nil
		}
	}
	if !apart {
		s.leaveShort()
	}
	return func() { s.give(c) }
}

// pause counts an activity that is sent back, and returns how long it stays away.
func (s *Slots) pause(c Class) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sentBack[c]++
	now := s.now()
	s.next = s.next.Add(sentBackEach)
	if least := now.Add(leastPause); s.next.Before(least) {
		s.next = least
	}
	if most := now.Add(longestPause); s.next.After(most) {
		s.next = most
	}
	d := s.next.Sub(now)
	return d + rand.N(d/2)
}
