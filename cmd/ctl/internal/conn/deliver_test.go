package conn

import (
	"testing"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// Asking for a rule that is not offered explains which setting allows rules.
func TestRefusedAmendmentNamesTheSeedsSetting(t *testing.T) {
	err := core.AsError(t.Context(), notOffered("amend approval s.1", "amend", []string{"accept"}), true, "ctl")
	if err.Code != core.ExitRefused || err.Hint == "" {
		t.Errorf("it says %+v", err)
	}
	if err := core.AsError(t.Context(), notOffered("accept approval s.1", "accept", []string{"answer"}), true, "ctl"); err.Hint != "" {
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
	}{{"accept", "", 0}, {"decline", "", 0}, {"cancel", "", core.ExitRefused}, {"accept", "session", core.ExitRefused}} {
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
		{&protocol.Decision{Outcome: "decline", By: "bob", Scope: "once"}, core.ExitRefused},
		{&protocol.Decision{Outcome: "decline", By: "expiry", Scope: "once"}, core.ExitRefused},
		{&protocol.Decision{Outcome: "accept", By: "bob", Scope: "once"}, core.ExitRefused},
		{&protocol.Decision{Outcome: "accept", By: "ann", Reason: "fine", Scope: "session"}, core.ExitRefused},
	} {
		if code := refusalCode(Ours("decide", protocol.Approval{Decision: c.there}, mine)); code != c.code {
			t.Errorf("%+v: exit %d, want %d", c.there, code, c.code)
		}
	}
	if code := refusalCode(Ours("decide", protocol.Approval{State: protocol.ApprovalVoid}, mine)); code != core.ExitRefused {
		t.Errorf("one that is void: exit %d", code)
	}
}

func refusalCode(err error) int {
	if err == nil {
		return 0
	}
	return core.ExitCode(err)
}
