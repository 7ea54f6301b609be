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

func refusalCode(err error) int {
	if err == nil {
		return 0
	}
	return errkind.ExitCode(err)
}
