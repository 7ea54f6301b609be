package console

import (
	"fmt"
	"strings"
	"time"
)

// A SlotSample is what a zone had at a time.
type SlotSample struct {
	At                   time.Time
	Slots, Used, Waiting int
}

// A slotGraph is a picture of the slots of a zone over time, which pages draw as SVG.
type slotGraph struct {
	Label    string
	From, To time.Time
	// The paths are steps: a sample counts until the next one.
	Slots, Used, Waiting string
}

const (
	graphWidth  = 1000
	graphHeight = 100
)

// graphOf draws samples, the oldest first, until now.
func graphOf(all []SlotSample, now time.Time) *slotGraph {
	if len(all) == 0 {
		return nil
	}
	g := &slotGraph{From: all[0].At, To: now}
	most := SlotSample{}
	for _, s := range all {
		most.Slots, most.Used, most.Waiting = max(most.Slots, s.Slots), max(most.Used, s.Used), max(most.Waiting, s.Waiting)
	}
	long := max(now.Sub(g.From), time.Second)
	high := float64(max(most.Slots, most.Used, most.Waiting, 1))
	draw := func(of func(SlotSample) int, area bool) string {
		var b strings.Builder
		for i, s := range all {
			x := min(graphWidth, max(0, graphWidth*float64(s.At.Sub(g.From))/float64(long)))
			y := graphHeight * (1 - float64(of(s))/high)
			if i == 0 {
				fmt.Fprintf(&b, "M%.1f %.1f", x, y)
			} else {
				fmt.Fprintf(&b, "H%.1fV%.1f", x, y)
			}
		}
		fmt.Fprintf(&b, "H%d", graphWidth)
		if area {
			fmt.Fprintf(&b, "V%dH0Z", graphHeight)
		}
		return b.String()
	}
	g.Slots = draw(func(s SlotSample) int { return s.Slots }, false)
	g.Used = draw(func(s SlotSample) int { return s.Used }, true)
	g.Waiting = draw(func(s SlotSample) int { return s.Waiting }, false)
	newest := all[len(all)-1]
	g.Label = fmt.Sprintf("slots from %s to %s: now %d of %d used, at most %d; at most %s", stamp(g.From), stamp(g.To),
		newest.Used, newest.Slots, most.Used, plural(most.Waiting, "session waited", "sessions waited"))
	return g
}
