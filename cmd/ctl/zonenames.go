package main

import (
	"context"
	_ "embed"
	"errors"
	"path"
	"strings"

	"go.temporal.io/api/serviceerror"

	"fairlead.dev/fairlead/internal/batchfile"
	"fairlead.dev/fairlead/workflows"
)

// timeZones lists the names in Go's copy of the IANA database. Go has no function that
// lists them.
//
//go:embed timezones.txt
var timeZones string

// mostMeant is the largest number of names in a suggestion.
const mostMeant = 3

// meant returns the known names that are most similar to a word: names whose last part is
// the word, or else names with the fewest different letters.
func meant(word string, known []string) (out []string) {
	word = strings.ToLower(word)
	least := 1
	if len(word) > 4 {
		least = 2
	}
	for _, name := range known {
		far := batchfile.Distance(word, strings.ToLower(name))
		switch last := strings.ToLower(path.Base(name)); {
		case last == path.Base(word):
			far = 0
		case !strings.Contains(word, "/"):
			far = min(far, batchfile.Distance(word, last))
		}
		if far < least {
			least, out = far, nil
		}
		if far == least {
			out = append(out, name)
		}
	}
	return out[:min(len(out), mostMeant)]
}

// badTimeZone refuses an unknown time zone.
func badTimeZone(name string) error {
	e := usage("--tz %q is no time zone", name)
	if near := meant(name, strings.Fields(timeZones)); len(near) > 0 {
		return e.hinted("is %s meant?", strings.Join(near, " or "))
	}
	return e.hinted("one of the IANA database, such as Europe/Berlin or UTC")
}

// knownZone refuses a zone that never had a worker, because a session there would wait for
// ever. The default zone is always allowed: its first worker may be starting.
func (t *temporal) knownZone(ctx context.Context, doing, zone string) error {
	name := workflows.ZoneOf(workflows.TaskQueueOf(zone))
	if name == workflows.ZoneOf(workflows.TaskQueueOf("")) {
		return nil
	}
	bctx, cancel := t.app.bounded(ctx, answerWait)
	defer cancel()
	_, err := t.DescribeWorkflowExecution(bctx, workflows.PoolID(zone), "")
	var gone *serviceerror.NotFound
	if !errors.As(err, &gone) {
		return t.explain(bctx, doing, err)
	}
	zones, lerr := t.zones(bctx)
	if lerr != nil {
		return lerr
	}
	hint := "check the zone; a worker's config names its own"
	if near := meant(name, zones); len(near) > 0 {
		hint = "is " + strings.Join(near, " or ") + " meant?"
	} else if n := len(zones); n > 0 {
		const most = 12
		hint = "there are " + strings.Join(zones[:min(n, most)], ", ")
		if n > most {
			hint += ", …: `ctl pool list` shows them all"
		}
	}
	return notFound("%s: no worker has ever served zone %q", doing, name).hinted("%s", hint).because(err)
}
