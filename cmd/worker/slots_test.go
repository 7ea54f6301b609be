package main

import (
	"slices"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/console"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestTheSlotsOfADayAreKept(t *testing.T) {
	var h slotHistory
	begin := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration, used int) {
		h.add([]protocol.PoolView{{Zone: "default", Slots: 4, Used: used}}, begin.Add(d))
	}
	sample := func(d time.Duration, used int) console.SlotSample {
		return console.SlotSample{At: begin.Add(d), Slots: 4, Used: used}
	}
	at(0, 1)
	at(time.Minute, 1) // nothing new
	at(2*time.Minute, 3)
	at(time.Hour, 2)
	if got := h.of("default"); !slices.Equal(got, []console.SlotSample{sample(0, 1), sample(2*time.Minute, 3), sample(time.Hour, 2)}) {
		t.Errorf("kept: %v", got)
	}
	at(24*time.Hour+30*time.Minute, 2) // what was 30 minutes after the beginning still counted then
	if got := h.of("default"); !slices.Equal(got, []console.SlotSample{sample(30*time.Minute, 3), sample(time.Hour, 2)}) {
		t.Errorf("a day later: %v", got)
	}
	for i := range 2 * mostZones {
		h.add([]protocol.PoolView{{Zone: string(rune('a' + i))}}, begin)
	}
	if len(h.zones) != mostZones {
		t.Errorf("%d zones are kept", len(h.zones))
	}
	if h.of("nowhere") != nil {
		t.Error("a zone that is not known has slots")
	}
}
