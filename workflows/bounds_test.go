package workflows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/session"
)

// The size of a workflow's state is bounded, so the texts of people and codex are bounded
// too.

func TestAMessageIsKnownHoweverManyWaitBehindIt(t *testing.T) {
	if testing.Short() {
		t.Skip("has a thousand messages queued and dropped, each with an event: slow with the race detector")
	}
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.fake.pumps = append(w.fake.pumps, asks("make"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m0")) })
	// The SDK's environment holds at most 1000 events. A step that sends more would wait
	// for itself.
	const batch = 111
	for first := 1; first < 999; first += batch {
		w.at(2*time.Second+time.Duration(first)*time.Millisecond, func() {
			for i := range batch {
				w.SignalWorkflow(protocol.SignalMessage, hello(fmt.Sprint("m", first+i)))
			}
		})
	}
	w.at(3*time.Second, func() { w.SignalWorkflow(protocol.SignalMessage, hello("m1")) })
	w.at(4*time.Second, func() {
		v := w.view()
		if v.Queue != 999 || len(v.Refusals) != 0 {
			t.Errorf("%d messages wait, %d are refused (%v)", v.Queue, len(v.Refusals), v.Refusals)
		}
		w.SignalWorkflow(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
	if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{MessageID: "m999"}); turn.N != 1000 || turn.Status != "interrupted" || turn.Error.Kind != "closed" {
		t.Errorf("the last message became %+v", turn)
	}
}

func TestSessionsThatCouldNotBeHeldAreRefused(t *testing.T) {
	for name, in := range map[string]session.Input{
		"id":       {ID: "S 1"},
		"other id": {ID: "s2"},
		"host":     {ID: "s1", Options: session.Options{Host: "web 1"}},
		"seed":     {ID: "s1", Options: session.Options{Seed: "../x"}},
		"by":       {ID: "s1", Options: session.Options{By: strings.Repeat("x", 300)}},
		"labels":   {ID: "s1", Options: session.Options{Labels: map[string]string{"a": strings.Repeat("x", 5000)}}},
		"sandbox":  {ID: "s1", Options: session.Options{Sandbox: "none"}},
		"expiry":   {ID: "s1", Options: session.Options{Expiry: -1}},
	} {
		w := newWorld(t)
		w.ExecuteWorkflow(protocol.TypeSession, in)
		if kind := typeOf(w.GetWorkflowError()); kind != protocol.RefusedBadInput {
			t.Errorf("%s: the session ended with %v", name, w.GetWorkflowError())
		}
	}
}

func TestMessagesNameNoOtherBlobsAndNobodyElsesIDs(t *testing.T) {
	w := newWorld(t)
	w.at(time.Second, func() {
		for _, m := range []protocol.Message{
			{ID: "m1", Blob: "seeds/team/3", Chars: 5}, {ID: "m1", Blob: aFolder + "/messages/../seeds/team", Chars: 5},
			{ID: "m1", Text: "x", Chars: 5}, {ID: "m1", Blob: aLongText, Chars: -5},
			{ID: "s1.a1", Text: "x"}, {ID: "a\nb", Text: "x"}, {Text: "x"}, {ID: "m1", Text: "x", Mode: "shout"},
			{ID: "m1", Text: "x", By: strings.Repeat("x", 201)}, {ID: "m1", Blob: aLongText, Chars: protocol.MaxChars + 1},
		} {
			w.refuses(w.send(protocol.SignalMessage, m), protocol.RefusedBadInput)
		}
		w.refuses(w.send(protocol.SignalMessage, map[string]any{"id": "m1", "text": "x", strings.Repeat("f", 1<<20): 1}), protocol.RefusedBadInput)
		w.SignalWorkflow(protocol.SignalMessage, map[string]any{"id": "m1", "text": "x", strings.Repeat("f", 1<<20): 1})
	})
	w.at(2*time.Second, func() {
		if v := w.view(); len(v.Refusals) != 1 || len(v.Refusals[0].Reason) > 600 {
			t.Errorf("refusals are %+v", v.Refusals)
		}
	})
	w.ends(3 * time.Second)
	w.start(session.Options{})
}

func TestWhatIsQueuedFitsIntoAWorkflow(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("make"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m0")) })
	w.at(2*time.Second, func() {
		w.refuses(w.send(protocol.SignalMessage, protocol.Message{ID: "x", Text: strings.Repeat("<", 100<<10)}), protocol.RefusedBadInput) // each < takes six bytes in JSON
		for i := range 30 {
			u := w.send(protocol.SignalMessage, protocol.Message{ID: fmt.Sprint("m", i+1), Text: strings.Repeat("a", 32<<10)})
			if i < 20 {
				w.takes(u)
			} else if i > 25 {
				w.refuses(u, protocol.RefusedState)
			}
		}
	})
	w.at(3*time.Second, func() {
		w.fill()
		w.SignalWorkflow(protocol.SignalMessage, "any event wakes it")
	})
	w.start(session.Options{})
	if n := kit.Encoded(carried(t, w.continued())); n > session.MaxCarry {
		t.Errorf("%d bytes are carried", n)
	}
}

// Keys of blobs, in the form in which the worker's API makes them.
var (
	aFolder   = "owned/session.s1.0123456789abcdef"
	aLongText = aFolder + "/messages/" + strings.Repeat("0", 64)
)

var aFile = protocol.Input{Kind: protocol.InputFile, Name: "a", Blob: aFolder + "/inputs/" + strings.Repeat("0", 64), Digest: strings.Repeat("a", 64), Bytes: 1}
