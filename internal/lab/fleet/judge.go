package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// A row is the verdict on one subject.
type row struct {
	name  string
	what  string // what was examined, in numbers
	wrong []string
}

func judge(e *evidence) []row {
	return []row{judgeResults(e), judgeFailures(e), judgeEffects(e), judgeSlots(e), judgeZones(e), judgeLeft(e),
		judgeClosed(e), judgePool(e), judgeWorkers(e), judgeTroubles(e)}
}

func clean(rows []row) bool {
	return !slices.ContainsFunc(rows, func(r row) bool { return len(r.wrong) > 0 })
}

func (r *row) isWrong(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

func (e *evidence) byItem() map[string]protocol.BatchResult {
	out := map[string]protocol.BatchResult{}
	for _, r := range e.results {
		out[r.Item] = r
	}
	return out
}

func judgeResults(e *evidence) row {
	r := row{name: "results"}
	states, seen := map[string]int{}, map[string]int{}
	for _, res := range e.results {
		seen[res.Item]++
		states[res.State]++
		if res.State != protocol.ItemCompleted && res.State != protocol.ItemFailed {
			r.isWrong("item %s is %s", res.Item, res.State)
		}
		if res.State == protocol.ItemCompleted && !strings.HasPrefix(res.FinalText, "Item "+res.Item+": it ") && !strings.Contains(res.FinalText, "\nItem "+res.Item+": it ") {
			r.isWrong("item %s completed with %q", res.Item, res.FinalText)
		}
	}
	for _, it := range e.items {
		if seen[it.id] != 1 {
			r.isWrong("item %s has %d results", it.id, seen[it.id])
		}
	}
	if len(e.results) != len(e.items) {
		r.isWrong("there are %d lines for %d items", len(e.results), len(e.items))
	}
	v := e.batch
	if v.State != protocol.BatchDone || v.Total != len(e.items) || v.Done != states[protocol.ItemCompleted] || v.Failed != states[protocol.ItemFailed] ||
		v.Done+v.Failed != v.Total || v.Results != len(e.results) {
		r.isWrong("the batch is %s with %d done, %d failed, %d cancelled, %d running, %d queued of %d and %d results", v.State, v.Done, v.Failed, v.Cancelled, v.Running, v.Queued, v.Total, v.Results)
	}
	r.what = fmt.Sprintf("%d items, %d lines: %d completed, %d failed, in %d tries", len(e.items), len(e.results), v.Done, v.Failed, v.Tries)
	return r
}

// judgeFailures: only items on a host that was killed may fail.
func judgeFailures(e *evidence) row {
	r := row{name: "failures"}
	kinds := map[string]int{}
	for _, res := range e.results {
		if res.State != protocol.ItemFailed {
			continue
		}
		if res.Error == nil {
			r.isWrong("item %s failed, and nothing says why", res.Item)
			continue
		}
		kinds[res.Error.Kind]++
		if res.Error.Kind != "process_exit" {
			r.isWrong("item %s failed by %s (%s), which no trouble explains", res.Item, res.Error.Kind, res.Error.Message)
		} else if !e.killedUnder(res.Host, res.StartedAt, res.EndedAt) {
			r.isWrong("item %s failed by %s (%s) on %s from %s to %s, where no host was killed", res.Item, res.Error.Kind, res.Error.Message, res.Host, clock(res.StartedAt), clock(res.EndedAt))
		}
	}
	var words []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		words = append(words, fmt.Sprintf("%d by %s", kinds[kind], kind))
	}
	r.what = fmt.Sprintf("%d: %s", e.batch.Failed, strings.Join(words, ", "))
	return r
}

func (e *evidence) killedUnder(host string, from, to time.Time) bool {
	return slices.ContainsFunc(e.strikes, func(s strike) bool {
		return s.kind.ends && s.target == host && s.struck.Before(to) && s.over.After(from)
	})
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05") }

// judgeEffects: a command took effect once if the item is completed, and never
// more than once.
func judgeEffects(e *evidence) row {
	r := row{name: "effects"}
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
			r.isWrong("the command of item %s (%s) began %d times and ended %d times: %v", it.id, res.State, begins, ends, e.effects[it.id])
			continue
		}
		switch {
		case res.State == protocol.ItemCompleted && begins == 1 && (ends == 1 || strings.Contains(res.FinalText, "it had begun")):
			once++
		case res.State == protocol.ItemCompleted:
			r.isWrong("item %s completed with %q, its command began %d times and ended %d times", it.id, res.FinalText, begins, ends)
		case res.Effects == protocol.EffectsNone && begins > 0:
			r.isWrong("item %s failed with no effects, as is said, but its command began", it.id)
		case res.Effects == protocol.EffectsNone:
			none++
		case res.Effects == protocol.EffectsSome || res.Effects == protocol.EffectsUnknown:
			unknown++
			if res.Status != "interrupted" && res.Status != "unknown" {
				r.isWrong("item %s failed with effects %s, and its turn is %q", it.id, res.Effects, res.Status)
			}
		default:
			r.isWrong("item %s is %q with effects %q", it.id, res.State, res.Effects)
		}
	}
	for id := range e.effects {
		if !slices.ContainsFunc(e.items, func(it item) bool { return it.id == id }) {
			r.isWrong("there is an effect of %s, which is no item", id)
		}
	}
	r.what = fmt.Sprintf("%d exactly once; of those that failed %d cut off and marked so, %d certainly none", once, unknown, none)
	return r
}

// judgeSlots: a host runs at most as many codex processes, and commands, as it
// has slots.
func judgeSlots(e *evidence) row {
	r := row{name: "slots"}
	var words []string
	for _, host := range hostNames() {
		words = append(words, fmt.Sprintf("%s %d", host, e.most[host]))
		if over := e.over[host]; len(over) > 0 {
			r.isWrong("host %s with %d slots had more codexes %d times, such as at %s", host, slots, len(over), over[0])
		}
		if n := e.commandsAtOnce(host); n > slots {
			r.isWrong("host %s with %d slots ran %d commands at once", host, slots, n)
		}
		if e.most[host] == 0 {
			r.isWrong("no codex was seen on %s: the watch sees nothing", host)
		}
	}
	r.what = fmt.Sprintf("most codexes at a time: %s of %d, in %d looks", strings.Join(words, ", "), slots, e.samples)
	return r
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

func judgeZones(e *evidence) row {
	r := row{name: "zones"}
	logins := 0
	for _, zone := range zoneNames {
		if n := e.strays[zone]; n > 0 {
			r.isWrong("from zone %s there were %d dials to hosts of another", zone, n)
		}
	}
	for _, host := range hostNames() {
		for from, n := range e.logins[host] {
			logins += n
			if from != e.gateway[host] {
				r.isWrong("host %s let in %d from %s, its zone is at %s", host, n, from, e.gateway[host])
			}
		}
		if len(e.logins[host]) == 0 {
			r.isWrong("nobody was let in by %s", host)
		}
	}
	results := e.byItem()
	for _, it := range e.items {
		if res := results[it.id]; res.Host != "" && zoneOf(res.Host) != it.zone {
			r.isWrong("item %s of zone %s ran on %s", it.id, it.zone, res.Host)
		}
	}
	r.what = fmt.Sprintf("%d logins, each from its own zone; no dial to another", logins)
	return r
}

func judgeLeft(e *evidence) row {
	return row{name: "left over", what: fmt.Sprintf("%d processes and folders on %d hosts", len(e.left), len(hostNames())), wrong: append(e.left, e.wrong...)}
}

func judgeClosed(e *evidence) row {
	r := row{name: "closed", what: fmt.Sprintf("%d sessions in Temporal, %d run; %d went on as another attempt", e.closed, e.running, e.moved)}
	if e.running > 0 || e.closed != int64(e.batch.Tries) || e.batch.Tries < len(e.items) {
		r.isWrong("%d sessions run in Temporal and %d have ended well, of %d", e.running, e.closed, e.batch.Tries)
	}
	return r
}

func judgePool(e *evidence) row {
	r := row{name: "pool"}
	free := 0
	for _, h := range e.hosts {
		free += h.Slots - h.Used
		if h.Used > 0 || h.Slots != slots || !atEase(h) || h.Queue > 0 || len(h.Holders) > 0 || h.Unclean > 0 || h.Paused != nil || h.Drain != nil {
			r.isWrong("host %s is %s, uses %d of %d slots for %v, %d wait, %d unclean", h.Name, h.State, h.Used, h.Slots, h.Holders, h.Queue, h.Unclean)
		}
	}
	if want := slots * len(hostNames()); free != want {
		r.isWrong("%d of %d slots are free", free, want)
	}
	r.what = fmt.Sprintf("%d slots free on %d hosts", free, len(e.hosts))
	return r
}

func judgeWorkers(e *evidence) row {
	return row{name: "workers", what: "those that were drained ended well", wrong: e.badly}
}

func judgeTroubles(e *evidence) row {
	r := row{name: "troubles"}
	late := 0
	for _, s := range e.strikes {
		switch {
		case s.err != nil:
			r.isWrong("%s of %s: %v", s.kind.name, s.target, s.err)
		case s.struck.IsZero():
			r.isWrong("%s of %s did not strike", s.kind.name, s.target)
		case s.late: // the last items may end all at once; late troubles only must not harm the fleet
			late++
		}
	}
	if late == len(e.strikes) {
		r.isWrong("the batch was over before any trouble struck")
	}
	r.what = fmt.Sprintf("%d struck while the batch ran, %d just after it", len(e.strikes)-late, late)
	return r
}
