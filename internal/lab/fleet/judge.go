package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
)

// judge returns a result of each subject that is judged.
func judge(e *evidence) []*scenario.Result {
	var out []*scenario.Result
	for _, subject := range []struct {
		name  string
		judge func(*evidence, *scenario.Result)
	}{
		{"results", judgeResults}, {"failures", judgeFailures}, {"effects", judgeEffects}, {"slots", judgeSlots}, {"zones", judgeZones},
		{"left over", judgeLeft}, {"closed", judgeClosed}, {"pool", judgePool}, {"workers", judgeWorkers}, {"troubles", judgeTroubles},
	} {
		r := &scenario.Result{Subject: subject.name, Took: true}
		subject.judge(e, r)
		out = append(out, r)
	}
	return out
}

func (e *evidence) byItem() map[string]protocol.BatchResult {
	out := map[string]protocol.BatchResult{}
	for _, r := range e.results {
		out[r.Item] = r
	}
	return out
}

func judgeResults(e *evidence, r *scenario.Result) {
	states, seen := map[string]int{}, map[string]int{}
	for _, res := range e.results {
		seen[res.Item]++
		states[res.State]++
		if res.State != protocol.ItemCompleted && res.State != protocol.ItemFailed {
			r.Find(scenario.Wrong, "item %s is %s", res.Item, res.State)
		}
		if res.State == protocol.ItemCompleted && !strings.HasPrefix(res.FinalText, "Item "+res.Item+": it ") && !strings.Contains(res.FinalText, "\nItem "+res.Item+": it ") {
			r.Find(scenario.Wrong, "item %s completed with %q", res.Item, res.FinalText)
		}
	}
	for _, it := range e.items {
		if seen[it.id] != 1 {
			r.Find(scenario.Wrong, "item %s has %d results", it.id, seen[it.id])
		}
	}
	if len(e.results) != len(e.items) {
		r.Find(scenario.Wrong, "there are %d lines for %d items", len(e.results), len(e.items))
	}
	v := e.batch
	if v.State != protocol.BatchDone || v.Total != len(e.items) || v.Done != states[protocol.ItemCompleted] || v.Failed != states[protocol.ItemFailed] ||
		v.Done+v.Failed != v.Total || v.Results != len(e.results) {
		r.Find(scenario.Wrong, "the batch is %s with %d done, %d failed, %d cancelled, %d running, %d queued of %d and %d results", v.State, v.Done, v.Failed, v.Cancelled, v.Running, v.Queued, v.Total, v.Results)
	}
	r.Note = fmt.Sprintf("%d items, %d lines: %d completed, %d failed, in %d tries", len(e.items), len(e.results), v.Done, v.Failed, v.Tries)
}

// judgeFailures: only items on a host that was killed may fail.
func judgeFailures(e *evidence, r *scenario.Result) {
	kinds := map[string]int{}
	for _, res := range e.results {
		if res.State != protocol.ItemFailed {
			continue
		}
		if res.Error == nil {
			r.Find(scenario.Wrong, "item %s failed, and nothing says why", res.Item)
			continue
		}
		kinds[res.Error.Kind]++
		if res.Error.Kind != "process_exit" {
			r.Find(scenario.Wrong, "item %s failed by %s (%s), which no trouble explains", res.Item, res.Error.Kind, res.Error.Message)
		} else if !e.killedUnder(res.Host, res.StartedAt, res.EndedAt) {
			r.Find(scenario.Wrong, "item %s failed by %s (%s) on %s from %s to %s, where no host was killed", res.Item, res.Error.Kind, res.Error.Message, res.Host, clock(res.StartedAt), clock(res.EndedAt))
		}
	}
	var words []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		words = append(words, fmt.Sprintf("%d by %s", kinds[kind], kind))
	}
	r.Note = fmt.Sprintf("%d: %s", e.batch.Failed, strings.Join(words, ", "))
}

func (e *evidence) killedUnder(host string, from, to time.Time) bool {
	return slices.ContainsFunc(e.strikes, func(s strike) bool {
		return s.kind.ends && s.target == host && s.struck.Before(to) && s.over.After(from)
	})
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05") }

// judgeEffects: a command took effect once if the item is completed, and never
// more than once.
func judgeEffects(e *evidence, r *scenario.Result) {
	results := e.byItem()
	once, unknown, none := 0, 0, 0
	for _, it := range e.items {
		res, begins, ends := results[it.id], 0, 0
		for _, x := range e.effects[it.id] {
			switch x.what {
			case "begin":
				begins++
			case "end":
				ends++
			}
		}
		if begins > 1 || ends > begins {
			r.Find(scenario.Wrong, "the command of item %s (%s) began %d times and ended %d times: %v", it.id, res.State, begins, ends, e.effects[it.id])
			continue
		}
		switch {
		case res.State == protocol.ItemCompleted && begins == 1 && (ends == 1 || strings.Contains(res.FinalText, "it had begun")):
			once++
		case res.State == protocol.ItemCompleted:
			r.Find(scenario.Wrong, "item %s completed with %q, its command began %d times and ended %d times", it.id, res.FinalText, begins, ends)
		case res.Effects == protocol.EffectsNone && begins > 0:
			r.Find(scenario.Wrong, "item %s failed with no effects, as is said, but its command began", it.id)
		case res.Effects == protocol.EffectsNone:
			none++
		case res.Effects == protocol.EffectsSome || res.Effects == protocol.EffectsUnknown:
			unknown++
			if res.Status != "interrupted" && res.Status != "unknown" {
				r.Find(scenario.Wrong, "item %s failed with effects %s, and its turn is %q", it.id, res.Effects, res.Status)
			}
		default:
			r.Find(scenario.Wrong, "item %s is %q with effects %q", it.id, res.State, res.Effects)
		}
	}
	for id := range e.effects {
		if !slices.ContainsFunc(e.items, func(it item) bool { return it.id == id }) {
			r.Find(scenario.Wrong, "there is an effect of %s, which is no item", id)
		}
	}
	r.Note = fmt.Sprintf("%d exactly once; of those that failed %d cut off and marked so, %d certainly none", once, unknown, none)
}

// judgeSlots: a host runs at most as many codex processes, and commands, as it
// has slots.
func judgeSlots(e *evidence, r *scenario.Result) {
	var words []string
	for _, host := range hostNames() {
		words = append(words, fmt.Sprintf("%s %d", host, e.most[host]))
		if over := e.over[host]; len(over) > 0 {
			r.Find(scenario.Wrong, "host %s with %d slots had more codexes %d times, such as at %s", host, slots, len(over), over[0])
		}
		if n := e.commandsAtOnce(host); n > slots {
			r.Find(scenario.Wrong, "host %s with %d slots ran %d commands at once", host, slots, n)
		}
		if e.most[host] == 0 {
			r.Find(scenario.Wrong, "no codex was seen on %s: the watch sees nothing", host)
		}
	}
	r.Note = fmt.Sprintf("most codexes at a time: %s of %d, in %d looks", strings.Join(words, ", "), slots, e.samples)
}

// commandsAtOnce returns the largest number of commands that ran on a host at
// once. A command that was cut off is ignored, because its end is unknown.
func (e *evidence) commandsAtOnce(host string) int {
	type step struct {
		at float64
		by int
	}
	var steps []step
	for _, x := range e.effects {
		if len(x) == 2 && x[0].what == "begin" && x[1].what == "end" && x[0].host == host {
			steps = append(steps, step{x[0].at, 1}, step{x[1].at, -1})
		}
	}
	slices.SortFunc(steps, func(a, b step) int {
		if a.at != b.at {
			return map[bool]int{true: -1, false: 1}[a.at < b.at]
		}
		return a.by - b.by
	})
	now, most := 0, 0
	for _, s := range steps {
		now += s.by
		most = max(most, now)
	}
	return most
}

func judgeZones(e *evidence, r *scenario.Result) {
	logins := 0
	for _, zone := range zoneNames {
		if n := e.strays[zone]; n > 0 {
			r.Find(scenario.Wrong, "from zone %s there were %d dials to hosts of another", zone, n)
		}
	}
	for _, host := range hostNames() {
		for from, n := range e.logins[host] {
			logins += n
			if from != e.gateway[host] {
				r.Find(scenario.Wrong, "host %s let in %d from %s, its zone is at %s", host, n, from, e.gateway[host])
			}
		}
		if len(e.logins[host]) == 0 {
			r.Find(scenario.Wrong, "nobody was let in by %s", host)
		}
	}
	results := e.byItem()
	for _, it := range e.items {
		if res := results[it.id]; res.Host != "" && zoneOf(res.Host) != it.zone {
			r.Find(scenario.Wrong, "item %s of zone %s ran on %s", it.id, it.zone, res.Host)
		}
	}
	r.Note = fmt.Sprintf("%d logins, each from its own zone; no dial to another", logins)
}

func judgeLeft(e *evidence, r *scenario.Result) {
	r.Note = fmt.Sprintf("%d processes and folders on %d hosts", len(e.left), len(hostNames()))
	for _, what := range append(e.left, e.wrong...) {
		r.Find(scenario.Wrong, "%s", what)
	}
}

func judgeClosed(e *evidence, r *scenario.Result) {
	r.Note = fmt.Sprintf("%d sessions in Temporal, %d run; %d went on as another attempt", e.closed, e.running, e.moved)
	if e.running > 0 || e.closed != int64(e.batch.Tries) || e.batch.Tries < len(e.items) {
		r.Find(scenario.Wrong, "%d sessions run in Temporal and %d have ended well, of %d", e.running, e.closed, e.batch.Tries)
	}
}

func judgePool(e *evidence, r *scenario.Result) {
	free := 0
	for _, h := range e.hosts {
		free += h.Slots - h.Used
		if h.Used > 0 || h.Slots != slots || !atEase(h) || h.Queue > 0 || len(h.Holders) > 0 || h.Unclean > 0 || h.Paused != nil || h.Drain != nil {
			r.Find(scenario.Wrong, "host %s is %s, uses %d of %d slots for %v, %d wait, %d unclean", h.Name, h.State, h.Used, h.Slots, h.Holders, h.Queue, h.Unclean)
		}
	}
	if want := slots * len(hostNames()); free != want {
		r.Find(scenario.Wrong, "%d of %d slots are free", free, want)
	}
	r.Note = fmt.Sprintf("%d slots free on %d hosts", free, len(e.hosts))
}

func judgeWorkers(e *evidence, r *scenario.Result) {
	r.Note = "those that were drained ended well"
	for _, what := range e.badly {
		r.Find(scenario.Wrong, "%s", what)
	}
}

func judgeTroubles(e *evidence, r *scenario.Result) {
	late := 0
	for _, s := range e.strikes {
		switch {
		case s.err != nil:
			r.Find(scenario.Wrong, "%s of %s: %v", s.kind.name, s.target, s.err)
		case s.struck.IsZero():
			r.Find(scenario.Wrong, "%s of %s did not strike", s.kind.name, s.target)
		case s.late: // the last items may end all at once; late troubles only must not harm the fleet
			late++
		}
	}
	if late == len(e.strikes) {
		r.Find(scenario.Wrong, "the batch was over before any trouble struck")
	}
	r.Note = fmt.Sprintf("%d struck while the batch ran, %d just after it", len(e.strikes)-late, late)
}
