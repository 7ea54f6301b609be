package main

import (
	"fmt"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/lab/scenario"
)

// What a trouble strikes.
const (
	onHost   = "host"
	onZone   = "zone" // its pool, or one of its workers
	onServer = "server"
)

type kind struct {
	name              string
	on                string
	shortest, longest time.Duration
	// ends: processes on the host end with it, so items that had begun there
	// may fail. No other kind may make items fail.
	ends bool
	do   func(*fleet) func(*strike) error
}

type trouble struct {
	n      int
	kind   *kind
	target string        // a host, a zone, or the server
	after  int           // number of items that must have ended,
	lead   time.Duration // and the delay after that
	lasts  time.Duration
	silent bool // for a killed host: its link is cut first
}

func (t trouble) String() string {
	silent := ""
	if t.silent {
		silent = ", silently"
	}
	return fmt.Sprintf("%2d. %-15s %-8s after %3d items and %4.1f s, for %4.1f s%s", t.n, t.kind.name, t.target, t.after, t.lead.Seconds(), t.lasts.Seconds(), silent)
}

type item struct {
	id, zone string
	seconds  float64 // duration of its command
	flags    string  // session flags in addition to those of all
}

// first are the kinds that are in every plan with room for them.
var first = []string{"host killed", "worker killed", "Temporal killed"}

// planTroubles plans the troubles of a batch: each kind equally often, spread
// over the batch except its end.
func planTroubles(seed uint64, sessions, n int) []trouble {
	rng := scenario.Random(seed, "troubles")
	var chosen []*kind
	for len(chosen) < n {
		round := make([]*kind, len(kinds))
		for i := range kinds {
			round[i] = &kinds[i]
		}
		rng.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		slices.SortStableFunc(round, func(a, b *kind) int { return rank(a) - rank(b) })
		chosen = append(chosen, round[:min(len(round), n-len(chosen))]...)
	}
	rng.Shuffle(n, func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	var out []trouble
	for i, k := range chosen {
		t := trouble{n: i + 1, kind: k, target: k.on}
		switch k.on {
		case onHost:
			t.target = hostNames()[rng.IntN(len(hostNames()))]
		case onZone:
			t.target = zoneNames[rng.IntN(len(zoneNames))]
		}
		t.after = int((float64(i) + rng.Float64()) / float64(n) * 0.85 * float64(sessions))
		t.lead = time.Duration(rng.Int64N(int64(3 * time.Second))).Round(100 * time.Millisecond)
		t.lasts = (k.shortest + time.Duration(rng.Int64N(int64(k.longest-k.shortest)+1))).Round(100 * time.Millisecond)
		t.silent = rng.IntN(2) == 0 && k.name == "host killed"
		out = append(out, t)
	}
	return out
}

func rank(k *kind) int {
	if i := slices.Index(first, k.name); i >= 0 {
		return i
	}
	return len(first)
}

func planItems(seed uint64, sessions int) []item {
	rng := scenario.Random(seed, "items")
	var out []item
	for i := range sessions {
		it := item{id: fmt.Sprintf("i%03d", i+1), zone: zoneNames[rng.IntN(len(zoneNames))], seconds: 0.5 + float64(rng.IntN(50))/10}
		switch rng.IntN(8) {
		case 0:
			it.flags = ", on-interrupt: continue"
		case 1:
			it.flags = ", on-interrupt: continue, on-host-lost: move, lost-after: 15s"
		}
		out = append(out, it)
	}
	return out
}
