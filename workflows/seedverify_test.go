package workflows

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/seed"
)

// fakeTokens answers verifications and refreshes as the test lists them. A call that is not
// listed fails the test.
type fakeTokens struct {
	t         *testing.T
	mu        sync.Mutex
	verifies  []string // verdicts
	refreshes []string // verdicts; the name of a login means the verdict alive, with that login
	verified  []logins.VerifySeedInput
	refreshed []logins.RefreshSeedInput
	hold      chan struct{}
	pends     bool // no refresh ends
	account   *protocol.SeedAccount
}

func (f *fakeTokens) VerifySeed(_ context.Context, in logins.VerifySeedInput) (logins.VerifySeedResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.verified = append(f.verified, in)
	if len(f.verified) > len(f.verifies) {
		f.t.Errorf("an unexpected verification %+v", in)
		return logins.VerifySeedResult{}, nil
	}
	return logins.VerifySeedResult{SeedVerdict: saying(f.verifies[len(f.verified)-1]), Account: f.account}, nil
}

func (f *fakeTokens) RefreshSeed(ctx context.Context, in logins.RefreshSeedInput) (logins.RefreshSeedResult, error) {
	f.mu.Lock()
	f.refreshed = append(f.refreshed, in)
	n, hold, pends := len(f.refreshed), f.hold, f.pends
	f.mu.Unlock()
	if pends {
		return logins.RefreshSeedResult{}, activity.ErrResultPending
	}
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	if n > len(f.refreshes) {
		f.t.Errorf("an unexpected refresh %+v", in)
		return logins.RefreshSeedResult{}, nil
	}
	word := f.refreshes[n-1]
	if !strings.HasPrefix(word, "login ") {
		return logins.RefreshSeedResult{SeedVerdict: saying(word), Asked: true}, nil
	}
	next := login(strings.TrimPrefix(word, "login "))
	return logins.RefreshSeedResult{SeedVerdict: saying("alive"), Saved: &next.Ref, Files: next.Files, Auth: next.Files[0].Digest, Asked: true}, nil
}

func (f *fakeTokens) asked() (verified, refreshed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.verified), len(f.refreshed)
}

func saying(verdict string) logins.SeedVerdict {
	v := logins.SeedVerdict{Verdict: verdict}
	if verdict != "alive" {
		v.Reason, v.Hint = "because it is "+verdict, "do `ctl seed verify NAME --force`"
	}
	return v
}

func newVerifyWorld(t *testing.T, verifies, refreshes []string) (*poolWorld, *fakeTokens) {
	p := newSeedWorld(t)
	f := &fakeTokens{t: t, verifies: verifies, refreshes: refreshes}
	p.RegisterActivity(f)
	return p, f
}

// checked checks that a verification was answered, and returns the answer.
func checked(t *testing.T, u *updated) protocol.SeedView {
	t.Helper()
	v, ok := u.result.(protocol.SeedView)
	if !ok || u.err != nil {
		t.Fatalf("the verification was answered %.300v", u)
	}
	return v
}

func TestAVerificationSaysWhatItsVerdictSays(t *testing.T) {
	for _, c := range []struct {
		refresh, health string
		generation      int64
	}{
		{"login 2", protocol.Healthy, 2}, {"dead", protocol.Dead, 1}, {"lost", protocol.Suspect, 1}, {"unknown", "unknown", 1},
	} {
		t.Run(c.refresh, func(t *testing.T) {
			p, f := newVerifyWorld(t, []string{"unknown"}, []string{c.refresh})
			var u *updated
			p.at(time.Second, func() { u = p.send(protocol.UpdateVerifySeed, protocol.VerifySeed{By: "ada"}) })
			p.once("the answer", func() bool { return u != nil && u.result != nil }, func() {
				v := p.seed()
				if v.Health != c.health || v.Generation != c.generation || v.State != protocol.SeedFree || v.Epoch != 1 || len(v.HeldBy) != 0 {
					t.Errorf("seed is %+v", v)
				}
				if got := checked(t, u); got.Check == nil || got.Check.By != "ada" || got.Check.Verdict == "" {
					t.Errorf("answered %+v", got.Check)
				}
				if c.health == protocol.Suspect && (v.Reason == "" || !strings.Contains(v.Hint, "verify team --force")) {
					t.Errorf("it says %q (%s)", v.Reason, v.Hint)
				}
				if (v.VerifiedAt != nil) != (c.health == protocol.Healthy) {
					t.Errorf("verified at %v", v.VerifiedAt)
				}
			})
			p.runSeed(time.Minute)
			if in := f.refreshed; len(in) != 1 || in[0].Force != "" || in[0].Seed.Blob != "seeds/team/b1" || in[0].Seed.Epoch != 1 {
				t.Errorf("refreshed %+v", in)
			}
		})
	}
}

func TestALoginIsNobodyElsesWhileItIsVerified(t *testing.T) {
	p, f := newVerifyWorld(t, []string{"unknown"}, []string{"login 2"})
	f.hold = make(chan struct{})
	p.at(time.Second, func() { p.takes(p.send(protocol.UpdateVerifySeed, protocol.VerifySeed{})) })
	p.once("the refresh", func() bool { _, n := f.asked(); return n == 1 }, func() {
		if v := p.seed(); v.State != protocol.SeedVerifying || len(v.HeldBy) != 0 {
			t.Errorf("seed is %+v", v)
		}
		p.refuses(p.send(protocol.UpdatePutSeed, login("9")), protocol.RefusedState)
		p.refuses(p.send(protocol.UpdateDeleteSeed, protocol.DeleteSeed{}), protocol.RefusedState)
		p.refuses(p.send(protocol.UpdateReviveSeed, protocol.ReviveSeed{}), protocol.RefusedState)
		p.SignalWorkflow(lease.SignalAcquire, on("a", "web-1", 100))
	})
	waits := func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.told) == 1 }
	p.once("it waits", waits, func() {
		p.saw("session/a queued: seed team, which is being verified; nobody waits before it")
		p.forget()
		close(f.hold)
	})
	p.once("it has it", waits, func() {
		p.saw("session/a got team")
		if v := p.seed(); v.Generation != 2 || v.Epoch != 2 || strings.Join(v.HeldBy, "") != "a" {
			t.Errorf("seed is %+v", v)
		}
	})
	p.runSeed(time.Minute)
}

func TestAHeldLoginIsNotTouched(t *testing.T) {
	p, f := newVerifyWorld(t, nil, nil)
	p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, on("a", "web-1", 100)) })
	var u *updated
	p.at(2*time.Second, func() { u = p.send(protocol.UpdateVerifySeed, protocol.VerifySeed{Force: true}) })
	p.at(3*time.Second, func() {
		v := checked(t, u)
		if v.Check == nil || v.Check.Verdict != seed.CheckHeld || !strings.Contains(v.Check.Reason, "held by a") || v.Health != "unknown" {
			t.Errorf("answered %+v", v.Check)
		}
		if p.seed().Check != nil {
			t.Error("what was not looked at is on record as a verification")
		}
	})
	p.runSeed(4 * time.Second)
	if v, r := f.asked(); v+r != 0 {
		t.Errorf("%d verifications, %d refreshes", v, r)
	}
}

// A fresh login is one whose own claims say that it is still valid. That saves a refresh,
// but does not prove that the seed is healthy.
func TestFreshnessMakesNothingHealthy(t *testing.T) {
	p, f := newVerifyWorld(t, []string{"fresh", "fresh", "fresh", "fresh"}, []string{"lost", "unknown", "login 2"})
	verdicts := []string{}
	ask := func(n int, in protocol.VerifySeed) {
		var u *updated
		p.at(time.Duration(n)*time.Minute, func() { u = p.send(protocol.UpdateVerifySeed, in) })
		p.at(time.Duration(n)*time.Minute+30*time.Second, func() {
			verdicts = append(verdicts, checked(t, u).Check.Verdict+" "+p.seed().Health)
		})
	}
	ask(1, protocol.VerifySeed{By: kit.Maintenance}) // nobody doubts it
	ask(2, protocol.VerifySeed{By: "ada"})           // a person wants to know
	ask(3, protocol.VerifySeed{By: kit.Maintenance}) // now the seed is suspect, and only a person may end that
	ask(4, protocol.VerifySeed{By: "ada", Force: true})
	p.runSeed(6 * time.Minute)
	if want := []string{"fresh unknown", "lost suspect", "unknown suspect", "alive healthy"}; !slices.Equal(verdicts, want) {
		t.Errorf("verdicts %q, want %q", verdicts, want)
	}
	for i, in := range f.refreshed {
		if (in.Force != "") != (i == 2) || in.Look != (i == 1) {
			t.Errorf("refresh %d: %+v", i, in)
		}
	}
}

func TestEachForceIsAWordOfItsOwn(t *testing.T) {
	p, f := newVerifyWorld(t, []string{"fresh", "fresh"}, []string{"lost", "dead"})
	for n := range 2 {
		p.at(time.Duration(n+1)*time.Minute, func() { p.takes(p.send(protocol.UpdateVerifySeed, protocol.VerifySeed{Force: true})) })
	}
	p.runSeed(5 * time.Minute)
	if len(f.refreshed) != 2 || f.refreshed[0].Force == "" || f.refreshed[0].Force == f.refreshed[1].Force {
		t.Errorf("refreshed %+v", f.refreshed)
	}
}

func TestAKeyThatIsRefusedIsSuspectAndNeverDead(t *testing.T) {
	p, _ := newVerifyWorld(t, []string{"suspect", "alive"}, nil)
	p.at(time.Second, func() {
		p.takes(p.send(protocol.UpdatePutSeed, protocol.PutSeed{Name: "team", Ref: protocol.SeedRef{Blob: "seeds/team/k", Digest: "d", Kind: "api_key"}}))
		p.takes(p.send(protocol.UpdateVerifySeed, protocol.VerifySeed{}))
	})
	p.at(time.Minute, func() {
		if v := p.seed(); v.Health != protocol.Suspect || v.Epoch != 0 {
			t.Errorf("seed is %+v", v)
		}
		p.takes(p.send(protocol.UpdateVerifySeed, protocol.VerifySeed{}))
	})
	p.at(2*time.Minute, func() {
		if v := p.seed(); v.Health != protocol.Healthy || v.VerifiedAt == nil {
			t.Errorf("seed is %+v", v)
		}
	})
	p.runSeed(3 * time.Minute)
}

func TestAHolderGetsANewerLoginAndASecondAskTheSame(t *testing.T) {
	p, f := newVerifyWorld(t, nil, []string{"login 2"})
	p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, on("a", "web-1", 100)) })
	var first, second *updated
	p.at(2*time.Second, func() {
		p.refuses(p.send(protocol.UpdateRefreshSeed, inquiry.RefreshSeed{Holder: "b", Epoch: 1, From: 1}), protocol.RefusedFenced)
		first = p.send(protocol.UpdateRefreshSeed, inquiry.RefreshSeed{Holder: "a", Epoch: 1, From: 1})
		second = p.send(protocol.UpdateRefreshSeed, inquiry.RefreshSeed{Holder: "a", Epoch: 1, From: 1})
	})
	p.at(time.Minute, func() {
		for _, u := range []*updated{first, second} {
			now, ok := u.result.(inquiry.SeedNow)
			if !ok || now.Generation != 2 || now.Ref.Blob != "seeds/team/b2" || now.Holders["a"] != 1 {
				t.Errorf("answered %.300v", u)
			}
		}
		if v := p.seed(); v.Health != protocol.Healthy || strings.Join(v.HeldBy, "") != "a" || v.Epoch != 1 {
			t.Errorf("seed is %+v", v)
		}
	})
	p.runSeed(2 * time.Minute)
	if len(f.refreshed) != 1 || f.refreshed[0].Seed.Epoch != 1 {
		t.Errorf("refreshed %+v", f.refreshed)
	}
}
