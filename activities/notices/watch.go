package notices

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/internal/notify"
	"fairlead.dev/fairlead/internal/protocol"
)

const (
	// Overlap is how late a list may show an event.
	Overlap = 15 * time.Minute
	// deafFor is how long the cursor waits for what cannot be asked.
	deafFor = time.Hour
	// watchFor bounds one activity: then the outbox keeps the cursor.
	watchFor = 30 * time.Minute
	// missedFor is after how long what is asked no more, because it is gone, is forgotten.
	missedFor = 2 * time.Minute
	// maxSilent bounds what is carried of what does not answer.
	maxSilent = 500
	// shortest is the least pause between two looks. A look never takes more than a tenth of the
	// time.
	shortest = 2 * time.Second
	// lookWait bounds how long one plan asks who has the inbox open. People of whom it does not know
	// by then are told at once.
	lookWait = 2 * time.Second
	// maxReturned bounds the notices of one result.
	maxReturned = notify.MaxNotices
)

// WatchEventsInput is the input of WatchEvents. All times are the server's.
type WatchEventsInput struct {
	Zone  string    `json:"zone"`
	Now   time.Time `json:"now"`
	Since time.Time `json:"since"` // the cursor
	Begun time.Time `json:"begun"` // of the outbox: nothing before counts
	// Seen are the keys of events after the cursor less the overlap that the outbox has.
	Seen []string `json:"seen,omitempty"`
	// Standing is the newest that the outbox has.
	Standing string `json:"standing,omitempty"`
	Deaf     int    `json:"deaf,omitempty"` // how many the outbox knows
	// Silent has what did not answer the watcher before this one, and since when.
	Silent map[string]time.Time `json:"silent,omitempty"`
}

// WatchEventsResult has what was found.
type WatchEventsResult struct {
	// Seen has the time of each event that rules name, with or without notices.
	Seen    map[string]time.Time `json:"seen,omitempty"`
	Notices []protocol.Notice    `json:"notices,omitempty"`
	Cursor  time.Time            `json:"cursor"`
	Problem string               `json:"problem,omitempty"`
	Deaf    []string             `json:"deaf,omitempty"`
	// Silent has what does not answer, and since when: the next watcher goes on from there.
	Silent map[string]time.Time `json:"silent,omitempty"`

	Standing protocol.NotifyStanding `json:"standing"`
	Limit    int                     `json:"limit"` // of messages for one person by one channel
	Per      time.Duration           `json:"per"`
	RetryFor time.Duration           `json:"retry_for"`
}

// WatchEvents looks until it finds events that rules name, or something else changes that the
// outbox keeps.
func (a *Activities) WatchEvents(ctx context.Context, in WatchEventsInput) (WatchEventsResult, error) {
	if _, err := a.rules(); err != nil {
		return WatchEventsResult{}, err
	}
	begun := a.site.Now()
	w := &watcher{c: a.site.Temporal, queue: activity.GetInfo(ctx).TaskQueue, zone: in.Zone,
		known: map[string]*session{}, deaf: map[string]time.Time{}, tried: map[string]try{}, asked: map[string]time.Time{}, seen: map[string]bool{}}
	for what, since := range in.Silent {
		w.deaf[what], w.tried[what] = since, try{at: in.Now}
	}
	w.looking = a.site.Looks
	w.others = w.deaf[others]
	delete(w.deaf, others)
	for _, k := range in.Seen {
		w.seen[k] = true
	}
	stop := activity.GetWorkerStopChannel(ctx)
	out := WatchEventsResult{Cursor: in.Since}
	for {
		r := a.site.Notify.Current()
		standing := a.site.Notify.Standing()
		out.Standing = standing
		out.Limit, out.Per = r.Limit()
		out.RetryFor = r.RetryFor()
		// Now is the server's clock: only what passed since then is by this worker's.
		now := in.Now.Add(max(0, a.site.Now().Sub(begun)))
		w.rules, w.now, w.since = r, now, in.Begun
		w.round++
		if s := out.Cursor.Add(-Overlap); s.After(in.Begun) {
			w.since = s
		}
		start := a.site.Now()
		out.Problem = w.look(ctx)
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		more := w.plan(ctx, &out)
		if w.settled(&out) && !more && now.After(out.Cursor) {
			out.Cursor = now
		}
		if len(out.Notices) > 0 || out.Standing.Digest+out.Standing.Broken != in.Standing || len(out.Deaf) > in.Deaf || a.site.Now().Sub(begun) > watchFor {
			return out, nil
		}
		pause := max(shortest, 10*a.site.Now().Sub(start))
		select {
		case <-ctx.Done():
			return out, ctx.Err()
		case <-stop: // another worker goes on from the cursor
			return out, nil
		case <-time.After(pause):
		}
	}
}

// plan adds what was found to a result, up to a bound. more says that something is left.
func (w *watcher) plan(ctx context.Context, out *WatchEventsResult) (more bool) {
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	known := map[string]bool{}
	looks := func(person string) bool {
		is, asked := known[person]
		if !asked && w.looking != nil && ctx.Err() == nil {
			is = w.looking(ctx, person)
			known[person] = is
		}
		return is
	}
	slices.SortStableFunc(w.found, func(a, b found) int { return a.At.Compare(b.At) })
	for _, f := range w.found {
		if w.seen[f.Key] || !f.At.After(w.since) {
			continue
		}
		f.facts.Looks = looks
		all := w.rules.Plan(f.NotifyEvent, f.facts, f.lead, w.now)
		if len(all) == 0 {
			continue // perhaps later rules name it
		}
		if len(out.Notices)+len(all) > maxReturned && len(out.Notices) > 0 {
			return true
		}
		w.seen[f.Key] = true
		if out.Seen == nil {
			out.Seen = map[string]time.Time{}
		}
		out.Seen[f.Key] = f.At
		out.Notices = append(out.Notices, bounded(all)...)
	}
	return false
}

// bounded returns the notices of one event. If several rules together make too many, one that
// failed stands for the rest.
func bounded(all []protocol.Notice) []protocol.Notice {
	if len(all) <= maxReturned {
		return all
	}
	rest := all[maxReturned-1]
	rest.Person, rest.Channel, rest.NotBefore, rest.State = "", "", time.Time{}, protocol.NoticeFailed
	rest.Reason = fmt.Sprintf("%d notices of one event are too many: %d of them were dropped", len(all), len(all)-maxReturned+1)
	return append(all[:maxReturned-1:maxReturned-1], rest)
}

// others stands for what is silent beyond maxSilent.
const others = "others"

// A try is when something failed to answer for the last time.
type try struct {
	at    time.Time
	round int
}

// settled reports whether everything could be asked, or has been silent for too long.
func (w *watcher) settled(out *WatchEventsResult) bool {
	waits := false
	out.Deaf = nil
	for _, what := range slices.Sorted(maps.Keys(w.deaf)) {
		switch t := w.tried[what]; {
		case w.round-t.round >= 3 && w.now.Sub(t.at) > missedFor: // it is gone
			delete(w.deaf, what)
			delete(w.tried, what)
		case !w.gaveUp(what):
			waits = true
			if out.Problem == "" {
				out.Problem = fmt.Sprintf("%s cannot be asked", what)
			}
		case len(out.Deaf) < 50 && patience(what) == deafFor:
			out.Deaf = append(out.Deaf, what)
		}
	}
	out.Silent = w.silent()
	return !waits
}

// silent returns what does not answer, the longest silent first if there is too much of it.
func (w *watcher) silent() map[string]time.Time {
	out := maps.Clone(w.deaf)
	if len(out) <= maxSilent {
		return out
	}
	all := slices.SortedFunc(maps.Keys(out), func(a, b string) int { return cmp.Or(out[a].Compare(out[b]), cmp.Compare(a, b)) })
	out[others] = out[all[maxSilent]]
	for _, what := range all[maxSilent:] {
		delete(out, what)
	}
	return out
}

// patience is how long the cursor waits for something. A session that was refused never answers.
func patience(what string) time.Duration {
	if strings.HasPrefix(what, endedSession) {
		return unwell
	}
	return deafFor
}

// gaveUp reports whether something has been silent for too long.
func (w *watcher) gaveUp(what string) bool {
	since, ok := w.deaf[what]
	return ok && w.now.Sub(since) >= patience(what)
}

// heard notes whether something could be asked.
func (w *watcher) heard(what string, err error) bool {
	if err == nil {
		delete(w.deaf, what)
		delete(w.tried, what)
		return true
	}
	if _, ok := w.deaf[what]; !ok {
		w.deaf[what] = w.now
		if !w.others.IsZero() { // it may be one of them
			w.deaf[what] = w.others
		}
	}
	w.tried[what] = try{w.now, w.round}
	return false
}

// A found event, with what rules see of it.
type found struct {
	protocol.NotifyEvent
	facts notify.Facts
	lead  time.Duration
}

func short(id string) string { return strings.TrimPrefix(id, "session/") }
