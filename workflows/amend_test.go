package workflows

import (
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// Amendments change codex's rules permanently, so a session offers them only if its seed
// allows this.
func TestAmendmentsAreOfferedOnlyWhereTheSeedAllowsThem(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		w := newWorld(t)
		w.amend = allowed
		w.fake.pumps = append(w.fake.pumps, endsTurn("completed", ""))
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.ends(time.Minute)
		w.start(session.Options{Seed: "team"})
		if got := w.fake.ran[0].Pump.Amend; got != allowed {
			t.Errorf("the seed allows them: %v, offered: %v", allowed, got)
		}
	}
}

func TestASeedSaysThatItsSessionsMayAmend(t *testing.T) {
	p := newPoolWorld(t)
	yes, no := true, false
	p.at(0, func() {
		p.takes(p.send(protocol.UpdatePutSeed, protocol.PutSeed{Name: "team", Ref: protocol.SeedRef{Blob: "seeds/team/b1", Digest: "d", Kind: "api_key"}}))
		p.acquires(on("a", "web-1", 1))
	})
	p.at(time.Second, func() {
		p.saw("session/a got team")
		p.takes(p.send(protocol.UpdateSetSeed, protocol.SetSeed{Amend: &yes}))
		p.acquires(on("b", "web-1", 1))
	})
	p.at(2*time.Second, func() {
		p.saw("session/b got team and may amend")
		p.takes(p.send(protocol.UpdateSetSeed, protocol.SetSeed{Amend: &no}))
		p.acquires(on("c", "web-1", 1))
	})
	p.at(3*time.Second, func() { p.saw("session/c got team") })
	p.runSeed(time.Minute)
}
