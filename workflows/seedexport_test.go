package workflows

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

func TestALoginThatIsExportedIsSuspectAndAHeldOneIsNotExported(t *testing.T) {
	p := newSeedWorld(t)
	to := protocol.ExportSeed{By: "ann@desk", Recipient: "age1qqq"}
	p.at(time.Second, func() {
		p.refuses(p.send(protocol.UpdateExportSeed, protocol.ExportSeed{By: "ann@desk"}), protocol.RefusedBadInput)
		p.SignalWorkflow(lease.SignalAcquire, on("a", "web-1", 100))
	})
	p.at(2*time.Second, func() {
		p.refuses(p.send(protocol.UpdateExportSeed, to), protocol.RefusedState)
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "a", Epoch: 1, Generation: 100, Clean: true})
	})
	p.at(3*time.Second, func() {
		if v := p.seed(); v.Health == protocol.Suspect || v.Exported != nil {
			t.Errorf("before the export: %+v", v)
		}
		p.takes(p.send(protocol.UpdateExportSeed, to))
	})
	p.at(4*time.Second, func() {
		v := p.seed()
		if v.Health != protocol.Suspect || !strings.Contains(v.Reason, "ann@desk") || !strings.Contains(v.Hint, "revive") ||
			v.Exported == nil || v.Exported.Recipient != "age1qqq" || v.Exported.Generation != 1 {
			t.Errorf("after the export: %+v", v)
		}
		p.saw("session/a got team")
		p.SignalWorkflow(lease.SignalAcquire, on("b", "web-1", 200))
	})
	p.at(5*time.Second, func() {
		if v := p.seed(); len(v.HeldBy) != 0 || v.Queue != 1 {
			t.Errorf("a second holder got it: %+v", v)
		}
		p.takes(p.send(protocol.UpdateReviveSeed, protocol.ReviveSeed{}))
	})
	p.at(6*time.Second, func() {
		if v := p.seed(); len(v.HeldBy) != 1 || v.HeldBy[0] != "b" {
			t.Errorf("after a person's word: %+v", v)
		}
	})
	p.runSeed(7 * time.Second)
}
