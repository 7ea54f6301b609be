package workflows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/overseer"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/seed"
)

// fakeEngine knows which holders have ended, by id, or by id and first run.
type fakeEngine struct {
	ended    map[string]bool
	sessions []string // the ids of running sessions, as a list returns them

	mu      sync.Mutex
	noLists []error // the errors of the next lists of sessions
	pends   bool    // FindEnded never returns
	looked  bool    // FindEnded was called
}

func (f *fakeEngine) FindSessions(context.Context, overseer.FindSessionsInput) (overseer.FindSessionsResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.noLists) > 0 {
		err := f.noLists[0]
		f.noLists = f.noLists[1:]
		return overseer.FindSessionsResult{}, err
	}
	return overseer.FindSessionsResult{Sessions: f.sessions}, nil
}

func (f *fakeEngine) FindEnded(_ context.Context, in overseer.FindEndedInput) (overseer.FindEndedResult, error) {
	var out overseer.FindEndedResult
	f.mu.Lock()
	f.looked = true
	f.mu.Unlock()
	if f.pends {
		return out, activity.ErrResultPending
	}
	for _, h := range in.Holders {
		if f.ended[h.WorkflowID] || f.ended[h.WorkflowID+" "+h.FirstRun] {
			out.Ended = append(out.Ended, h)
		}
	}
	return out, nil
}

// fakeHosts records which hosts are watched. The pool does not wait for WatchHost, which
// does not end by itself.
type fakeHosts struct {
	mu       sync.Mutex
	said     []string
	problems map[string]*protocol.Problem // what probes find, by host
	probes   []string                     // the hosts of each probe
}

func (f *fakeHosts) WatchHost(_ context.Context, in pumps.WatchHostInput) error {
	f.record(fmt.Sprintf("%s at %s:%d tells %s* by %s", in.Host.Name, in.Host.Address, in.Host.Port, in.Prefix, in.Signal))
	return activity.ErrResultPending
}

// ProbeHosts reports every host as healthy, except those in problems.
func (f *fakeHosts) ProbeHosts(_ context.Context, in hosts.ProbeHostsInput) (hosts.ProbeHostsResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out hosts.ProbeHostsResult
	var names []string
	for _, h := range in.Hosts {
		names = append(names, h.Name)
		found := hosts.HostProbed{Name: h.Name, Problem: f.problems[h.Name]}
		if found.Problem == nil || found.Problem.Kind == protocol.ErrTypeNoSpace {
			found.Facts = map[string]string{"os": "Linux", "arch": "x86_64", "libc": "glibc 2.36", "cpus": "8", "memory_mb": "32000", "disk_free_mb": "2047"}
		}
		out.Hosts = append(out.Hosts, found)
	}
	f.probes = append(f.probes, strings.Join(names, " "))
	return out, nil
}

func (f *fakeHosts) record(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, what)
}

// take returns what was recorded since the last call.
func (f *fakeHosts) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.said
	f.said = nil
	return out
}

// poolWorld runs a pool, and records what it tells to whom.
type poolWorld struct {
	*world
	engine *fakeEngine
	seeds  *fakeSeeds
	hosts  *fakeHosts
	mu     sync.Mutex
	told   []string        // unordered, because the environment sends signals concurrently
	gone   map[string]bool // sessions that cannot be signalled

	onLetter func()              // called when a session is told something; may be nil
	onLook   func(lease.Granted) // gets all answers to sessions
}

func newPoolWorld(t *testing.T) *poolWorld {
	p := &poolWorld{world: &world{environment: newEnvironment(), t: t},
		engine: &fakeEngine{ended: map[string]bool{}}, gone: map[string]bool{}}
	p.RegisterActivity(p.engine)
	p.hosts = &fakeHosts{}
	p.RegisterActivity(p.hosts)
	p.SetOnActivityCanceledListener(func(*activity.Info) { p.hosts.record("called back") })
	p.seeds = &fakeSeeds{t: t, blobs: 2}
	p.RegisterActivity(p.seeds)
	p.RegisterWorkflowWithOptions(hostpool.Run(kit.Usual), workflow.RegisterOptions{Name: protocol.TypeHostPool})
	p.RegisterWorkflowWithOptions(seed.Run(kit.Usual), workflow.RegisterOptions{Name: protocol.TypeSeed})
	p.RegisterWorkflowWithOptions(seed.RunPool(kit.Usual), workflow.RegisterOptions{Name: protocol.TypeSeedPool})
	answer := func(_ string, id, _, name string, arg any) error {
		if p.gone[id] {
			return &temporal.UnknownExternalWorkflowExecutionError{}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.onLetter != nil {
			p.onLetter()
		}
		if text := toSeeds(arg); text != "" {
			p.told = append(p.told, id+text)
			return nil
		}
		g := arg.(lease.Granted)
		if p.onLook != nil {
			p.onLook(g)
			return nil
		}
		switch {
		case g.Refused != nil:
			later := ""
			if g.RetryAfter > 0 {
				later = " for now"
			}
			p.told = append(p.told, id+" refused "+g.Refused.Kind+later)
		case g.Queued != "":
			p.told = append(p.told, id+" queued: "+g.Queued)
		case g.Spec != nil:
			p.told = append(p.told, id+" got "+g.Spec.Name)
		case g.Seed != nil:
			got := id + " got " + g.Seed.Name
			if g.Amend {
				got += " and may amend"
			}
			if g.Bounds != nil {
				got += " within " + g.Bounds.Sandbox
			}
			p.told = append(p.told, got)
		}
		return nil
	}
	p.OnSignalExternalWorkflow(anyArg, anyArg, anyArg, anyArg, anyArg).Return(answer)
	return p
}

// toSeeds returns as text a signal that is no answer to a request: one between seeds and
// their pools, an order to leave a host, or the question of a pool what a session holds.
func toSeeds(arg any) string {
	switch a := arg.(type) {
	case lease.LeaveHost:
		if a.Off {
			return " may stay on " + a.Host
		}
		return fmt.Sprintf(" is to %s, from %s, by %s", a.How, a.Host, a.By)
	case lease.RollCall:
		return " is asked what it holds of " + a.From
	case lease.Acquire:
		if a.Again {
			return fmt.Sprintf(" asked whether %s has it, for %s", a.Holder, a.Pool)
		}
		return fmt.Sprintf(" asked for %s, for %s", a.Holder, a.Pool)
	case lease.Release:
		return fmt.Sprintf(" hears that %s took nothing: %v, epoch %d", a.Holder, a.Clean, a.Epoch)
	case seed.MemberNews:
		return fmt.Sprintf(" hears of %s: gone %v, free %v, %s, %v, left %v", a.Seed, a.Gone, a.Free, a.Health, a.Answers, a.Left)
	}
	return ""
}

func (p *poolWorld) saw(want ...string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.Sort(p.told)
	slices.Sort(want)
	if got := strings.Join(p.told, "\n"); got != strings.Join(want, "\n") {
		p.t.Errorf("told\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	p.told = nil
}

// hears runs a step once n holders have been told something. The environment sends signals
// from goroutines of their own, and its clock does not wait for them, so each check gives
// them a millisecond.
func (p *poolWorld) hears(n int, f func()) {
	p.steps++
	end := time.Now().Add(patience)
	var look func()
	look = func() {
		p.mu.Lock()
		got := len(p.told)
		p.mu.Unlock()
		switch {
		case got >= n:
			p.steps--
			f()
		case time.Now().After(end):
			p.t.Errorf("%d were told something, want %d", got, n)
			p.CancelWorkflow()
		default:
			<-time.After(time.Millisecond)
			p.RegisterDelayedCallback(look, time.Millisecond)
		}
	}
	p.RegisterDelayedCallback(look, time.Millisecond)
}

func (p *poolWorld) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = nil
}

// finish ends a workflow that does not end by itself.
func (p *poolWorld) finish(at time.Duration) { p.RegisterDelayedCallback(p.CancelWorkflow, at) }

func put(name string, slots int) protocol.PutHost {
	return protocol.PutHost{Spec: protocol.HostSpec{Name: name, Address: "192.0.2.7", HostKeys: []string{"SHA256:abc"}}, Slots: slots}
}

func TestSlotsAreNeverGivenTwice(t *testing.T) {
	p := newPoolWorld(t)
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	p.at(time.Second, func() {
		for _, s := range []string{"a", "b", "c"} {
			p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: s, Host: "web-1"})
		}
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "x", Host: "nowhere"})
	})
	p.at(2*time.Second, func() {
		p.saw("session/a got web-1",
			"session/b queued: a slot: host web-1 has all 1 slots in use; nobody waits before it",
			"session/c queued: a slot: host web-1 has all 1 slots in use; 1 waits before it",
			"session/x refused host_not_found")
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "a"})
	})
	p.at(3*time.Second, func() {
		p.saw("session/b got web-1", "session/c queued: a slot: host web-1 has all 1 slots in use; nobody waits before it")
		h := query[protocol.HostView](p.world, protocol.QueryHost, "web-1")
		if h.Used != 1 || h.Queue != 1 || strings.Join(h.Holders, "") != "b" {
			t.Errorf("host is %+v", h)
		}
		p.refuses(p.send(protocol.UpdateRemoveHost, protocol.RemoveHost{Name: "web-1"}), protocol.RefusedState)
	})
	p.finish(4 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func TestALeaseEndsWithItsHolderHoweverItEnded(t *testing.T) {
	p := newPoolWorld(t)
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	p.at(time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "killed", Host: "web-1"})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "next", Host: "web-1"})
	})
	p.at(2*time.Second, func() { p.forget(); p.engine.ended["session/killed"] = true })
	p.at(2*kit.Usual.Reap, func() { p.saw("session/next got web-1") })
	p.finish(3 * kit.Usual.Reap)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func TestAHolderThatIsGoneBlocksNobody(t *testing.T) {
	p := newPoolWorld(t)
	p.gone["session/ghost"] = true
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "ghost", Host: "web-1"}) })
	p.at(2*time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "b", Host: "web-1"}) })
	p.at(3*time.Second, func() { p.saw("session/b got web-1") })
	p.finish(4 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
}

func TestACordonedHostTakesNobodyNew(t *testing.T) {
	p := newPoolWorld(t)
	yes, no := true, false
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 2))) })
	p.at(time.Second, func() { p.takes(p.send(protocol.UpdateSetHost, protocol.SetHost{Name: "web-1", Cordon: &yes})) })
	p.at(2*time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1"}) })
	p.at(3*time.Second, func() {
		p.saw("session/a queued: a slot: host web-1 is cordoned; nobody waits before it")
		p.takes(p.send(protocol.UpdateSetHost, protocol.SetHost{Name: "web-1", Cordon: &no}))
	})
	p.at(4*time.Second, func() { p.saw("session/a got web-1") })
	p.finish(5 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func TestBadHostsAreRefused(t *testing.T) {
	p := newPoolWorld(t)
	p.at(0, func() {
		p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1)))
		p.refuses(p.send(protocol.UpdatePutHost, put("web-1", 1)), protocol.RefusedState)
		p.refuses(p.send(protocol.UpdatePutHost, put("Web 1", 1)), protocol.RefusedBadInput)
		unpinned := put("web-2", 1)
		unpinned.Spec.HostKeys = nil
		p.refuses(p.send(protocol.UpdatePutHost, unpinned), protocol.RefusedBadInput)
		jump := put("web-3", 1)
		jump.Jump = "nowhere"
		p.refuses(p.send(protocol.UpdatePutHost, jump), protocol.RefusedNotFound)
		p.refuses(p.send(protocol.UpdateRemoveHost, protocol.RemoveHost{Name: "local"}), protocol.RefusedBadInput)
		p.refuses(p.send(protocol.UpdateRemoveHost, protocol.RemoveHost{Name: "nowhere"}), protocol.RefusedNotFound)
	})
	p.finish(time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func TestAPoolRollsOverWithItsLeasesAndItsQueue(t *testing.T) {
	p := newPoolWorld(t)
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	p.at(time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1"})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "b", Host: "web-1"})
	})
	p.at(2*time.Second, func() {
		p.SignalWorkflow(lease.SignalFound, protocol.SetHost{Name: "web-1", Codex: "0.169.0"})
	})
	p.at(3*time.Second, func() { p.fill() })
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	var again *temporalContinue
	if !errors.As(p.GetWorkflowError(), &again) {
		t.Fatalf("the pool ended with %v", p.GetWorkflowError())
	}
	in := carriedAs[hostpool.Input](t, again)
	if len(in.Carry.Hosts) != 2 || in.Carry.Hosts[1].Codex != "0.169.0" || len(in.Carry.Leases) != 1 || len(in.Carry.Queue) != 1 {
		t.Errorf("carried %+v", in.Carry)
	}
}

// fakeSeeds checks purges, and answers fetches of logins as the test lists them.
type fakeSeeds struct {
	t     *testing.T
	blobs int
	hold  chan struct{} // closed by the test to let a purge through

	mu      sync.Mutex
	fetched []inquiry.RecoverSeedInput
	answers []func() (inquiry.RecoverSeedResult, error) // of the fetches, in order; a further fetch fails the test
}

// fetches returns the inputs of all fetches so far.
func (f *fakeSeeds) fetches() []inquiry.RecoverSeedInput {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.fetched)
}

func (f *fakeSeeds) RecoverSeed(_ context.Context, in inquiry.RecoverSeedInput) (inquiry.RecoverSeedResult, error) {
	f.mu.Lock()
	f.fetched = append(f.fetched, in)
	n := len(f.fetched)
	f.mu.Unlock()
	if n > len(f.answers) {
		f.t.Errorf("fetch %d was not expected: %+v", n, in)
		return inquiry.RecoverSeedResult{}, finally(protocol.ErrTypeInternal)
	}
	return f.answers[n-1]()
}

func (f *fakeSeeds) DeleteSeedBlobs(ctx context.Context, in logins.DeleteSeedInput) error {
	if len(in.Blobs) != f.blobs || in.Before.IsZero() {
		f.t.Errorf("purged %+v", in)
	}
	if f.hold != nil {
		select {
		case <-f.hold:
		case <-ctx.Done():
		}
	}
	return nil
}

func TestALoginThatRotatesHasOneHolder(t *testing.T) {
	p := newPoolWorld(t)
	ref := protocol.SeedRef{Name: "team", Blob: "seeds/team/b1", Digest: "d", Kind: "chatgpt"}
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutSeed, protocol.PutSeed{Name: "team", Ref: ref})) })
	p.at(time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a"})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "b"})
	})
	p.at(2*time.Second, func() {
		p.saw("session/a got team", "session/b queued: seed team, held by a; nobody waits before it")
		p.refuses(p.send(protocol.UpdateDeleteSeed, protocol.DeleteSeed{}), protocol.RefusedState)
		p.refuses(p.send(protocol.UpdatePutSeed, protocol.PutSeed{Name: "team", Ref: ref}), protocol.RefusedState)
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "a", Epoch: 1, Clean: true})
	})
	p.at(3*time.Second, func() {
		p.saw("session/b got team")
		v := query[protocol.SeedView](p.world, protocol.QuerySeed)
		if v.Generation != 1 || v.Epoch != 2 || strings.Join(v.HeldBy, "") != "b" {
			t.Errorf("seed is %+v", v)
		}
	})
	p.finish(4 * time.Second)
	p.ExecuteWorkflow(protocol.TypeSeed, newSeed)
	p.verify()
}

func TestAnAPIKeyIsShared(t *testing.T) {
	p := newPoolWorld(t)
	ref := protocol.SeedRef{Name: "team", Blob: "seeds/team/b1", Digest: "d", Kind: "api_key"}
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutSeed, protocol.PutSeed{Name: "team", Ref: ref})) })
	p.at(time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a"})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "b"})
	})
	p.at(2*time.Second, func() { p.saw("session/a got team", "session/b got team") })
	p.finish(3 * time.Second)
	p.ExecuteWorkflow(protocol.TypeSeed, newSeed)
	p.verify()
}

func TestADeletedSeedEndsAndItsBlobsArePurged(t *testing.T) {
	p := newPoolWorld(t)
	p.at(time.Millisecond, func() { p.refuses(p.send(protocol.UpdateDeleteSeed, protocol.DeleteSeed{}), protocol.RefusedNotFound) })
	p.at(2*time.Millisecond, func() {
		p.takes(p.send(protocol.UpdatePutSeed, protocol.PutSeed{Name: "team", Ref: protocol.SeedRef{Blob: "seeds/team/b1", Digest: "d"}}))
		p.takes(p.send(protocol.UpdatePutSeed, protocol.PutSeed{Name: "team", Ref: protocol.SeedRef{Blob: "seeds/team/b2", Digest: "d"}, Expect: 1}))
		p.refuses(p.send(protocol.UpdatePutSeed, protocol.PutSeed{Name: "team", Ref: protocol.SeedRef{Blob: "seeds/team/b3", Digest: "d"}, Expect: 1}), protocol.RefusedState)
	})
	p.at(time.Second, func() { p.takes(p.send(protocol.UpdateDeleteSeed, protocol.DeleteSeed{Purge: true})) })
	p.ExecuteWorkflow(protocol.TypeSeed, newSeed)
	if err := p.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	p.verify()
}

// A pool that is asked for slots without a pause still ends its run. Otherwise
// Temporal would end the workflow, and the record of all slots would be lost.
func TestAPoolThatIsNeverIdleRollsOver(t *testing.T) {
	p := newPoolWorld(t)
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	n := 0
	p.onLetter = func() {
		if n++; n == 5 {
			p.fill()
		}
		if n < 100 {
			p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: fmt.Sprint("s", n), Host: "web-1"})
		}
	}
	p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "s0", Host: "web-1"}) })
	p.finish(time.Hour)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	var again *temporalContinue
	if !errors.As(p.GetWorkflowError(), &again) {
		t.Fatalf("the pool ended with %v", p.GetWorkflowError())
	}
	if n >= 100 {
		t.Errorf("it rolled over only when nobody asked any more")
	}
	if in := carriedAs[hostpool.Input](t, again); len(in.Carry.Leases)+len(in.Carry.Queue) == 0 {
		t.Errorf("carried %+v", in.Carry)
	}
}
