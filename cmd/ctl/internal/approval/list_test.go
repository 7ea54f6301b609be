package approval

import (
	"testing"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/workflows"
)

// The list tells accepted from declined approvals, says who decided, and shows an expiry
// only for open ones.
func TestListOfApprovalsSaysWhatWasDecided(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	decided := func(d *workflows.Decision) workflows.Approval {
		return workflows.Approval{State: workflows.ApprovalAcknowledged, ExpiresAt: at, Decision: d}
	}
	for want, ap := range map[string]workflows.Approval{
		"":                                  {State: workflows.ApprovalOpen, ExpiresAt: at},
		"decline by policy rule no-rm":      decided(&workflows.Decision{Outcome: "decline", By: "policy rule no-rm"}),
		"accept for the session by ann@vm1": decided(&workflows.Decision{Outcome: "accept", Scope: "session", By: "ann@vm1"}),
	} {
		if got := decidedText(ap); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
		if shown := expires(ap) != core.Plain(""); shown != (ap.Decision == nil) {
			t.Errorf("%s: that it expires is shown: %v", want, shown)
		}
	}
}
