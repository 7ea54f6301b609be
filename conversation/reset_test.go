package conversation

import (
	"fmt"
	"testing"
	"time"
)

func TestResetTimesAreReadFromWhatCodexSays(t *testing.T) {
	at := time.Date(2026, 11, 22, 23, 30, 20, 0, time.UTC)
	east := func() *time.Location { return time.FixedZone("", 5*3600+1800) } // there it is 05:00:20 of the 23rd
	utc := func() *time.Location { return time.UTC }
	for _, c := range []struct {
		text string
		zone func() *time.Location
		want string
	}{
		{"Rate limit reached. Please try again in 1.2s.", nil, "2026-11-22T23:30:21.2Z"},
		{"Please try again in 500ms. Visit", nil, "2026-11-22T23:30:20.5Z"},
		{"try again in 6m0s", nil, "2026-11-22T23:36:20Z"},
		{"Try again in 2 days 3 hours 5 minutes.", nil, "2026-11-25T02:35:20Z"},
		{"the limit resets in 1 hour, 30 minutes and 10 seconds", nil, "2026-11-23T01:00:30Z"},
		{"please retry after 30 seconds", nil, "2026-11-22T23:30:50Z"},
		{"purchase more credits or try again at 8:57 AM.", utc, "2026-11-23T08:57:00Z"},
		{"or try again at 11:31 PM.", utc, "2026-11-22T23:31:00Z"},
		{"or try again at 11:30 PM.", utc, "2026-11-22T23:31:00Z"}, // it is 11:30:20, so the named minute is not over
		{"or try again at 12:05 AM.", utc, "2026-11-23T00:05:00Z"},
		{"or try again at 12:05 PM.", utc, "2026-11-23T12:05:00Z"},
		{"or try again at 5:10 AM.", east, "2026-11-22T23:40:00Z"},
		{"or try again at Nov 25th, 2026 10:28 AM.", east, "2026-11-25T04:58:00Z"},
		{"or try again at Dec 1st, 2026 1:02 PM.", utc, "2026-12-01T13:02:00Z"},
		{"or try again at 2026-11-23T01:00:00+01:00.", nil, "2026-11-23T00:00:00Z"},
		// These times are not plausible.
		{"or try again at 8:57 AM.", nil, ""},
		{"or try again at 8:57 AM.", func() *time.Location { return nil }, ""},
		{"or try again at Nov 25th, 2020 10:28 AM.", utc, ""},
		{"or try again at Xyz 99th, 2026 10:28 AM.", utc, ""},
		{"or try again at 13:99 PM.", utc, ""},
		{"try again in 999999999 days", nil, ""},
		{"try again in 3 apples", nil, ""},
		{"try again later.", utc, ""},
		{"", utc, ""},
	} {
		want := time.Time{}
		if c.want != "" {
			var err error
			if want, err = time.Parse(time.RFC3339, c.want); err != nil {
				t.Fatal(err)
			}
		}
		if got := resetOf(c.text, at, c.zone); !got.Equal(want) {
			t.Errorf("%q: %s, want %s", c.text, got.Format(time.RFC3339Nano), c.want)
		}
	}
}

func FuzzResetTimes(f *testing.F) {
	for _, s := range []string{"try again in 1.2s", "try again at 8:57 AM.", "try again at Nov 25th, 2026 10:28 AM.", "resets in 6m0s", "again at 2026-11-23T01:00:00Z"} {
		f.Add(s)
	}
	at := time.Date(2026, 11, 22, 23, 30, 20, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		got := resetOf(text, at, func() *time.Location { return time.UTC })
		if !got.IsZero() && (got.Before(at.Add(-time.Minute)) || got.After(at.Add(longestReset))) {
			t.Errorf("%q: %s", text, got)
		}
	})
}

// If a failure's text names no time, the account's limits give it, if codex
// reported them.
func TestResetTimesAreOtherwiseThoseOfTheAccountsLimits(t *testing.T) {
	const at = 1795331000 // the time of the lines
	limits := func(primary, secondary string) string {
		return `{"method":"account/rateLimits/updated","emittedAtMs":1795331000000,"params":{"rateLimits":{"limitId":"codex","primary":` + primary + `,"secondary":` + secondary + `}}}`
	}
	window := func(used, resets int64) string {
		return fmt.Sprintf(`{"usedPercent":%d,"windowDurationMins":300,"resetsAt":%d}`, used, resets)
	}
	for name, c := range map[string]struct {
		limits, info, message string
		want                  int64
	}{
		"the reached one":         {limits(window(100, at+600), window(40, at+9000)), "usageLimitExceeded", "You've hit your usage limit.", at + 600},
		"both, the later":         {limits(window(100, at+600), window(100, at+9000)), "usageLimitExceeded", "You've hit your usage limit.", at + 9000},
		"the words come first":    {limits(window(100, at+600), "null"), "usageLimitExceeded", "You've hit your usage limit. Try again in 5 minutes.", at + 300},
		"none is reached":         {limits(window(99, at+600), "null"), "usageLimitExceeded", "You've hit your usage limit.", 0},
		"it is over":              {limits(window(100, at-600), "null"), "usageLimitExceeded", "You've hit your usage limit.", 0},
		"not a time":              {limits(window(100, 1<<60), "null"), "usageLimitExceeded", "You've hit your usage limit.", 0},
		"nothing was told":        {limits("null", "null"), "usageLimitExceeded", "You've hit your usage limit.", 0},
		"of another kind of fail": {limits(window(100, at+600), "null"), "badRequest", "no", 0},
	} {
		s := perform(t, PumpInput{State: running()}, Options{})
		s.hear(c.limits, turnDone("failed", fmt.Sprintf(`,"error":{"message":%q,"codexErrorInfo":%q}`, c.message, c.info)))
		got := int64(0)
		if p := s.result(TurnEnded).Turn.Problem; p != nil && !p.ResetAt.IsZero() {
			got = p.ResetAt.Unix()
		}
		if got != c.want {
			t.Errorf("%s: the limit ends at %d, want %d", name, got, c.want)
		}
	}
}
