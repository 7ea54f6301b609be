package schedules

import (
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/errkind"
)

// ParseMoment parses a time; its zone defaults to in. flag is for errors.
func ParseMoment(flag, text string, in *time.Location) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, in); err == nil {
			return at, nil
		}
	}
	return time.Time{}, errkind.Usage("%s %q is not a time", flag, text).Hinted("2026-01-31, 2026-01-31T22:30 (in the schedule's time zone) or 2026-01-31T22:30:00Z")
}

// Location returns a time zone.
func Location(name string) (*time.Location, error) {
	loc, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, errkind.Usage("--tz %q is not a time zone", name).Hinted("one of the IANA database, such as Europe/Berlin or UTC")
	}
	return loc, nil
}

// When says when a schedule begins something: the flags of `ctl schedule create`.
type When struct {
	Cron, Calendar, Except []string
	Every                  []time.Duration
	TZ, From, Until        string
	Jitter, Catchup        time.Duration
}

// Spec checks all of it.
func (f *When) Spec() (spec client.ScheduleSpec, err error) {
	loc, err := Location(f.TZ)
	if err != nil {
		return spec, err
	}
	spec.TimeZoneName, spec.Jitter = f.TZ, f.Jitter
	for _, text := range f.Cron {
		cals, err := parseCron(text)
		if err != nil {
			return spec, errkind.Usage("--cron: %v", err).Hinted("as in 30 22 * * 1-5: at 22:30 from Monday to Friday")
		}
		spec.Calendars = append(spec.Calendars, cals...)
	}
	for _, text := range f.Calendar {
		cal, err := parseCalendar(text)
		if err != nil {
			return spec, errkind.Usage("--calendar %q: %v", text, err).Hinted(`as in "weekday=mon-fri hour=22 minute=30"`)
		}
		spec.Calendars = append(spec.Calendars, cal)
	}
	for _, text := range f.Except {
		cal, err := parseCalendar(text)
		if err != nil {
			return spec, errkind.Usage("--except %q: %v", text, err).Hinted(`as in "month=dec day=24-31"`)
		}
		spec.Skip = append(spec.Skip, wholeDay(cal))
	}
	for _, d := range f.Every {
		if d < time.Second || d%time.Second != 0 {
			return spec, errkind.Usage("--every %s is not a whole number of seconds", d)
		}
		spec.Intervals = append(spec.Intervals, client.ScheduleIntervalSpec{Every: d})
	}
	if len(spec.Calendars)+len(spec.Intervals) == 0 {
		return spec, errkind.Usage("the schedule has no times").Hinted(`give --cron "30 22 * * 1-5", --every 6h or --calendar "hour=22"`)
	}
	if f.Jitter < 0 || f.Catchup < 10*time.Second {
		return spec, errkind.Usage("--jitter must not be negative, and --catchup must be at least 10s")
	}
	return spec, f.bounds(&spec, loc)
}

func (f *When) bounds(spec *client.ScheduleSpec, loc *time.Location) (err error) {
	if f.From != "" {
		if spec.StartAt, err = ParseMoment("--from", f.From, loc); err != nil {
			return err
		}
	}
	if f.Until != "" {
		if spec.EndAt, err = ParseMoment("--until", f.Until, loc); err != nil {
			return err
		}
		if !spec.EndAt.After(spec.StartAt) || !spec.EndAt.After(time.Now()) {
			return errkind.Usage("--until %s is in the past, or not after --from: nothing would ever begin", f.Until)
		}
	}
	return nil
}

// wholeDay makes a calendar of days match all of each day.
func wholeDay(cal client.ScheduleCalendarSpec) client.ScheduleCalendarSpec {
	for _, f := range []struct {
		is  *[]client.ScheduleRange
		end int
	}{{&cal.Hour, 23}, {&cal.Minute, 59}, {&cal.Second, 59}} {
		if len(*f.is) == 0 {
			*f.is = []client.ScheduleRange{{Start: 0, End: f.end, Step: 1}}
		}
	}
	return cal
}

// Words says it for people.
func (f *When) Words() (out []string) {
	for _, d := range f.Every {
		out = append(out, "every "+flows.RoundTime(d.String()))
	}
	for _, list := range []struct {
		before string
		of     []string
	}{{"cron ", f.Cron}, {"", f.Calendar}, {"except ", f.Except}} {
		for _, text := range list.of {
			out = append(out, list.before+strings.Join(strings.Fields(text), " "))
		}
	}
	return out
}
