package workflows

import (
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/seed"
)

// on returns a request to a seed from a session on a host, with that generation.
func on(holder, host string, generation int64) lease.Acquire {
	return lease.Acquire{Holder: holder, At: &protocol.HostSpec{Name: host, Address: "192.0.2.7"}, Generation: generation}
}

func login(n string) protocol.PutSeed {
	return protocol.PutSeed{Name: "team", Ref: protocol.SeedRef{Blob: "seeds/team/b" + n, Digest: "d" + n, Kind: "chatgpt"}, Files: auth(n)}
}

func auth(n string) []protocol.SeedFile {
	return []protocol.SeedFile{{Path: "auth.json", Mode: "0600", Digest: "auth" + n}}
}

func saves(holder string, epoch, from int64, n string) inquiry.SaveSeed {
	return inquiry.SaveSeed{Holder: holder, Epoch: epoch, From: from, Auth: "auth" + n, Files: auth(n),
		Ref: protocol.SeedRef{Blob: "b" + n, Digest: "d" + n, Kind: "chatgpt"}}
}

// newSeed starts a seed whose epochs begin at 1.
var newSeed = seed.Input{Name: "team", Carry: &seed.State{}}

func newSeedWorld(t *testing.T) *poolWorld {
	p := newPoolWorld(t)
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutSeed, login("1"))) })
	return p
}

func (p *poolWorld) runSeed(until time.Duration) {
	p.t.Helper()
	p.finish(until)
	p.ExecuteWorkflow(protocol.TypeSeed, newSeed)
	p.verify()
}

func (p *poolWorld) seed() protocol.SeedView {
	p.t.Helper()
	return query[protocol.SeedView](p.world, protocol.QuerySeed)
}

func TestARotatedLoginIsTakenOnlyFromItsHolderAndAsTheNext(t *testing.T) {
	p := newSeedWorld(t)
	p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, on("a", "web-1", 100)) })
	p.at(2*time.Second, func() {
		p.refuses(p.send(protocol.UpdateSaveSeed, saves("b", 1, 1, "2")), protocol.RefusedFenced)
		p.refuses(p.send(protocol.UpdateSaveSeed, saves("a", 2, 1, "2")), protocol.RefusedFenced)
		p.refuses(p.send(protocol.UpdateSaveSeed, saves("a", 1, 2, "2")), protocol.RefusedFenced)
		bad := saves("a", 1, 1, "2")
		bad.Ref.Kind = "api_key"
		p.refuses(p.send(protocol.UpdateSaveSeed, bad), protocol.RefusedBadInput)
		p.takes(p.send(protocol.UpdateRotatedSeed, inquiry.RotatedSeed{Holder: "a", Epoch: 1, Auth: "auth2", Reason: "the store is down"}))
		p.refuses(p.send(protocol.UpdateRotatedSeed, inquiry.RotatedSeed{Holder: "b", Epoch: 1, Auth: "auth2"}), protocol.RefusedFenced)
	})
	p.at(3*time.Second, func() {
		if v := p.seed(); v.Rotated == nil || v.Rotated.Session != "a" || v.Rotated.Reason != "the store is down" || v.Generation != 1 {
			t.Errorf("seed is %+v", v)
		}
		p.takes(p.send(protocol.UpdateSaveSeed, saves("a", 1, 1, "2")))
	})
	p.at(4*time.Second, func() {
		now := query[inquiry.SeedNow](p.world, protocol.QuerySeedNow)
		if now.Generation != 2 || now.Auth != "auth2" || now.Ref.Blob != "b2" || now.Ref.Name != "team" || now.Rotated != nil || now.Holders["a"] != 1 {
			t.Errorf("now is %+v", now)
		}
		p.saw("session/a got team", "session/a got team") // the second letter brings the newer generation
		p.takes(p.send(protocol.UpdateSaveSeed, saves("a", 1, 1, "2")))
	})
	p.at(5*time.Second, func() {
		if v := p.seed(); v.Generation != 2 || v.Health != protocol.Healthy || v.VerifiedAt == nil {
			t.Errorf("a repeat made %+v", v)
		}
		p.saw()
	})
	p.runSeed(6 * time.Second)
}

func TestALoginIsPutFromTheKeysOfItsSeedAlone(t *testing.T) {
	p := newSeedWorld(t)
	p.at(time.Second, func() {
		for _, blob := range []string{"seeds/other/1", "seeds/team", "seeds/team2/1", "audit/2026/1", "starts/s1", "api-tokens/ci/revoked", "b1"} {
			in := login("2")
			in.Ref.Blob = blob
			p.refuses(p.send(protocol.UpdatePutSeed, in), protocol.RefusedBadInput)
		}
		if now := p.seed(); now.Generation != 1 {
			t.Errorf("the seed is %+v", now)
		}
		p.takes(p.send(protocol.UpdatePutSeed, login("2")))
	})
	p.runSeed(time.Minute)
}
