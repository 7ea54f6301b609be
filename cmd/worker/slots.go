package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/console"
	"fairlead.dev/fairlead/internal/protocol"
)

const (
	// sampleSlots is how often a worker with a console asks the zones for their slots.
	sampleSlots = time.Minute
	// slotsKept is how long it keeps what they said, in its memory.
	slotsKept = 24 * time.Hour
	mostZones = 64
)

// slotHistory keeps the slots of zones over time. Each worker has its own, from its start on:
// whoever needs more has the metrics.
type slotHistory struct {
	mu    sync.Mutex
	zones map[string][]console.SlotSample
}

// of returns what is known of a zone, the oldest first.
func (h *slotHistory) of(zone string) []console.SlotSample {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]console.SlotSample(nil), h.zones[zone]...)
}

// add takes what zones have now. What does not change takes no room.
func (h *slotHistory) add(pools []protocol.PoolView, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.zones == nil {
		h.zones = map[string][]console.SlotSample{}
	}
	for _, p := range pools {
		all := h.zones[p.Zone]
		if all == nil && len(h.zones) >= mostZones {
			continue
		}
		s := console.SlotSample{At: now, Slots: p.Slots, Used: p.Used, Waiting: p.Waiting}
		if n := len(all); n == 0 || all[n-1] != (console.SlotSample{At: all[n-1].At, Slots: s.Slots, Used: s.Used, Waiting: s.Waiting}) {
			all = append(all, s)
		}
		// A sample counts until the next one, so the newest of those that are too old stays.
		for len(all) > 1 && now.Sub(all[1].At) > slotsKept {
			all = all[1:]
		}
		if now.Sub(all[0].At) > slotsKept {
			all[0].At = now.Add(-slotsKept)
		}
		h.zones[p.Zone] = all
	}
}

// keep asks until ctx ends.
func (h *slotHistory) keep(ctx context.Context, pools func(context.Context) ([]protocol.PoolView, error), log *slog.Logger) {
	const begins = time.Second // until the first answer
	wait := begins
	for {
		within, cancel := context.WithTimeout(ctx, sampleSlots/2)
		all, err := pools(within)
		cancel()
		if err != nil {
			log.Debug("the slots of the zones are not known", "err", err)
		} else {
			h.add(all, time.Now())
			wait = sampleSlots
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}
