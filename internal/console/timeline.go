package console

import (
	"cmp"
	"fmt"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// A timeline is a picture of what a session did when: turns, waits for people, faults and
// moves. The page draws it as SVG, in units of a hundredth of the width.
type timeline struct {
	From, To time.Time
	Bars     []bar
	Marks    []mark
}

// A bar is a time. Class is turn or wait.
type bar struct {
	Class, Text string
	X, Width    float64
}

// A mark is a moment. Class is fault or move.
type mark struct {
	Class, Text string
	X           float64
}

const (
	timelineWidth = 1000
	leastBar      = 2 // so that it can be seen
)

// timelineOf reads it from a part of a transcript. A turn is from its first entry to its last;
// a wait is from a request to its decision.
func timelineOf(list []protocol.Entry) timeline {
	if len(list) == 0 {
		return timeline{}
	}
	t := timeline{From: list[0].At, To: list[len(list)-1].At}
	if !t.To.After(t.From) {
		t.To = t.From.Add(time.Second)
	}
	x := func(at time.Time) float64 {
		return max(0, min(timelineWidth, timelineWidth*float64(at.Sub(t.From))/float64(t.To.Sub(t.From))))
	}
	between := func(class, text string, from, to time.Time) bar {
		return bar{Class: class, Text: text, X: x(from), Width: max(leastBar, x(to)-x(from))}
	}
	type times struct{ from, to time.Time }
	turns, order := map[int]times{}, []int{}
	asked := map[string]time.Time{}
	var waits []bar
	for _, e := range list {
		if e.Turn > 0 {
			was, known := turns[e.Turn]
			if !known {
				order, was.from = append(order, e.Turn), e.At
			}
			was.to = e.At
			turns[e.Turn] = was
		}
		approval := cmp.Or(e.Data["approval"], e.Digest)
		switch e.Type {
		case protocol.EntryRequest:
			asked[approval] = e.At
		case protocol.EntryDecision:
			if at, known := asked[approval]; known {
				waits = append(waits, between("wait", "waited "+e.At.Sub(at).Round(time.Second).String()+" for a decision", at, e.At))
				delete(asked, approval)
			}
		case protocol.EntryError:
			t.Marks = append(t.Marks, mark{"fault", "error at " + stamp(e.At), x(e.At)})
		case protocol.EntryState:
			if e.Data["host"] != "" {
				t.Marks = append(t.Marks, mark{"move", "on host " + cut(e.Data["host"], 63) + " at " + stamp(e.At), x(e.At)})
			}
		}
	}
	for _, n := range order {
		t.Bars = append(t.Bars, between("turn", fmt.Sprintf("turn %d, %s", n, turns[n].to.Sub(turns[n].from).Round(time.Second)), turns[n].from, turns[n].to))
	}
	for _, at := range asked {
		waits = append(waits, between("wait", "waits for a decision", at, t.To))
	}
	t.Bars = append(t.Bars, waits...)
	return t
}
