package approval

import (
	"bytes"
	"strings"
	"testing"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestWhatWasDecidedEarlierIsSaid(t *testing.T) {
	for _, c := range []struct {
		outcome string
		state   protocol.ApprovalState
		want    string
	}{
		{"accept", protocol.ApprovalSent, "approved earlier, may have run (s1.1 by bob)"},
		{"accept", protocol.ApprovalAcknowledged, "approved earlier, may have run (s1.1 by bob)"},
		{"accept", protocol.ApprovalDecided, "approved earlier by bob (s1.1), never delivered"},
		{"decline", protocol.ApprovalSent, "declined earlier by bob (s1.1)"},
		{"cancel", protocol.ApprovalAcknowledged, "cancelled earlier by bob (s1.1)"},
	} {
		e := &protocol.EarlierDecision{Approval: "s1.1", Outcome: c.outcome, By: "bob", State: c.state}
		if got := show.EarlierText(e); got != c.want {
			t.Errorf("%s, %s: %q, want %q", c.outcome, c.state, got, c.want)
		}
		var b bytes.Buffer
		Show(core.NewPrinter(&b, false), protocol.Approval{ID: "s1.2", State: protocol.ApprovalOpen, Earlier: e}, false)
		if !strings.Contains(b.String(), c.want) {
			t.Errorf("the prompt does not say %q:\n%s", c.want, b.String())
		}
	}
	if got := show.EarlierText(nil); got != "" {
		t.Errorf("nothing was decided, and it says %q", got)
	}
}

func TestAnApprovalSaysWhyItIsVoidAndHowFarItsDecisionCame(t *testing.T) {
	var b bytes.Buffer
	Show(core.NewPrinter(&b, false), protocol.Approval{ID: "s1.2", State: protocol.ApprovalVoid, VoidReason: "codex's process is gone", Delivery: "void"}, false)
	for _, want := range []string{"void      codex's process is gone", "delivery  void"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, b.String())
		}
	}
}
