package approval

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestADecisionThatTemporalKeepsIsShownAsItWillBeJudged(t *testing.T) {
	ours := protocol.Approval{ID: "s.1", State: protocol.ApprovalDecided, Decision: &protocol.Decision{Outcome: "accept", By: "ann"}}
	unjudged := ours
	unjudged.State = protocol.ApprovalUnjudged
	open := protocol.Approval{ID: "s.1", State: protocol.ApprovalOpen}
	old := protocol.Refusal{Name: protocol.SignalDecide, Reason: "an old one"}
	var seen protocol.SessionDetail
	seen.View.Refusals = []protocol.Refusal{old}
	after := func(ap protocol.Approval, refusals ...protocol.Refusal) protocol.SessionDetail {
		d := protocol.SessionDetail{Approvals: []protocol.Approval{ap}}
		d.View.Refusals = refusals
		return d
	}
	for name, c := range map[string]struct {
		now   protocol.SessionDetail
		state protocol.ApprovalState
	}{
		"judged": {after(ours, old), protocol.ApprovalDecided}, "unjudged": {after(unjudged, old), protocol.ApprovalUnjudged},
		"not seen yet": {after(open, old), protocol.ApprovalDecided},
	} {
		if ap, err := judgedDecision("accept approval s.1", seen, c.now, ours); err != nil || ap.State != c.state {
			t.Errorf("%s: %s, %v", name, ap.State, err)
		}
	}
	_, err := judgedDecision("accept approval s.1", seen, after(open, old, protocol.Refusal{Name: protocol.SignalDecide, Reason: "no role"}), ours)
	if core.ExitCode(err) != core.ExitRefused || !strings.Contains(err.Error(), "no role") {
		t.Errorf("one that workers will refuse: %v", err)
	}
}
