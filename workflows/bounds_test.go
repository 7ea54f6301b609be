package workflows

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
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
	w.start(SessionOptions{})
	if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{MessageID: "m999"}); turn.N != 1000 || turn.Status != "interrupted" || turn.Error.Kind != "closed" {
		t.Errorf("the last message became %+v", turn)
	}
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
	w.start(SessionOptions{})
	if n := encoded(carried(t, w.continued())); n > maxCarry {
		t.Errorf("%d bytes are carried", n)
	}
}

func TestExtremeTextsAreShedBeforeARollover(t *testing.T) {
	st := &sessionState{}
	for i := range keepTurns {
		st.Turns = append(st.Turns, protocol.TurnView{N: i, Status: "completed", FinalText: strings.Repeat("<", 32<<10)})
	}
	for i := range 2 * keepApprovals {
		st.Approvals = append(st.Approvals, approvalState{N: i, State: protocol.ApprovalSent, Request: protocol.Request{
			Command: strings.Repeat("<", 8<<10), Summary: "s", Permissions: json.RawMessage(`"` + strings.Repeat("x", 16<<10) + `"`),
			Questions: []protocol.Question{{ID: "q", Text: strings.Repeat("<", 8<<10)}}},
			Decision: &protocol.Decision{Outcome: "answer", Answers: map[string][]string{"q": {strings.Repeat("<", maxGiven/6)}}}})
	}
	for i := range 50 {
		st.Notes = append(st.Notes, conversation.Note{ID: fmt.Sprint(i), Text: strings.Repeat("<", maxReason)})
	}
	st.trim()
	st.fit(0)
	if n := encoded(st); n > maxCarry {
		t.Errorf("%d bytes are carried", n)
	}
	if len(st.Turns) != keepTurns || len(st.Approvals) != keepApprovals || len(st.Notes) != 50 {
		t.Errorf("%d turns, %d approvals, %d notes are left", len(st.Turns), len(st.Approvals), len(st.Notes))
	}
}

// The policy is carried beside the state, and notes have data of their own. Both
// count towards what a run carries.
func TestAllThatARunHandsOnCountsAndCanBeShed(t *testing.T) {
	opt := SessionOptions{Policy: strings.Repeat("<", 64<<10)}
	st := &sessionState{}
	for i := range 30 {
		n := conversation.Note{ID: fmt.Sprint(i), Text: "answered", Data: map[string]string{"by": "ann", "answers": strings.Repeat("a", 32<<10)}}
		st.Notes, st.Handing = append(st.Notes, n), append(st.Handing, n)
	}
	st.fit(encoded(opt))
	if n := encoded(SessionInput{Options: opt, Carry: st}); n > maxCarry {
		t.Errorf("%d bytes are carried", n)
	}
	if st.Notes[0].Data["by"] != "ann" || len(st.Notes[0].Data["answers"]) > 2<<10 || len(st.Handing[0].Data["answers"]) != 32<<10 {
		t.Errorf("notes are %.200v, those handed on %.200v", st.Notes[0], st.Handing[0])
	}
}

func TestMessagesThatSteerHaveABoundWithAllThatComesWithThem(t *testing.T) {
	st := &sessionState{}
	for range 100 {
		st.Sends = append(st.Sends, pendingSend{Send: conversation.Send{Text: "x", Inputs: []protocol.Input{aFile, aFile}}})
	}
	if n, all := st.texts(), encoded(st.Sends); n < all*9/10 {
		t.Errorf("%d bytes of %d are counted", n, all)
	}
}

func TestSessionsThatCouldNotBeHeldAreRefused(t *testing.T) {
	for name, in := range map[string]SessionInput{
		"id":       {ID: "S 1"},
		"other id": {ID: "s2"},
		"host":     {ID: "s1", Options: SessionOptions{Host: "web 1"}},
		"seed":     {ID: "s1", Options: SessionOptions{Seed: "../x"}},
		"by":       {ID: "s1", Options: SessionOptions{By: strings.Repeat("x", 300)}},
		"labels":   {ID: "s1", Options: SessionOptions{Labels: map[string]string{"a": strings.Repeat("x", 5000)}}},
		"sandbox":  {ID: "s1", Options: SessionOptions{Sandbox: "none"}},
		"expiry":   {ID: "s1", Options: SessionOptions{Expiry: -1}},
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
	w.start(SessionOptions{})
}

func TestWhatTheUIShowsStaysWithinItsBounds(t *testing.T) {
	s := assembled(&core{id: "s1", opt: SessionOptions{}, st: &sessionState{lifeState: lifeState{Status: protocol.Waiting, Waits: strings.Repeat("ä", 4000)}}})
	s.st.Error = &protocol.Failure{Message: strings.Repeat("x", 1<<20)}
	for i := range 100 {
		s.st.Approvals = append(s.st.Approvals, approvalState{N: i, State: protocol.ApprovalOpen, Request: protocol.Request{Summary: strings.Repeat("long\n", 1000)}})
	}
	if n := len(s.views.details()); n > 20_000 {
		t.Errorf("details take %d bytes", n)
	}
	s.st.Status = protocol.Queued
	if w := excerpt(s.views.waitsFor(), maxWord); len(w) > 255 {
		t.Errorf("the attribute takes %d bytes", len(w))
	}
}
