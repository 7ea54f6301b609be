package workflows

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/session"
)

// fakeSweeper is a host that is away until the test brings it back.
type fakeSweeper struct {
	t     *testing.T
	mu    sync.Mutex
	away  bool
	err   error
	tries []places.WipeLeftoverInput
}

func (f *fakeSweeper) set(away bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away, f.err = away, err
}

func (f *fakeSweeper) tried() []places.WipeLeftoverInput {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]places.WipeLeftoverInput{}, f.tries...)
}

func (f *fakeSweeper) WipeLeftover(_ context.Context, in places.WipeLeftoverInput) (places.WipeLeftoverResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries = append(f.tries, in)
	switch {
	case f.away:
		return places.WipeLeftoverResult{}, temporal.NewNonRetryableApplicationError("no route to host", protocol.ErrTypeUnreachable, nil)
	case f.err != nil:
		return places.WipeLeftoverResult{}, f.err
	}
	return places.WipeLeftoverResult{Wiped: true, At: time.Unix(1_800_000_000, 0).UTC(), Removed: in.Discard}, nil
}

func (p *poolWorld) sweeper() *fakeSweeper {
	f := &fakeSweeper{t: p.t, away: true}
	p.RegisterActivity(f)
	return f
}

func (p *poolWorld) shown(host string) protocol.HostView {
	p.t.Helper()
	return query[protocol.HostView](p.world, protocol.QueryHost, host)
}

// A session that ends while its host is away leaves a credential there. The pool records
// and shows it, and wipes it as soon as the host is back.
func TestWhatIsLeftOnALostHostIsWipedWhenItIsBack(t *testing.T) {
	p := newPoolWorld(t)
	f := p.sweeper()
	seed := &protocol.SeedRef{Name: "team", Blob: "b", Kind: "api_key"}
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1", Seed: "team"}) })
	p.at(2*time.Second, func() {
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "a", Left: &lease.LeftBehind{Why: "no route to host", Generation: 7, Seed: seed, Discard: true}})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "b", Host: "web-1"})
	})
	p.once("a try", func() bool { return len(f.tried()) == 1 && p.shown("web-1").Leftovers[0].Error != "" }, func() {
		v := p.shown("web-1")
		if got := fmt.Sprint(query[[]inquiry.LeftThere](p.world, protocol.QueryLeft)); got != "[{b web-1 true} {a web-1 false}]" {
			t.Errorf("asked what is left: %s", got)
		}
		if v.Unclean != 1 || len(v.Leftovers) != 1 || v.Leftovers[0].Seed != "team" || !strings.Contains(v.Leftovers[0].Error, "no route") {
			t.Errorf("host is %+v", v)
		}
		for _, h := range query[[]protocol.HostView](p.world, protocol.QueryHosts) {
			if h.Name == "web-1" && h.Unclean != 1 {
				t.Errorf("listed as %+v", h)
			}
		}
		p.saw("session/a got web-1", "session/b got web-1") // the leftover holds up nobody else
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "b"})
	})
	p.at(2*time.Minute, func() {
		p.refuses(p.send(protocol.UpdateRemoveHost, protocol.RemoveHost{Name: "web-1"}), protocol.RefusedState)
	})
	p.at(4*kit.Usual.Reap, func() {
		if n := len(f.tried()); n < 4 || n > 6 {
			t.Errorf("tried %d times in 20 minutes", n)
		}
		f.set(false, nil)
		p.SignalWorkflow(lease.SignalHostBack, protocol.HostBack{Host: "web-1"})
	})
	p.at(4*kit.Usual.Reap+10*time.Second, func() {
		if got := query[[]inquiry.LeftThere](p.world, protocol.QueryLeft); len(got) != 0 {
			t.Errorf("when all is wiped there is left: %v", got)
		}
		v := p.shown("web-1")
		if v.Unclean != 0 || len(v.Leftovers) != 1 || v.Leftovers[0].WipedAt.IsZero() || !v.Leftovers[0].Removed || v.Leftovers[0].Error != "" {
			t.Errorf("host is %+v", v)
		}
		last, first := f.tried()[len(f.tried())-1], f.tried()[0]
		if last.Seed == nil || *last.Seed != *seed || !last.Discard || last.Generation != 7 || last.Claim.Host.Name != "web-1" ||
			first.Claim.Generation <= 7 || last.Claim.Generation <= first.Claim.Generation {
			t.Errorf("wiped by %+v", last)
		}
		// Each try has a newer generation on the host, but Found keeps the generation of
		// the first try.
		if first.Found <= 7 || last.Found != first.Found {
			t.Errorf("first found at %d, and then at %d", first.Found, last.Found)
		}
		p.takes(p.send(protocol.UpdateRemoveHost, protocol.RemoveHost{Name: "web-1"}))
	})
	p.finish(5 * kit.Usual.Reap)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

// A terminated workflow reports nothing. The check for ended holders finds that it has
// ended, and the pool wipes what the session planted.
func TestATerminatedSessionLeavesALeftover(t *testing.T) {
	p := newPoolWorld(t)
	f := p.sweeper()
	f.set(false, nil)
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	p.at(time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "killed", Host: "web-1", Seed: "team", Run: "r1"})
	})
	p.at(2*time.Second, func() { p.engine.ended["session/killed"] = true })
	p.at(2*kit.Usual.Reap, func() {
		tries := f.tried()
		if len(tries) != 1 || tries[0].Discard || tries[0].Seed == nil || tries[0].Seed.Name != "team" || tries[0].Layout != (protocol.Layout{}) {
			t.Errorf("tried %+v", tries)
		}
		if v := p.shown("web-1"); v.Used != 0 || len(v.Leftovers) != 1 || v.Leftovers[0].WipedAt.IsZero() {
			t.Errorf("host is %+v", v)
		}
	})
	p.finish(3 * kit.Usual.Reap)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

// A new session must not use the folder of a former session of the same name, because an
// unsaved login may be in it.
func TestANewSessionOfAnOldNameWaitsForTheOldOnesLeftovers(t *testing.T) {
	p := newPoolWorld(t)
	f := p.sweeper()
	p.at(0, func() {
		p.takes(p.send(protocol.UpdatePutHost, put("web-1", 2)))
		p.takes(p.send(protocol.UpdatePutHost, put("web-2", 1)))
	})
	p.at(time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1", Run: "r1"})
	})
	p.at(2*time.Second, func() { // the first session was terminated in the meantime
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1", Run: "r2"})
	})
	p.once("the wait", func() bool { return p.shown("web-1").Queue == 1 }, func() {
		if v := p.shown("web-1"); v.Used != 0 || v.Unclean != 1 {
			t.Errorf("host is %+v", v)
		}
		f.set(false, nil)
		p.SignalWorkflow(lease.SignalFound, protocol.SetHost{Name: "web-1", Check: &protocol.CheckHostResult{OK: true}})
	})
	p.once("the slot", func() bool { v := p.shown("web-1"); return v.Used == 1 && len(v.Leftovers) == 1 && v.Unclean == 0 }, func() {
		p.saw("session/a got web-1", "session/a got web-1", "session/a queued: a slot: host web-1 is not yet cleaned of what session a left there before; nobody waits before it")
	})
	p.finish(kit.Usual.Reap / 2)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

// While a seed still needs the login on the host, the login stays. Leftovers of other
// sessions there are wiped.
func TestALoginThatIsNotSavedHoldsUpNobodyElse(t *testing.T) {
	p := newPoolWorld(t)
	f := p.sweeper()
	f.set(false, temporal.NewNonRetryableApplicationError("not saved", protocol.ErrTypeLoginUnsaved, nil,
		protocol.Problem{Kind: protocol.ErrTypeLoginUnsaved, Message: "not saved", Hint: "wait"}))
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 2))) })
	p.at(time.Second, func() {
		for _, s := range []string{"a", "b"} {
			p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: s, Host: "web-1", Seed: "team"})
		}
	})
	p.at(2*time.Second, func() {
		for _, s := range []string{"a", "b"} {
			p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: s, Left: &lease.LeftBehind{Why: "gone"}})
		}
	})
	p.once("both tried", func() bool {
		seen := map[string]bool{}
		for _, in := range f.tried() {
			seen[in.Claim.Session] = true
		}
		return seen["a"] && seen["b"]
	}, func() {})
	p.at(2*kit.Usual.Reap, func() {
		v := p.shown("web-1")
		if v.Unclean != 2 || v.Leftovers[0].Hint == "" {
			t.Errorf("host is %+v", v)
		}
	})
	p.finish(3 * kit.Usual.Reap)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

// The pool's next run also knows the leftovers, and goes on at once.
func TestLeftoversAreCarried(t *testing.T) {
	p := newPoolWorld(t)
	f := p.sweeper()
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 2))) })
	p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1"}) })
	p.at(2*time.Second, func() {
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "a", Left: &lease.LeftBehind{Why: "gone", Discard: true}})
	})
	p.once("a try", func() bool { return len(f.tried()) == 1 && p.shown("web-1").Leftovers[0].Error != "" }, func() { p.fill() })
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
	var again hostpool.Input
	if c := p.continued(); c != nil {
		again = carriedAs[hostpool.Input](t, c)
	}
	found := f.tried()[0].Found

	p = newPoolWorld(t)
	f = p.sweeper()
	f.set(false, nil)
	p.once("it is wiped", func() bool { return len(f.tried()) == 1 && p.shown("web-1").Unclean == 0 }, func() {})
	p.finish(kit.Usual.Reap / 2)
	p.ExecuteWorkflow(protocol.TypeHostPool, again)
	p.verify()
	if now := f.tried()[0].Found; now != found || found == 0 {
		t.Errorf("found at %d, and then at %d", found, now)
	}
}

// If a session came back to a host and left something again, that is another folder, and
// Found is set anew.
func TestWhatIsLeftAgainIsFoundAnew(t *testing.T) {
	p := newPoolWorld(t)
	f := p.sweeper()
	leaves := func() {
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "a", Left: &lease.LeftBehind{Host: "web-1", Why: "gone"}})
	}
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1"}) })
	p.at(2*time.Second, leaves)
	var first, second []places.WipeLeftoverInput
	p.at(2*kit.Usual.Reap, func() {
		first = f.tried()
		leaves()
	})
	p.at(4*kit.Usual.Reap, func() { second = f.tried()[len(first):] })
	p.finish(5 * kit.Usual.Reap)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
	if len(first) < 2 || len(second) < 2 {
		t.Fatalf("tried %d and %d times", len(first), len(second))
	}
	for what, in := range map[string][]places.WipeLeftoverInput{"first": first, "again": second} {
		if in[0].Found != in[0].Claim.Generation || in[len(in)-1].Found != in[0].Found {
			t.Errorf("%s: found at %d, then at %d", what, in[0].Found, in[len(in)-1].Found)
		}
	}
	if second[0].Found <= first[0].Found {
		t.Errorf("left again it was found at %d, before at %d", second[0].Found, first[0].Found)
	}
}

// A session that ends while its host is away reports what it leaves there. A session that
// cleaned up reports nothing.
func TestASessionSaysWhatItLeaves(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"cleaned", nil, false},
		{"away", temporal.NewNonRetryableApplicationError("no route to host", protocol.ErrTypeUnreachable, nil), true},
		{"used by a newer holder", temporal.NewNonRetryableApplicationError("a newer one", protocol.ErrTypeFenced, nil), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			if c.err != nil {
				w.fake.closeErrs = []error{c.err}
			}
			w.at(time.Second, func() { w.SignalWorkflow(protocol.SignalClose, protocol.Close{Discard: true}) })
			w.start(session.Options{Seed: "team"})
			switch left := w.left; {
			case !c.want && left != nil:
				t.Errorf("left %+v", left)
			case c.want && (left == nil || left.Seed == nil || left.Seed.Name != "team" || left.Layout == nil || !left.Discard || !strings.Contains(left.Why, "no route")):
				t.Errorf("left %+v", left)
			}
		})
	}
}

// On another machine, the pool would not find the leftover, and would take it for gone.
func TestAHostWithLeftoversIsNotReplacedByAnotherMachine(t *testing.T) {
	p := newPoolWorld(t)
	f := p.sweeper()
	moved, another, somebody := put("web-1", 1), put("web-1", 1), put("web-1", 1)
	moved.Spec.Address, another.Spec.HostKeys, somebody.Spec.User = "192.0.2.99", []string{"SHA256:other"}, "bob"
	moved.Replace, another.Replace, somebody.Replace = true, true, true
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1"}) })
	p.at(2*time.Second, func() {
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "a", Left: &lease.LeftBehind{Why: "gone"}})
	})
	p.once("a try", func() bool { return len(f.tried()) == 1 && p.shown("web-1").Leftovers[0].Error != "" }, func() {
		p.refuses(p.send(protocol.UpdatePutHost, another), protocol.RefusedState)
		p.refuses(p.send(protocol.UpdatePutHost, somebody), protocol.RefusedState)
		p.takes(p.send(protocol.UpdatePutHost, moved))
	})
	p.finish(kit.Usual.Reap / 2)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

// The address in the inventory leads to a session's folder on the host, so it must not
// become that of another machine.
func TestAHostInUseIsNotReplacedByAnotherMachine(t *testing.T) {
	p := newPoolWorld(t)
	moved, another := put("web-1", 2), put("web-1", 2)
	moved.Spec.Address, another.Spec.HostKeys = "192.0.2.99", []string{"SHA256:other"}
	moved.Replace, another.Replace = true, true
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	p.at(time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1", Generation: 1})
	})
	p.at(2*time.Second, func() {
		p.refuses(p.send(protocol.UpdatePutHost, another), protocol.RefusedState)
		p.refuses(p.send(protocol.UpdatePutHosts, protocol.PutHosts{Hosts: []protocol.PutHost{another}}), protocol.RefusedState)
		p.takes(p.send(protocol.UpdatePutHost, moved))
		p.SignalWorkflow(lease.SignalRelease, Parks("a", 100))
	})
	p.at(3*time.Second, func() { p.refuses(p.send(protocol.UpdatePutHost, another), protocol.RefusedState) })
	p.finish(4 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}
