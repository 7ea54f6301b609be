package session

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// The policy is carried beside the state, and notes have data of their own. Both
// count towards what a run carries.
func TestAllThatARunHandsOnCountsAndCanBeShed(t *testing.T) {
	opt := Options{Policy: strings.Repeat("<", 64<<10)}
	st := &State{}
	for i := range 30 {
		n := conversation.Note{ID: fmt.Sprint(i), Text: "answered", Data: map[string]string{"by": "ann", "answers": strings.Repeat("a", 32<<10)}}
		st.Notes, st.Handing = append(st.Notes, n), append(st.Handing, n)
	}
	st.fit(kit.Encoded(opt))
	if n := kit.Encoded(Input{Options: opt, Carry: st}); n > MaxCarry {
		t.Errorf("%d bytes are carried", n)
	}
	if st.Notes[0].Data["by"] != "ann" || len(st.Notes[0].Data["answers"]) > 2<<10 || len(st.Handing[0].Data["answers"]) != 32<<10 {
		t.Errorf("notes are %.200v, those handed on %.200v", st.Notes[0], st.Handing[0])
	}
}

func TestExtremeTextsAreShedBeforeARollover(t *testing.T) {
	st := &State{}
	for i := range KeepTurns {
		st.Turns = append(st.Turns, protocol.TurnView{N: i, Status: "completed", FinalText: strings.Repeat("<", 32<<10)})
	}
	for i := range 2 * keepApprovals {
		st.Approvals = append(st.Approvals, approvalState{N: i, State: protocol.ApprovalSent, Request: protocol.Request{
			Command: strings.Repeat("<", 8<<10), Summary: "s", Permissions: json.RawMessage(`"` + strings.Repeat("x", 16<<10) + `"`),
			Questions: []protocol.Question{{ID: "q", Text: strings.Repeat("<", 8<<10)}}},
			Decision: &protocol.Decision{Outcome: "answer", Answers: map[string][]string{"q": {strings.Repeat("<", MaxGiven/6)}}}})
	}
	for i := range 50 {
		st.Notes = append(st.Notes, conversation.Note{ID: fmt.Sprint(i), Text: strings.Repeat("<", kit.MaxReason)})
	}
	st.trim()
	st.fit(0)
	if n := kit.Encoded(st); n > MaxCarry {
		t.Errorf("%d bytes are carried", n)
	}
	if len(st.Turns) != KeepTurns || len(st.Approvals) != keepApprovals || len(st.Notes) != 50 {
		t.Errorf("%d turns, %d approvals, %d notes are left", len(st.Turns), len(st.Approvals), len(st.Notes))
	}
}

func TestMessagesThatSteerHaveABoundWithAllThatComesWithThem(t *testing.T) {
	st := &State{}
	for range 100 {
		st.Sends = append(st.Sends, pendingSend{Send: conversation.Send{Text: "x", Inputs: []protocol.Input{aFile, aFile}}})
	}
	if n, all := st.texts(), kit.Encoded(st.Sends); n < all*9/10 {
		t.Errorf("%d bytes of %d are counted", n, all)
	}
}

func TestWhatTheUIShowsStaysWithinItsBounds(t *testing.T) {
	s := assembled(&core{id: "s1", opt: Options{}, st: &State{lifeState: lifeState{Status: protocol.Waiting, Waits: strings.Repeat("ä", 4000)}}})
	s.st.Error = &protocol.Failure{Message: strings.Repeat("x", 1<<20)}
	for i := range 100 {
		s.st.Approvals = append(s.st.Approvals, approvalState{N: i, State: protocol.ApprovalOpen, Request: protocol.Request{Summary: strings.Repeat("long\n", 1000)}})
	}
	if n := len(s.views.details()); n > 20_000 {
		t.Errorf("details take %d bytes", n)
	}
	s.st.Status = protocol.Queued
	if w := kit.Cut(s.views.waitsFor(), kit.MaxWord); len(w) > 255 {
		t.Errorf("the attribute takes %d bytes", len(w))
	}
}
