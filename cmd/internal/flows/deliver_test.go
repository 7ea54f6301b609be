package flows

import (
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// Asking for a rule that is not offered explains which setting allows rules.
func TestRefusedAmendmentNamesTheSeedsSetting(t *testing.T) {
	err := asError(notOffered("amend approval s.1", "amend", []string{"accept"}))
	if err.Code != errkind.ExitRefused || err.Hint == "" {
		t.Errorf("it says %+v", err)
	}
	if err := asError(notOffered("accept approval s.1", "accept", []string{"answer"})); err.Hint != "" {
		t.Errorf("another word has the hint %q", err.Hint)
	}
}

// If no worker is up, ctl refuses decisions that the session would refuse.
func TestADecisionThatWouldBeRefusedIsNotKept(t *testing.T) {
	seen := protocol.SessionDetail{View: protocol.SessionView{State: protocol.Waiting}, Approvals: []protocol.Approval{{
		ID: "s1.1", Digest: "d", State: protocol.ApprovalOpen, Offered: []string{"accept", "decline"}, ExpiresAt: time.Now().Add(time.Hour)}}}
	for _, c := range []struct {
		outcome, scope string
		code           int
	}{{"accept", "", 0}, {"decline", "", 0}, {"cancel", "", errkind.ExitRefused}, {"accept", "session", errkind.ExitRefused}} {
		err := Decidable("decide", protocol.Decide{Approval: "s1.1", Digest: "d", Outcome: c.outcome, Scope: c.scope})(seen)
		if code := refusalCode(err); code != c.code {
			t.Errorf("%s %s: exit %d (%v), want %d", c.outcome, c.scope, code, err, c.code)
		}
	}
}

// A decision that was kept as a signal may reach the session after another one.
func TestADecisionThatCameSecondIsRefused(t *testing.T) {
	mine := protocol.Decide{Outcome: "accept", By: "ann", Reason: "fine"}
	for _, c := range []struct {
		there *protocol.Decision
		code  int
	}{
		{nil, 0},
		{&protocol.Decision{Outcome: "accept", By: "ann", Reason: "fine", Scope: "once"}, 0},
		{&protocol.Decision{Outcome: "decline", By: "bob", Scope: "once"}, errkind.ExitRefused},
		{&protocol.Decision{Outcome: "decline", By: "expiry", Scope: "once"}, errkind.ExitRefused},
		{&protocol.Decision{Outcome: "accept", By: "bob", Scope: "once"}, errkind.ExitRefused},
		{&protocol.Decision{Outcome: "accept", By: "ann", Reason: "fine", Scope: "session"}, errkind.ExitRefused},
	} {
		if code := refusalCode(Ours("decide", protocol.Approval{Decision: c.there}, mine)); code != c.code {
			t.Errorf("%+v: exit %d, want %d", c.there, code, c.code)
		}
	}
	if code := refusalCode(Ours("decide", protocol.Approval{State: protocol.ApprovalVoid}, mine)); code != errkind.ExitRefused {
		t.Errorf("one that is void: exit %d", code)
	}
}

// The same outcome is not the same decision: the answers or the grant may be others'.
func TestADecisionWithOtherAnswersIsNotOurs(t *testing.T) {
	asked := protocol.Approval{ID: "s1.1", Questions: []protocol.Question{{ID: "colour"}, {ID: "size", Default: "m"}, {ID: "pin", Secret: true, Optional: true}}}
	for what, c := range map[string]struct {
		mine  protocol.Decide
		there protocol.Decision
		ours  bool
	}{
		"the same":             {protocol.Decide{Outcome: "answer", Answers: []byte(`{"colour":"red"}`)}, protocol.Decision{Outcome: "answer", Answers: map[string][]string{"colour": {"red"}, "size": {"m"}}}, true},
		"as a list":            {protocol.Decide{Outcome: "answer", Answers: []byte(`{"colour":["red"],"size":"m"}`)}, protocol.Decision{Outcome: "answer", Answers: map[string][]string{"colour": {"red"}, "size": {"m"}}}, true},
		"other answers":        {protocol.Decide{Outcome: "answer", Answers: []byte(`{"colour":"red"}`)}, protocol.Decision{Outcome: "answer", Answers: map[string][]string{"colour": {"blue"}, "size": {"m"}}}, false},
		"other comments":       {protocol.Decide{Outcome: "revise", Answers: []byte(`{"comments":"shorter"}`)}, protocol.Decision{Outcome: "revise", Answers: map[string][]string{"comments": {"longer"}}}, false},
		"the same secrets":     {protocol.Decide{Outcome: "answer", AnswersBlob: "b1", Answers: []byte(`{"colour":"red"}`)}, protocol.Decision{Outcome: "answer", AnswersBlob: "b1", Answers: map[string][]string{"colour": {"red"}}}, true},
		"other secrets":        {protocol.Decide{Outcome: "answer", AnswersBlob: "b1"}, protocol.Decision{Outcome: "answer", AnswersBlob: "b2"}, false},
		"the same grant":       {protocol.Decide{Outcome: "grant", Grant: []byte(`{"a":1, "b":[2]}`)}, protocol.Decision{Outcome: "grant", Grant: []byte(`{"b":[2],"a":1}`)}, true},
		"another grant":        {protocol.Decide{Outcome: "grant", Grant: []byte(`{"a":1}`)}, protocol.Decision{Outcome: "grant", Grant: []byte(`{"a":2}`)}, false},
		"nothing, as an empty": {protocol.Decide{Outcome: "accept", Grant: []byte(`{}`), Answers: []byte(`{}`)}, protocol.Decision{Outcome: "accept"}, true},
	} {
		for _, signed := range []bool{false, true} {
			ap, mine := asked, c.mine
			there := c.there
			there.Signed, there.Scope, there.By, mine.By = signed, "once", "ann", "ann"
			ap.Decision = &there
			if code := refusalCode(Ours("decide", ap, mine)); (code == 0) != c.ours || code != 0 && code != errkind.ExitRefused {
				t.Errorf("%s, signed %v: exit %d", what, signed, code)
			}
		}
	}
}

func refusalCode(err error) int {
	if err == nil {
		return 0
	}
	return errkind.ExitCode(err)
}
