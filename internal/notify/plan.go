package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// Facts are what rules see of an event's session, beside the event.
type Facts struct {
	Labels map[string]string
	Origin string // as in a session's view
	// Looks says whether a person has the inbox open now; nil means that nobody has.
	Looks func(person string) bool
}

// Plan returns the notices of an event: at most one for each channel and person. now is the
// server's time. lead is of an expiring approval: only rules with that before count.
func (r *Rules) Plan(e protocol.NotifyEvent, f Facts, lead time.Duration, now time.Time) (all []protocol.Notice) {
	at := map[string]int{}
	for _, one := range r.file.Rules {
		if !slices.Contains(one.Events, e.Kind) || e.Kind == protocol.EventApprovalExpiring && one.Before != lead || !one.Sessions.match(e, f) {
			continue
		}
		for _, n := range r.targets(one, e) {
			n = r.notice(n, e, now)
			n.Rule = one.Name
			if n.Channel == "" {
				n.State = protocol.NoticeSuppressed
			}
			if p, ok := r.person(n.Person); ok && !one.Urgent && n.State == protocol.NoticePending {
				quieten(&n, p.Quiet, now)
				r.leaveAlone(&n, f, now)
			}
			// Of two rules for the same person and channel, the one that tells sooner counts.
			if i, ok := at[n.ID]; !ok {
				at[n.ID] = len(all)
				all = append(all, n)
			} else if sooner(n, all[i]) {
				all[i] = n
			}
		}
	}
	return all
}

// PlanTest returns the notices of a test, for a channel, a person or, if to is empty, all. Quiet
// hours do not count.
func (r *Rules) PlanTest(e protocol.NotifyEvent, to string, now time.Time) (all []protocol.Notice, err error) {
	add := func(channel, person string) {
		all = append(all, r.notice(protocol.Notice{Channel: channel, Person: person}, e, now))
	}
	for _, name := range slices.Sorted(maps.Keys(r.file.Channels)) {
		c := r.file.Channels[name]
		if (to == "" || to == name) && (c.Kind == Webhook || c.Kind == Shoutrrr || c.Channel != "" || c.To != "") {
			add(name, "")
		}
	}
	for _, p := range r.file.People {
		for _, ch := range r.channelsOf(p, nil) {
			if to == "" || to == p.Name {
				add(ch, p.Name)
			}
		}
	}
	if len(all) == 0 {
		if _, ok := r.file.Channels[to]; ok {
			return nil, fmt.Errorf("channel %s reaches people only: name one of them", to)
		}
		return nil, fmt.Errorf("%.100q is none of the channels and people of the rules", to)
	}
	return all, nil
}

func (r *Rules) notice(n protocol.Notice, e protocol.NotifyEvent, now time.Time) protocol.Notice {
	sum := sha256.Sum256([]byte(e.Key + "\x00" + n.Channel + "\x00" + n.Person))
	n.ID, n.Event, n.State, n.CreatedAt = "ntc_"+hex.EncodeToString(sum[:10]), e, protocol.NoticePending, now.UTC()
	return n
}

func sooner(a, b protocol.Notice) bool {
	if (a.State == protocol.NoticePending) != (b.State == protocol.NoticePending) {
		return a.State == protocol.NoticePending
	}
	return a.NotBefore.Before(b.NotBefore)
}

// targets returns the channels and people of a rule. A person who cannot be reached has no
// channel.
func (r *Rules) targets(one rule, e protocol.NotifyEvent) (all []protocol.Notice) {
	by := one.By
	person := func(name string) {
		p, ok := r.person(name)
		channels := r.channelsOf(p, by)
		for _, ch := range channels {
			all = append(all, protocol.Notice{Channel: ch, Person: name})
		}
		if !ok || len(channels) == 0 {
			all = append(all, protocol.Notice{Person: name, Reason: "the rules do not say how to reach this person"})
		}
	}
	for _, to := range one.To {
		if name, ok := strings.CutPrefix(to, "channel:"); ok {
			all = append(all, protocol.Notice{Channel: name})
		} else if name, ok := strings.CutPrefix(to, "team:"); ok {
			i := slices.IndexFunc(r.file.Teams, func(t team) bool { return t.Name == name })
			for _, m := range r.file.Teams[i].Members {
				person(m)
			}
		} else if to == owner {
			if e.Owner != "" {
				person(e.Owner)
			}
		} else {
			person(to)
		}
	}
	return all
}

func quieten(n *protocol.Notice, q *quiet, now time.Time) {
	until, is := q.until(now)
	switch {
	case !is:
	case q.Then == "drop":
		n.State, n.Reason = protocol.NoticeSuppressed, "quiet hours"
	default:
		n.NotBefore, n.Reason = until.UTC(), "quiet hours"
	}
}

// shortestHold is the least time for which the expiry of an approval lets a notice be held back.
const shortestHold = 5 * time.Second

// leaveAlone holds back what a person sees in the inbox that they have open. If they decide it,
// they are not told: what is over is not sent. The greater part of the time until an approval
// expires is left to whoever is told then.
func (r *Rules) leaveAlone(n *protocol.Notice, f Facts, now time.Time) {
	hold := r.file.Looking
	if at := n.Event.ExpiresAt; !at.IsZero() {
		if most := at.Sub(now) / 4; most < hold {
			hold = most
			if hold < shortestHold {
				return
			}
		}
	}
	if n.Event.Kind == protocol.EventApprovalOpened && hold > 0 && n.State == protocol.NoticePending && n.NotBefore.IsZero() && f.Looks != nil && f.Looks(n.Person) {
		n.NotBefore, n.Reason = now.Add(hold).UTC(), "the person has the inbox open"
	}
}

// until returns the end of the quiet hours in which now is.
func (q *quiet) until(now time.Time) (time.Time, bool) {
	if q == nil {
		return time.Time{}, false
	}
	local := now.In(q.zone)
	since := time.Duration(local.Hour())*time.Hour + time.Duration(local.Minute())*time.Minute + time.Duration(local.Second())*time.Second
	end := func(days int) time.Time {
		// Date takes care of days on which the clock is moved.
		return time.Date(local.Year(), local.Month(), local.Day()+days, 0, int(q.to/time.Minute), 0, 0, q.zone)
	}
	switch {
	case q.from < q.to && since >= q.from && since < q.to:
		return end(0), true
	case q.from > q.to && since >= q.from:
		return end(1), true
	case q.from > q.to && since < q.to:
		return end(0), true
	}
	return time.Time{}, false
}

func (s sessions) match(e protocol.NotifyEvent, f Facts) bool {
	has := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	if !has(s.Owners, e.Owner) || !has(s.Hosts, e.Host) || !has(s.Seeds, e.Seed) {
		return false
	}
	if len(s.IDs) > 0 && !slices.ContainsFunc(s.IDs, func(p string) bool { ok, err := path.Match(p, e.Session); return ok && err == nil }) {
		return false
	}
	for k, v := range s.Labels {
		if f.Labels[k] != v {
			return false
		}
	}
	origin, _, _ := strings.Cut(f.Origin, "/")
	if origin == "" {
		origin = "person"
	}
	return has(s.Origins, origin)
}

func (s sessions) text() string {
	var all []string
	add := func(what string, list []string) {
		if len(list) > 0 {
			all = append(all, what+" "+strings.Join(list, ", "))
		}
	}
	add("ids", s.IDs)
	add("owners", s.Owners)
	for _, k := range slices.Sorted(maps.Keys(s.Labels)) {
		all = append(all, "label "+k+"="+s.Labels[k])
	}
	add("origins", s.Origins)
	add("hosts", s.Hosts)
	add("seeds", s.Seeds)
	return strings.Join(all, "; ")
}
