package schedules

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
)

// A calendarField is a part of a time.
type calendarField struct {
	name     string
	min, max int
	names    []string // from min on; three letters are enough
}

var (
	fieldSecond  = calendarField{"second", 0, 59, nil}
	fieldMinute  = calendarField{"minute", 0, 59, nil}
	fieldHour    = calendarField{"hour", 0, 23, nil}
	fieldDay     = calendarField{"day", 1, 31, nil}
	fieldMonth   = calendarField{"month", 1, 12, []string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}}
	fieldWeekday = calendarField{"weekday", 0, 7, []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}}
	fieldYear    = calendarField{"year", 2000, 2099, nil}
)

var cronWords = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// parseCron reads cron's five fields. If day and weekday are restricted, either is enough.
func parseCron(text string) ([]client.ScheduleCalendarSpec, error) {
	expr := strings.TrimSpace(text)
	if strings.HasPrefix(expr, "@") {
		whole, ok := cronWords[expr]
		if !ok {
			return nil, fmt.Errorf("%q is not one of @hourly, @daily, @weekly, @monthly, @yearly", expr)
		}
		expr = whole
	}
	words := strings.Fields(expr)
	if len(words) != 5 {
		return nil, fmt.Errorf("%q has %d fields, not the 5 of cron: minute hour day month weekday", text, len(words))
	}
	given := map[string]string{}
	for i, f := range []calendarField{fieldMinute, fieldHour, fieldDay, fieldMonth, fieldWeekday} {
		given[f.name] = words[i]
	}
	everyDay, everyWeekday := strings.HasPrefix(words[2], "*"), strings.HasPrefix(words[4], "*")
	if everyDay || everyWeekday {
		cal, err := calendarOf(given)
		return []client.ScheduleCalendarSpec{cal}, err
	}
	var out []client.ScheduleCalendarSpec
	for _, free := range []string{fieldWeekday.name, fieldDay.name} {
		with := map[string]string{}
		for k, v := range given {
			with[k] = v
		}
		with[free] = "*"
		cal, err := calendarOf(with)
		if err != nil {
			// The first mistake of all may be in the field that is * here.
			_, err = calendarOf(given)
			return nil, err
		}
		out = append(out, cal)
	}
	if _, err := calendarOf(given); err != nil && !isNever(err) {
		return nil, err
	}
	return out, nil
}

// parseCalendar reads fields that must all match: "weekday=mon-fri hour=22 minute=0,30".
func parseCalendar(text string) (client.ScheduleCalendarSpec, error) {
	given := map[string]string{}
	for _, word := range strings.Fields(text) {
		name, values, ok := strings.Cut(word, "=")
		switch {
		case !ok || values == "":
			return client.ScheduleCalendarSpec{}, fmt.Errorf("%q is not field=values", word)
		case given[name] != "":
			return client.ScheduleCalendarSpec{}, fmt.Errorf("%s is given twice", name)
		}
		given[name] = values
	}
	if len(given) == 0 {
		return client.ScheduleCalendarSpec{}, fmt.Errorf("it names no field")
	}
	return calendarOf(given)
}

// A neverError is for a calendar without days.
type neverError struct{ what string }

func (e *neverError) Error() string { return e.what }

func isNever(err error) bool { _, ok := err.(*neverError); return ok }

// calendarOf reads values by field. Absent seconds, minutes and hours are 0; any day
// matches if absent.
func calendarOf(given map[string]string) (cal client.ScheduleCalendarSpec, err error) {
	known := map[string]bool{}
	for _, f := range []struct {
		calendarField
		to *[]client.ScheduleRange
	}{
		{fieldSecond, &cal.Second}, {fieldMinute, &cal.Minute}, {fieldHour, &cal.Hour}, {fieldDay, &cal.DayOfMonth},
		{fieldMonth, &cal.Month}, {fieldWeekday, &cal.DayOfWeek}, {fieldYear, &cal.Year},
	} {
		known[f.name] = true
		values, ok := given[f.name]
		if !ok {
			continue
		}
		if *f.to, err = f.ranges(values); err != nil {
			return cal, err
		}
	}
	for name := range given {
		if !known[name] {
			return cal, fmt.Errorf("%q is not one of second, minute, hour, day, month, weekday, year", name)
		}
	}
	if !hasDay(cal) {
		return cal, &neverError{fmt.Sprintf("day %s of month %s: there is no such day", given["day"], given["month"])}
	}
	return cal, nil
}

func hasDay(cal client.ScheduleCalendarSpec) bool {
	if len(cal.DayOfMonth) == 0 || len(cal.Month) == 0 {
		return true
	}
	for _, m := range cal.Month {
		for month := m.Start; month <= m.End; month += m.Step {
			last := time.Date(2000, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day() // a leap year
			for _, d := range cal.DayOfMonth {
				if d.Start <= last {
					return true
				}
			}
		}
	}
	return false
}

// ranges reads "*", "*/15", "1-5", "mon,wed-fri", "8-18/2".
func (f calendarField) ranges(text string) ([]client.ScheduleRange, error) {
	var out []client.ScheduleRange
	for part := range strings.SplitSeq(text, ",") {
		span, every, stepped := strings.Cut(part, "/")
		r := client.ScheduleRange{Step: 1}
		var err error
		if stepped {
			if r.Step, err = strconv.Atoi(every); err != nil || r.Step < 1 {
				return nil, fmt.Errorf("%s %q: %q is not a step", f.name, part, every)
			}
		}
		switch from, to, ranged := strings.Cut(span, "-"); {
		case span == "*":
			r.Start, r.End = f.min, f.max
			if f.name == fieldWeekday.name {
				r.End = 6
			}
		default:
			if r.Start, err = f.value(from); err != nil {
				return nil, err
			}
			r.End = r.Start
			if ranged {
				if r.End, err = f.value(to); err != nil {
					return nil, err
				}
			} else if stepped {
				r.End = f.max
			}
			if r.End < r.Start {
				return nil, fmt.Errorf("%s %q ends before it begins", f.name, part)
			}
		}
		out = append(out, f.sundays(r)...)
	}
	return out, nil
}

// sundays replaces cron's weekday 7 by 0.
func (f calendarField) sundays(r client.ScheduleRange) []client.ScheduleRange {
	if f.name != fieldWeekday.name || r.End < 7 {
		return []client.ScheduleRange{r}
	}
	var out []client.ScheduleRange
	for day := r.Start; day <= r.End; day += r.Step {
		out = append(out, client.ScheduleRange{Start: day % 7, End: day % 7, Step: 1})
	}
	return out
}

func (f calendarField) value(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err == nil {
		if n < f.min || n > f.max {
			return 0, fmt.Errorf("%s %s is not between %d and %d", f.name, text, f.min, f.max)
		}
		return n, nil
	}
	word := strings.ToLower(text)
	for i, name := range f.names {
		if len(word) >= 3 && strings.HasPrefix(name, word) {
			return f.min + i, nil
		}
	}
	article := "a"
	if f.name == fieldHour.name {
		article = "an"
	}
	return 0, fmt.Errorf("%q is not %s %s", text, article, f.name)
}
