package schedules

import (
	"fmt"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"
)

// written returns a calendar in short form: the ranges of each field that has any.
func written(cal client.ScheduleCalendarSpec) string {
	var out []string
	for _, f := range []struct {
		name string
		is   []client.ScheduleRange
	}{{"s", cal.Second}, {"m", cal.Minute}, {"h", cal.Hour}, {"d", cal.DayOfMonth}, {"mon", cal.Month}, {"wd", cal.DayOfWeek}, {"y", cal.Year}} {
		for _, r := range f.is {
			out = append(out, fmt.Sprintf("%s=%d-%d/%d", f.name, r.Start, r.End, r.Step))
		}
	}
	return strings.Join(out, " ")
}

func TestCronIsReadAsCronReadsIt(t *testing.T) {
	for _, c := range []struct{ cron, want string }{
		{"30 22 * * 1-5", "m=30-30/1 h=22-22/1 d=1-31/1 mon=1-12/1 wd=1-5/1"},
		{"*/15 8-18/2 * * *", "m=0-59/15 h=8-18/2 d=1-31/1 mon=1-12/1 wd=0-6/1"},
		{"5/20 0 1 jan,JUL *", "m=5-59/20 h=0-0/1 d=1-1/1 mon=1-1/1 mon=7-7/1 wd=0-6/1"},
		{"0 0 * * fri-7", "m=0-0/1 h=0-0/1 d=1-31/1 mon=1-12/1 wd=5-5/1 wd=6-6/1 wd=0-0/1"},
		{"@weekly", "m=0-0/1 h=0-0/1 d=1-31/1 mon=1-12/1 wd=0-0/1"},
		{" 0  3 * * * ", "m=0-0/1 h=3-3/1 d=1-31/1 mon=1-12/1 wd=0-6/1"},
		{"0 0 13 * fri", "m=0-0/1 h=0-0/1 d=13-13/1 mon=1-12/1 wd=0-6/1 | m=0-0/1 h=0-0/1 d=1-31/1 mon=1-12/1 wd=5-5/1"},
	} {
		cals, err := parseCron(c.cron)
		if err != nil {
			t.Errorf("%q: %v", c.cron, err)
			continue
		}
		var got []string
		for _, cal := range cals {
			got = append(got, written(cal))
		}
		if strings.Join(got, " | ") != c.want {
			t.Errorf("%q is %s, want %s", c.cron, strings.Join(got, " | "), c.want)
		}
	}
	for cron, says := range map[string]string{
		"":                "0 fields",
		"0 0 * *":         "4 fields",
		"0 0 * * * *":     "6 fields",
		"60 0 * * *":      "minute 60 is not between 0 and 59",
		"0 24 * * *":      "hour 24",
		"0 0 0 * *":       "day 0",
		"0 0 * 13 *":      "month 13",
		"0 0 * * 8":       "weekday 8",
		"0 0 * * mo":      `"mo" is not a weekday`,
		"0 0 1 * someday": `"someday" is not a weekday`,
		"5-1 0 * * *":     "ends before it begins",
		"*/0 0 * * *":     "is not a step",
		"*/x 0 * * *":     "is not a step",
		"1,,2 0 * * *":    "is not a minute",
		"0 0 30 2 *":      "there is no such day",
		"@sometimes":      "not one of @hourly",
		"@every 5m":       "not one of @hourly",
	} {
		if _, err := parseCron(cron); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", cron, err, says)
		}
	}
}

func TestACalendarMatchesAllThatItNames(t *testing.T) {
	cal, err := parseCalendar("weekday=mon-fri hour=22,23 minute=*/30 year=2030")
	if got := written(cal); err != nil || got != "m=0-59/30 h=22-22/1 h=23-23/1 wd=1-5/1 y=2030-2030/1" {
		t.Errorf("it is %s, %v", got, err)
	}
	for text, says := range map[string]string{
		"": "names no field", "hour": "not field=values", "hour=": "not field=values", "hour=1 hour=2": "twice",
		"week=3": "not one of second", "day=31 month=feb,apr": "no such day", "year=1999": "not between",
	} {
		if _, err := parseCalendar(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}
