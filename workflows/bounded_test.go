package workflows

import (
	"fmt"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/seed"
)

func TestASeedThatIsImportedAgainBeginsAboveItsFormerEpochs(t *testing.T) {
	p := newSeedWorld(t)
	var began int64
	p.at(time.Second, func() { began = p.Now().Unix(); p.acquires(on("a", "web-1", 100)) })
	p.at(2*time.Second, func() {
		if v := p.seed(); v.Epoch < began || len(v.HeldBy) != 1 {
			t.Errorf("seed is %+v, and it began at %d", v, began)
		}
	})
	p.finish(3 * time.Second)
	p.ExecuteWorkflow(protocol.TypeSeed, seed.Input{Name: "team"})
	p.verify()
}

// TooLarge returns a request that is larger than any queue accepts.
func tooLarge(holder string) lease.Acquire {
	a := on(holder, "web-1", 1)
	for range 1000 {
		a.At.HostKeys = append(a.At.HostKeys, "SHA256:0123456789abcdef")
	}
	return a
}

func TestWhoAsksWithTooMuchIsTold(t *testing.T) {
	for name, in := range map[string]any{protocol.TypeSeed: newSeed, protocol.TypeSeedPool: seed.PoolInput{Name: "logins"}, protocol.TypeHostPool: hostpool.Input{}} {
		t.Run(name, func(t *testing.T) {
			p := newPoolWorld(t)
			p.at(time.Second, func() { p.acquires(tooLarge("a"), tooLarge("No Name")) })
			p.finish(3 * time.Second)
			p.ExecuteWorkflow(name, in)
			p.verify()
			p.saw("session/a refused " + protocol.RefusedBadInput)
		})
	}
}

// Waiting verifications leave room in the seed's queue for requests of people.
func TestVerificationsDoNotFillTheSeedsLine(t *testing.T) {
	p, f := newVerifyWorld(t, []string{"unknown", "fresh", "fresh", "fresh", "fresh", "fresh"}, []string{"login 2"})
	f.hold = make(chan struct{})
	var waiting []*updated
	p.at(time.Second, func() { p.takes(p.send(protocol.UpdateVerifySeed, protocol.VerifySeed{})) })
	p.once("the refresh", func() bool { _, n := f.asked(); return n == 1 }, func() {
		for i := range seed.MostBehind {
			waiting = append(waiting, p.send(protocol.UpdateVerifySeed, protocol.VerifySeed{By: fmt.Sprint(i)}))
		}
		p.refuses(p.send(protocol.UpdateVerifySeed, protocol.VerifySeed{}), protocol.RefusedState)
		p.takes(p.send(protocol.UpdateSetSeed, protocol.SetSeed{}))
		close(f.hold)
	})
	p.once("who waited is answered", func() bool {
		n := 0
		for _, u := range waiting {
			if u.result != nil {
				n++
			}
		}
		return n == seed.MostBehind
	}, func() {
		waiting = append(waiting, p.send(protocol.UpdateVerifySeed, protocol.VerifySeed{By: "late"}))
	})
	p.runSeed(time.Minute)
	for _, u := range waiting {
		if v := checked(t, u); v.Check.Verdict != "fresh" {
			t.Errorf("answered %+v", v)
		}
	}
}
