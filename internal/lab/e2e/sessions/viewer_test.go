package sessions

import (
	"context"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

// A viewer who connects while a session waits for a person sees the turn so far
// and the request, each once; then the outcome; and, like all viewers, the end.
func TestAViewerWhoComesDuringAnApprovalSeesItOnceAndTheEnd(t *testing.T) {
	e2e.Session(t, "viewed")
	ctx, cancel := context.WithCancel(e2e.Within(t))
	defer cancel()
	steady := newEvents(t, e2e.Lab.Command(ctx, "session", "follow", "viewed", "-o", "json"))
	e2e.Send(t, "viewed", "I need a command")
	id := e2e.Open(t, "viewed", 1)[0].ID
	late := newEvents(t, e2e.Lab.Command(ctx, "session", "follow", "viewed", "-o", "json"))
	late.await("the request", func(e event) bool { return e.Event == "entry" && e.Type == "request" })
	e2e.OK(t, "approval", "accept", id)
	late.await("the decision", func(e event) bool { return e.Event == "entry" && e.Type == "decision" })
	e2e.Ended(t, "viewed", 1)
	e2e.OK(t, "session", "close", "viewed")
	if out := e2e.OK(t, "session", "close", "viewed"); !strings.Contains(out, "session viewed is closed") { // it was closed already, which is success
		t.Errorf("closed again: %s", out)
	}
	var record []string
	for _, e := range e2e.Transcript(t, "viewed") {
		record = append(record, e.ID)
	}
	for name, viewer := range map[string]*events{"steady": steady, "late": late} {
		all, requests, last := viewer.end(), 0, event{}
		var entries []string
		for _, e := range all {
			if e.Event == "entry" {
				entries, last = append(entries, e.ID), e
			}
			if e.Event == "entry" && e.Type == "request" {
				requests++
			}
		}
		if strings.Join(entries, " ") != strings.Join(record, " ") || requests != 1 {
			t.Errorf("%s saw %d requests and\n%s\non record is\n%s", name, requests, strings.Join(entries, "\n"), strings.Join(record, "\n"))
		}
		if last.Type != "state" || last.Text != "closed" {
			t.Errorf("the last entry that %s saw is %+v", name, last)
		}
	}
}
