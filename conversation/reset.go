package conversation

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// codex says only in an error's text when a limit ends: a duration, or a time of day on its
// host, with the date if it is not today.
var (
	resetsIn  = regexp.MustCompile(`(?i)\b(?:again|resets?|retry) (?:in|after) (?:about )?((?:\d{1,9}(?:\.\d{1,9})?\s*[a-z]+[\s,]*(?:and\s+)?)+)`)
	resetPart = regexp.MustCompile(`(?i)(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)\b`)
	// The next number may follow directly, as in 1m30s.
	resetShort = regexp.MustCompile(`(?i)([a-z])(\d)`)
	resetsAt   = regexp.MustCompile(`(?i)\b(?:again|resets?) (?:at|on) (?:([a-z]{3}) (\d{1,2})(?:st|nd|rd|th), (\d{4}) )?(\d{1,2}):(\d{2}) ([ap]m)`)
	resetsISO  = regexp.MustCompile(`(?i)\b(?:again|resets?|retry) (?:at|on|after) (\d{4}-\d\d-\d\dt[0-9:.]+(?:z|[+-]\d\d:\d\d))`)
)

// longestReset bounds plausible waits.
const longestReset = 400 * 24 * time.Hour

// resetOf returns when a limit ends according to a text that codex wrote at the time at, or
// the zero time. zone returns codex's time zone; a nil zone or result means that it is
// unknown.
func resetOf(text string, at time.Time, zone func() *time.Location) time.Time {
	if m := resetsISO.FindStringSubmatch(text); m != nil {
		if t, err := time.Parse(time.RFC3339, strings.ToUpper(m[1])); err == nil {
			return believed(t, at)
		}
	}
	if m := resetsIn.FindStringSubmatch(text); m != nil {
		if d := spanOf(m[1]); d > 0 {
			return believed(at.Add(d), at)
		}
	}
	m := resetsAt.FindStringSubmatch(text)
	if m == nil || zone == nil {
		return time.Time{}
	}
	where := zone()
	if where == nil {
		return time.Time{}
	}
	clock := m[4] + ":" + m[5] + " " + strings.ToUpper(m[6])
	if m[1] != "" {
		month := strings.ToUpper(m[1][:1]) + strings.ToLower(m[1][1:])
		t, err := time.ParseInLocation("Jan 2 2006 3:04 PM", month+" "+m[2]+" "+m[3]+" "+clock, where)
		if err != nil {
			return time.Time{}
		}
		return believed(within(t, at), at)
	}
	t, err := time.Parse("3:04 PM", clock)
	if err != nil {
		return time.Time{}
	}
	day := at.In(where)
	t = time.Date(day.Year(), day.Month(), day.Day(), t.Hour(), t.Minute(), 0, 0, where)
	if t.Before(day.Truncate(time.Minute)) { // codex gives no seconds
		t = t.AddDate(0, 0, 1)
	}
	return believed(within(t, at), at)
}

// within returns the end of the minute that codex names, if it has begun: codex drops the
// seconds.
func within(t, at time.Time) time.Time {
	if !t.After(at) && at.Sub(t) < time.Minute {
		return t.Add(time.Minute)
	}
	return t
}

// believed returns t in UTC if plausible, and the zero time otherwise.
func believed(t, at time.Time) time.Time {
	if t.Before(at.Add(-time.Minute)) || t.After(at.Add(longestReset)) {
		return time.Time{}
	}
	return t.UTC()
}

// spanOf reads durations like "1 hour 30 minutes", "6m0s" or "1.2s".
func spanOf(text string) time.Duration {
	text = resetShort.ReplaceAllString(text, "$1 $2")
	var all float64
	for _, p := range resetPart.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(p[1], 64)
		if err != nil {
			return 0
		}
		all += n * float64(unitOf(strings.ToLower(p[2])))
	}
	if all > float64(longestReset) {
		return 0
	}
	return time.Duration(all)
}

func unitOf(word string) time.Duration {
	switch {
	case word == "ms" || strings.HasPrefix(word, "milli"):
		return time.Millisecond
	case word[0] == 's':
		return time.Second
	case word[0] == 'm':
		return time.Minute
	case word[0] == 'h':
		return time.Hour
	}
	return 24 * time.Hour
}

// reset sets when the limit that failed a turn ends.
func (t *turns) reset(p *protocol.Problem) *protocol.Problem {
	if p == nil || p.Kind != protocol.EndQuota && p.Kind != protocol.EndRateLimit {
		return p
	}
	p.ResetAt = resetOf(p.Message, t.at(), t.opt.Zone)
	if p.ResetAt.IsZero() {
		p.ResetAt = limitsReset(t.st.RateLimits, t.at())
	}
	return p
}

// limitsReset returns when the reached limit ends, the later time if two are reached, zero
// if none is.
func limitsReset(l *protocol.RateLimits, at time.Time) (end time.Time) {
	if l == nil {
		return end
	}
	for _, w := range []*protocol.RateWindow{l.Primary, l.Secondary} {
		if w == nil || w.UsedPercent < 100 || w.ResetsAt <= 0 {
			continue
		}
		t := believed(time.Unix(w.ResetsAt, 0), at)
		if t.After(end) {
			end = t
		}
	}
	return end
}
