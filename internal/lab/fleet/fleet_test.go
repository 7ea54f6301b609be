package main

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

// The short form kills a host, a worker, and the Temporal server.
func TestABatchOutlivesItsTroubles(t *testing.T) {
	realparts.NotShort(t)
	repo := realparts.Root(t)
	if err := try(t.Context(), options{repo: repo, seed: 20261123, sessions: 12, troubles: 3, out: t.Output()}); err != nil {
		t.Error(err)
	}
}

func TestASeedMakesTheSamePlanAgain(t *testing.T) {
	plan, items := planTroubles(7, 200, 20), planItems(7, 200)
	if !reflect.DeepEqual(plan, planTroubles(7, 200, 20)) || !reflect.DeepEqual(items, planItems(7, 200)) {
		t.Error("the same seed makes another plan")
	}
	if reflect.DeepEqual(plan, planTroubles(8, 200, 20)) || reflect.DeepEqual(items, planItems(8, 200)) {
		t.Error("another seed makes the same plan")
	}
	for _, k := range kinds {
		n := 0
		for _, s := range plan {
			if s.kind.name == k.name {
				n++
			}
			if s.after >= 200*85/100 || s.lasts < s.kind.shortest || s.lasts > s.kind.longest {
				t.Errorf("trouble %s is out of bounds", s)
			}
		}
		if n != 2 {
			t.Errorf("of 20 troubles %d are %q", n, k.name)
		}
	}
	few := planTroubles(7, 12, 3)
	for _, name := range first {
		if !slices.ContainsFunc(few, func(s trouble) bool { return s.kind.name == name }) {
			t.Errorf("of three troubles none is %q", name)
		}
	}
	for _, zone := range zoneNames {
		if !slices.ContainsFunc(items, func(it item) bool { return it.zone == zone }) {
			t.Errorf("no item is for zone %s", zone)
		}
	}
}

// sound returns evidence without faults: one item completed, one failed when
// its host was killed.
func sound() *evidence {
	at := time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)
	e := &evidence{
		items:   []item{{id: "i001", zone: "default"}, {id: "i002", zone: "far"}},
		strikes: []strike{{trouble: trouble{kind: &kind{name: "host killed", ends: true}, target: "far-1"}, struck: at.Add(time.Second), over: at.Add(3 * time.Second)}},
		batch:   protocol.BatchView{State: protocol.BatchDone, Total: 2, Done: 1, Failed: 1, Results: 2, Tries: 2},
		results: []protocol.BatchResult{
			{Item: "i001", State: protocol.ItemCompleted, Status: "completed", FinalText: "Item i001: it is done", Host: "near-1", Effects: protocol.EffectsSome, StartedAt: at, EndedAt: at.Add(time.Minute)},
			{Item: "i002", State: protocol.ItemFailed, Status: "interrupted", Host: "far-1", Effects: protocol.EffectsSome, StartedAt: at, EndedAt: at.Add(time.Minute), Error: &protocol.Failure{Kind: "process_exit"}},
		},
		effects: map[string][]effect{"i001": {{"begin", "near-1", 1}, {"end", "near-1", 2}}, "i002": {{"begin", "far-1", 1}}},
		most:    map[string]int{}, over: map[string][]string{}, samples: 1, strays: map[string]int{}, logins: map[string]map[string]int{}, gateway: map[string]string{}, closed: 2,
	}
	for _, h := range hostNames() {
		e.most[h], e.gateway[h], e.logins[h] = slots, "10.77.1.1", map[string]int{"10.77.1.1": 1}
		e.hosts = append(e.hosts, protocol.HostView{Name: h, Slots: slots, State: "ready"})
	}
	return e
}

func TestTheJudgeSeesEachWrong(t *testing.T) {
	if rows := judge(sound()); !scenario.Clean(rows) {
		t.Fatalf("what is sound is judged\n%s", plainRows(rows))
	}
	for _, c := range []struct {
		row, what string
		change    func(*evidence)
	}{
		{"results", "an item without a result", func(e *evidence) { e.items = append(e.items, item{id: "i003", zone: "far"}) }},
		{"results", "two results of one item", func(e *evidence) { e.results[1].Item = "i001" }},
		{"results", "another count", func(e *evidence) { e.batch.Done = 2 }},
		{"results", "another item's words", func(e *evidence) { e.results[0].FinalText = "Item i002: it is done" }},
		{"results", "an item that was given up", func(e *evidence) { e.results[1].State = protocol.ItemCancelled }},
		{"failures", "a kind that nothing explains", func(e *evidence) { e.results[1].Error.Kind = "unreachable" }},
		{"failures", "a host that was not killed", func(e *evidence) { e.results[1].Host = "far-2" }},
		{"failures", "a host that was killed before", func(e *evidence) { e.results[1].StartedAt = e.results[1].StartedAt.Add(4 * time.Second) }},
		{"failures", "a trouble that ends nothing", func(e *evidence) { e.strikes[0].kind = &kind{name: "link cut"} }},
		{"failures", "no reason", func(e *evidence) { e.results[1].Error = nil }},
		{"effects", "none of what is done", func(e *evidence) { delete(e.effects, "i001") }},
		{"effects", "half of what is done", func(e *evidence) { e.effects["i001"] = e.effects["i001"][:1] }},
		{"effects", "two", func(e *evidence) { e.effects["i001"] = append(e.effects["i001"], e.effects["i001"]...) }},
		{"effects", "two of what failed", func(e *evidence) { e.effects["i002"] = append(e.effects["i002"], e.effects["i002"]...) }},
		{"effects", "some where none is said", func(e *evidence) { e.results[1].Effects = protocol.EffectsNone }},
		{"effects", "cut off, and said to have ended", func(e *evidence) { e.results[1].Status = "failed" }},
		{"effects", "of no item", func(e *evidence) { e.effects["i009"] = e.effects["i001"] }},
		{"slots", "too many codexes", func(e *evidence) { e.over["near-1"] = []string{"now"} }},
		{"slots", "a watch that sees nothing", func(e *evidence) { e.most["far-2"] = 0 }},
		{"slots", "too many commands", func(e *evidence) {
			for _, id := range []string{"a", "b", "c"} {
				e.effects[id] = e.effects["i001"]
			}
		}},
		{"zones", "a dial to another", func(e *evidence) { e.strays["far"] = 1 }},
		{"zones", "a login from another", func(e *evidence) { e.logins["far-1"]["10.77.2.1"] = 1 }},
		{"zones", "nobody", func(e *evidence) { e.logins["far-1"] = nil }},
		{"zones", "an item of another", func(e *evidence) { e.results[0].Host = "far-1" }},
		{"left over", "a process", func(e *evidence) { e.left = []string{"process"} }},
		{"left over", "what could not be looked at", func(e *evidence) { e.wrong = []string{"no route"} }},
		{"closed", "a session that runs", func(e *evidence) { e.running = 1 }},
		{"closed", "one too few", func(e *evidence) { e.closed = 1 }},
		{"pool", "a slot that is held", func(e *evidence) { e.hosts[0].Used = 1 }},
		{"pool", "a host that stays away", func(e *evidence) { e.hosts[0].State = "quarantined" }},
		{"pool", "a pool that stays paused", func(e *evidence) { e.hosts[0].Paused = &protocol.PoolPause{} }},
		{"workers", "one that ended badly", func(e *evidence) { e.badly = []string{"w1"} }},
		{"troubles", "one that came too late", func(e *evidence) { e.strikes[0].late = true }},
		{"troubles", "one that never came", func(e *evidence) { e.strikes[0].struck = time.Time{} }},
	} {
		e := sound()
		c.change(e)
		rows := judge(e)
		if i := slices.IndexFunc(rows, func(r *scenario.Result) bool { return r.Subject == c.row }); i < 0 || rows[i].Clean() {
			t.Errorf("%s, %s: judged\n%s", c.row, c.what, plainRows(rows))
		}
	}
}
