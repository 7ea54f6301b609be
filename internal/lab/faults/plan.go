package main

import (
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/lab/scenario"
)

// A wave is a set of sessions at several moments that one fault strikes
// together.
type wave struct {
	fault   *fault
	nth     int
	moments []*moment
}

// schedule makes the waves. Faults take turns until there are enough runs, in
// an order that the seed decides; rare faults run once.
func schedule(o options) ([]wave, error) {
	var chosen []*fault
	for _, f := range faults {
		if o.only == "" || strings.EqualFold(o.only, f.name) {
			chosen = append(chosen, f)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("there is no fault %q; there are: %s", o.only, strings.Join(faultNames(), ", "))
	}
	if o.short {
		return shortSchedule(o, chosen)
	}
	var out []wave
	total := 0
	for nth := 0; total < o.runs || o.nth >= nth; nth++ {
		added := false
		for _, f := range chosen {
			if f.rare && nth > 0 || o.nth >= 0 && o.nth != nth || o.nth < 0 && total >= o.runs && nth > 0 {
				continue
			}
			w, err := newWave(o, f, nth, f.moments)
			if err != nil {
				return nil, err
			}
			if len(w.moments) > 0 {
				out = append(out, w)
				total += len(w.moments)
			}
			added = added || len(w.moments) > 0
		}
		if !added && nth > o.nth {
			break
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no run is left of what was asked for; a fault's moments are in faults.go")
	}
	scenario.Random(o.seed, "order").Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	// Another number of workers needs another stack: use as few stacks as
	// possible.
	slices.SortStableFunc(out, func(a, b wave) int { return a.fault.workers() - b.fault.workers() })
	return out, nil
}

func newWave(o options, f *fault, nth int, names []string) (wave, error) {
	w := wave{fault: f, nth: nth}
	for _, name := range names {
		m := momentOf(name)
		if m == nil {
			return w, fmt.Errorf("fault %s has a moment %q that there is not", f.name, name)
		}
		if o.moment == "" || strings.EqualFold(o.moment, name) || strings.HasPrefix(name, strings.ToLower(o.moment)+", ") {
			w.moments = append(w.moments, m)
		}
	}
	return w, nil
}

// shortSchedule returns one small wave of each quick fault.
func shortSchedule(o options, chosen []*fault) ([]wave, error) {
	var out []wave
	for _, f := range chosen {
		w, err := newWave(o, f, 0, f.short)
		if err != nil {
			return nil, err
		}
		if len(w.moments) > 0 {
			out = append(out, w)
		}
	}
	slices.SortStableFunc(out, func(a, b wave) int { return a.fault.workers() - b.fault.workers() })
	return out, nil
}

func faultNames() []string {
	var out []string
	for _, f := range faults {
		out = append(out, f.name)
	}
	return out
}

func momentOf(name string) *moment {
	for _, m := range moments {
		if m.name == name {
			return m
		}
	}
	return nil
}
