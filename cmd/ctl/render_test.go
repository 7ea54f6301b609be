package main

import (
	"bytes"
	"testing"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/api"
)

func TestAStreamedMessageIsShownWholeAndOnce(t *testing.T) {
	entry := api.Event{Kind: api.KindEntry, Entry: &activities.Entry{Item: "i1", Type: activities.EntryAssistant, Text: "all is well, yes"}}
	delta := func(item, text string) api.Event {
		return api.Event{Kind: api.KindDelta, Delta: &activities.Delta{Item: item, Type: activities.EntryAssistant, Text: text}}
	}
	for what, c := range map[string]struct {
		events []api.Event
		want   string
	}{
		"all of it streamed":        {[]api.Event{delta("i1", "all is "), delta("i1", "well, yes"), entry}, "all is well, yes\n"},
		"its end held back":         {[]api.Event{delta("i1", "all is well, ye"), entry}, "all is well, yes\n"},
		"its beginning missed":      {[]api.Event{delta("i1", "well, yes"), entry}, "well, yes\nall is well, yes\n"},
		"another one being written": {[]api.Event{delta("i2", "so"), entry}, "so\nall is well, yes\n"},
	} {
		var b bytes.Buffer
		r := &renderer{p: newPrinter(&b, false)}
		for _, ev := range c.events {
			r.event(ev)
		}
		if b.String() != c.want {
			t.Errorf("%s: shown as %q, want %q", what, b.String(), c.want)
		}
	}
}
