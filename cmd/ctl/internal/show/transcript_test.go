package show

import (
	"bytes"
	"testing"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestAStreamedMessageIsShownWholeAndOnce(t *testing.T) {
	entry := api.Event{Kind: api.KindEntry, Entry: &protocol.Entry{Item: "i1", Type: protocol.EntryAssistant, Text: "all is well, yes"}}
	delta := func(item, text string) api.Event {
		return api.Event{Kind: api.KindDelta, Delta: &protocol.Delta{Item: item, Type: protocol.EntryAssistant, Text: text}}
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
		r := &Renderer{P: core.NewPrinter(&b, false)}
		for _, ev := range c.events {
			r.Event(ev)
		}
		if b.String() != c.want {
			t.Errorf("%s: shown as %q, want %q", what, b.String(), c.want)
		}
	}
}

// Progress reports come from the worker, and later from the workflow.
func TestEachReportOfProgressIsShownOnceAndNoOlderOneBehindIt(t *testing.T) {
	report := func(text string, ms int64) api.Event {
		percent := 40
		return api.Event{Kind: api.KindState, State: &protocol.SessionLive{Progress: &protocol.Progress{Turn: 1, Text: text, Step: "tests", Percent: &percent, AtMS: ms}}}
	}
	var b bytes.Buffer
	r := &Renderer{P: core.NewPrinter(&b, false)}
	for _, ev := range []api.Event{
		{Kind: api.KindState, State: &protocol.SessionLive{}}, report("reading", 5), report("reading", 5),
		report("wri\x1bting", 7), report("reading", 5), report("checking", 7), report("wri\x1bting", 7),
	} {
		r.Event(ev)
	}
	if got, want := b.String(), "· progress: 40 %, tests: reading\n· progress: 40 %, tests: wri"+core.Clean("\x1b")+"ting\n· progress: 40 %, tests: checking\n"; got != want {
		t.Errorf("shown as\n%s, want\n%s", got, want)
	}
	if len(r.told) != 2 {
		t.Errorf("it remembers %d reports: those of one moment are enough", len(r.told))
	}
}

func TestTheRuleOfAVerdictIsShown(t *testing.T) {
	var b bytes.Buffer
	r := &Renderer{P: core.NewPrinter(&b, false)}
	for _, e := range []protocol.Entry{
		{Type: protocol.EntryRequest, Text: "codex asks: run make", Data: map[string]string{"rule": "default", "ruling": "no rule holds"}},
		{Type: protocol.EntryRequest, Text: "codex asks: run ls"},
		{Type: protocol.EntryDecision, Text: `decline by the policy, rule "hands off": run rm`, Data: map[string]string{"by": "policy", "rule": "hands off", "reason": "no"}},
		{Type: protocol.EntryDecision, Text: "accepted", Data: map[string]string{"by": "policy", "rule": "look around"}},
	} {
		r.Event(api.Event{Kind: api.KindEntry, Entry: &e})
	}
	want := "? codex asks: run make (policy: rule \"default\": no rule holds)\n? codex asks: run ls\n" +
		"! decline by the policy, rule \"hands off\": run rm by policy: no\n! accepted by policy (policy: rule \"look around\")\n"
	if b.String() != want {
		t.Errorf("shown as\n%s, want\n%s", b.String(), want)
	}
}

// The output of a command is shown while it runs, and only what is missing at its end.
func TestOutputOfACommandIsShownWhileItRuns(t *testing.T) {
	var b bytes.Buffer
	r := &Renderer{P: core.NewPrinter(&b, false)}
	piece := func(at int64, text string) {
		r.Event(api.Event{Kind: api.KindDelta, Delta: &protocol.Delta{Item: "c", Type: protocol.EntryCommand, At: at, Text: text, Command: "make"}})
	}
	piece(0, "one\ntw")
	piece(6, "o\n")
	if got, want := b.String(), "$ make\n  one\n  two\n"; got != want {
		t.Errorf("shown %q, want %q", got, want)
	}
	piece(17, "five\n")
	two := 2
	r.Event(api.Event{Kind: api.KindEntry, Entry: &protocol.Entry{Item: "c", Type: protocol.EntryCommand, Command: "make", Text: "one\ntwo\nthree\nfo\nfive\nsix\n", ExitCode: &two}})
	if got, want := b.String(), "$ make\n  one\n  two\n  … 9 bytes\n  five\n  six\n  exit 2\n"; got != want {
		t.Errorf("shown %q, want %q", got, want)
	}
}

func TestSubAgentsAreToldApart(t *testing.T) {
	var b bytes.Buffer
	r := &Renderer{P: core.NewPrinter(&b, false)}
	scout := &protocol.Agent{Thread: "t", Name: "sc\x1bout"}
	r.Event(api.Event{Kind: api.KindDelta, Delta: &protocol.Delta{Item: "m", Type: protocol.EntryAssistant, Text: "I\nlook", Agent: scout}})
	r.Event(api.Event{Kind: api.KindEntry, Entry: &protocol.Entry{Item: "m", Type: protocol.EntryAssistant, Text: "I\nlook", Agent: scout}})
	r.Entry(protocol.Entry{Type: protocol.EntryPlan, Text: "[ ] dig", Data: map[string]string{"count": "0 of 1"}, Agent: &protocol.Agent{Thread: "u", Name: "two", Of: scout}})
	r.Entry(protocol.Entry{Type: protocol.EntryAssistant, Text: "Done."})
	if got, want := b.String(), "│ sc"+core.Clean("\x1b")+"out:\n│ I\n│ look\n  │ two:\n  │ · plan: 0 of 1\n  │   [ ] dig\nDone.\n"; got != want {
		t.Errorf("shown\n%s, want\n%s", got, want)
	}
}
