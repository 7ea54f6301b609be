package approval

import (
	"testing"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// The list shows whether an approval was accepted or declined and who decided. It shows an
// expiry only for open approvals.
func TestListOfApprovalsSaysWhatWasDecided(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	decided := func(d *protocol.Decision) protocol.Approval {
		return protocol.Approval{State: protocol.ApprovalAcknowledged, ExpiresAt: at, Decision: d}
	}
	for want, ap := range map[string]protocol.Approval{
		"":                                  {State: protocol.ApprovalOpen, ExpiresAt: at},
		"decline by policy rule no-rm":      decided(&protocol.Decision{Outcome: "decline", By: "policy rule no-rm"}),
		"accept for the session by ann@vm1": decided(&protocol.Decision{Outcome: "accept", Scope: "session", By: "ann@vm1"}),
	} {
		if got := decidedText(ap); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
		if shown := expires(ap) != core.Plain(""); shown != (ap.Decision == nil) {
			t.Errorf("%s: that it expires is shown: %v", want, shown)
		}
	}
}
