package workflows

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/session"
)

func (f *fakeHosts) finds(host string, p *protocol.Problem) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.problems == nil {
		f.problems = map[string]*protocol.Problem{}
	}
	f.problems[host] = p
}

// probed returns the hosts that were probed since the last call.
func (f *fakeHosts) probed() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := strings.Join(f.probes, ", ")
	f.probes = nil
	return out
}

func noRoute() *protocol.Problem {
	return &protocol.Problem{Kind: protocol.ErrTypeUnreachable, Message: "no route to host"}
}

func TestANewHostIsProbedAndPeoplesLabelsWin(t *testing.T) {
	p := newPoolWorld(t)
	in := put("web-1", 1)
	in.Labels = map[string]string{"arch": "mine", "team": "red"}
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, in)) })
	p.at(time.Second, func() {
		h := p.shown("web-1")
		if len(h.Labels) != 2 || h.Found["os"] != "linux" || h.Found["arch"] != "x86_64" || h.Found["libc"] != "glibc" || h.Found["cpus"] != "8" || h.Found["mem"] != "32" || h.Found["disk"] != "1" {
			t.Errorf("host is %+v", h)
		}
		if got := p.hosts.probed(); got != "web-1" {
			t.Errorf("probed were %s", got)
		}
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Labels: map[string]string{"os": "linux", "arch": "mine"}, Generation: 1})
	})
	p.at(2*time.Second, func() { p.saw("session/a got web-1") })
	p.finish(time.Hour)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
	if got := p.hosts.probed(); got != "" {
		t.Errorf("a host that is well was probed again: %s", got)
	}
}

// A host that fails gets no session. It is probed at growing intervals and quarantined.
// When it is well again, sessions that wait for the host get slots on it.
func TestAHostThatFailsIsProbedQuarantinedAndComesBack(t *testing.T) {
	p := newPoolWorld(t)
	p.sweeper().set(false, nil)
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 4))) })
	p.at(time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1", Generation: 1})
	})
	p.at(2*time.Second, func() {
		p.saw("session/a got web-1")
		p.forget()
		p.hosts.probed()
		p.hosts.finds("web-1", noRoute())
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "a", Generation: 1, Failed: &protocol.Failure{Kind: protocol.ErrTypeUnreachable, Message: "prepare web-1: no route"}})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "b", Host: "web-1", Generation: 1})
	})
	p.at(2*time.Second+500*time.Millisecond, func() {
		if h := p.shown("web-1"); h.State != protocol.HealthSuspect || h.Health == nil || h.Health.Kind != protocol.ErrTypeUnreachable || h.Used != 0 {
			t.Errorf("host is %+v", h)
		}
	})
	// Probes come after pauses of 1, 5, 15 and 60 seconds, a little less while they
	// grow, and then every five minutes.
	for at, n := range map[time.Duration]int{4 * time.Second: 1, 9 * time.Second: 2, 25 * time.Second: 3, 90 * time.Second: 4, 6*time.Minute + 30*time.Second: 5, 11*time.Minute + 30*time.Second: 6} {
		p.at(at, func() {
			h := p.shown("web-1")
			if h.State != protocol.HealthQuarantined || h.Health.Tries != n || h.Health.Reason != "no route to host" {
				t.Errorf("after %v host is %+v, %+v", at, h, h.Health)
			}
		})
	}
	p.at(12*time.Minute, func() { p.hosts.finds("web-1", nil) })
	p.at(17*time.Minute, func() {
		if h := p.shown("web-1"); h.Health != nil || h.State != "unchecked" {
			t.Errorf("host is %+v", h)
		}
		if got := p.hosts.probed(); strings.Count(got, "web-1") != 7 {
			t.Errorf("probed were %s", got)
		}
	})
	p.at(20*time.Minute, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if got := strings.Join(p.told, "\n"); !strings.Contains(got, "session/b queued: a slot: host web-1 is suspect since") || !strings.HasSuffix(got, "session/b got web-1") {
			t.Errorf("told was\n%s", got)
		}
	})
	p.finish(21 * time.Minute)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

// Hosts that cannot be reached at the same time are probed together, even if a probe finds
// nothing.
func TestHostsThatFailTogetherShareTheirProbes(t *testing.T) {
	p := newPoolWorld(t)
	// Pauses end at whole minutes, which must not fall between two of the hosts.
	p.SetStartTime(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	names := []string{"web-1", "web-2", "web-3"}
	p.at(0, func() {
		for _, n := range names {
			p.takes(p.send(protocol.UpdatePutHost, put(n, 4)))
		}
	})
	p.at(time.Second, func() {
		p.hosts.probed()
		for i, n := range names {
			p.hosts.finds(n, noRoute())
			at := time.Duration(i) * 300 * time.Millisecond
			p.RegisterDelayedCallback(func() {
				p.SignalWorkflow(protocol.SignalHostAway, protocol.HostAway{Host: n, Problem: *noRoute()})
			}, at)
		}
	})
	p.at(5*time.Minute, func() { p.hosts.probed() })
	p.at(25*time.Minute, func() {
		got := p.hosts.probed()
		if looks := strings.Count(got, ",") + 1; looks > 6 || strings.Count(got, "web-1") < 3 {
			t.Errorf("in twenty minutes there were %d looks: %s", looks, got)
		}
		for _, n := range names {
			p.hosts.finds(n, nil)
			p.SignalWorkflow(lease.SignalHostBack, protocol.HostBack{Host: n}) // the watch reports the host before a probe does
		}
	})
	p.at(25*time.Minute+time.Second, func() {
		for _, n := range names {
			if h := p.shown(n); h.Health != nil || h.State != "unchecked" {
				t.Errorf("host is %+v", h)
			}
		}
	})
	p.finish(30 * time.Minute)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

// A connection ends only the suspicion that the host cannot be reached. A host
// whose probe has failed comes back only after a good probe, and a host whose disk
// is full is not well because its watch answers.
func TestAHostWhoseProbeFailsComesBackOnlyByAGoodOne(t *testing.T) {
	full := &protocol.Problem{Kind: protocol.ErrTypeNoSpace, Message: "disk: 1 MB free"}
	back := func(p *poolWorld) { p.SignalWorkflow(lease.SignalHostBack, protocol.HostBack{Host: "web-1"}) }
	for name, c := range map[string]struct {
		problem *protocol.Problem
		sign    func(p *poolWorld)
		looks   bool // the host is then probed ahead of time
	}{
		"a full disk, and its watch answers": {full, back, false},
		"a full disk, and codex was put there": {full, func(p *poolWorld) {
			p.SignalWorkflow(lease.SignalFound, protocol.SetHost{Name: "web-1", Codex: "0.169.0"})
		}, false},
		"no route for probes, and its watch answers": {noRoute(), back, true},
		"no route for probes, and a check got in and found fault": {noRoute(), func(p *poolWorld) {
			p.SignalWorkflow(lease.SignalFound, protocol.SetHost{Name: "web-1", Check: &protocol.CheckHostResult{Facts: map[string]string{"os": "Linux"}}})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPoolWorld(t)
			p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 4))) })
			p.at(time.Second, func() {
				p.hosts.finds("web-1", c.problem)
				p.SignalWorkflow(lease.SignalFound, protocol.SetHost{Name: "web-1", Failed: kit.FailureOfProblem(c.problem)})
			})
			p.at(2*time.Minute, func() { // four probes have failed, and the next is due in some minutes
				p.hosts.probed()
				c.sign(p)
			})
			p.at(2*time.Minute+time.Second, func() {
				if h := p.shown("web-1"); h.State != protocol.HealthQuarantined || h.Health == nil || h.Health.Reason != c.problem.Message {
					t.Errorf("host is %+v, %+v", h, h.Health)
				}
				if looked := p.hosts.probed() != ""; looked != c.looks {
					t.Errorf("it was looked at: %v", looked)
				}
				p.hosts.finds("web-1", nil)
			})
			p.at(10*time.Minute, func() {
				if h := p.shown("web-1"); h.Health != nil {
					t.Errorf("host is %+v, %+v", h, h.Health)
				}
			})
			p.finish(11 * time.Minute)
			p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
			p.verify()
		})
	}
}

// A host that looks well and still fails is tried less and less often.
func TestAHostThatFailsAgainSoonIsTriedLessOften(t *testing.T) {
	p := newPoolWorld(t)
	fails := protocol.SetHost{Name: "web-1", Failed: &protocol.Failure{Kind: protocol.ErrTypeCodexMissing, Message: "no codex"}}
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 4))) })
	p.at(10*time.Second, func() { p.SignalWorkflow(lease.SignalFound, fails) })
	p.at(12*time.Second, func() {
		if h := p.shown("web-1"); h.Health != nil {
			t.Errorf("host is %+v", h)
		}
		p.SignalWorkflow(lease.SignalFound, fails)
	})
	p.at(14*time.Second, func() {
		if h := p.shown("web-1"); h.Health == nil {
			t.Error("it was tried again after a second, as the first time")
		}
	})
	p.at(18*time.Second, func() {
		if h := p.shown("web-1"); h.Health != nil {
			t.Errorf("host is %+v", h)
		}
	})
	p.at(time.Hour, func() { p.SignalWorkflow(lease.SignalFound, fails) })
	p.at(time.Hour+2*time.Second, func() {
		if h := p.shown("web-1"); h.Health != nil {
			t.Errorf("host is %+v", h)
		}
	})
	p.finish(2 * time.Hour)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

// A host with a wrong address or key is not treated like a host that is down. A session
// that names such a host is told what is wrong, and does not wait.
func TestAHostThatWasNeverReachedIsNotWaitedFor(t *testing.T) {
	p := newPoolWorld(t)
	p.hosts.finds("web-1", noRoute())
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 4))) })
	p.at(time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1", Generation: 1})
	})
	p.at(2*time.Second, func() { p.saw("session/a refused unreachable") })
	p.finish(time.Minute)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

// Nothing had begun on the first host, so the session gets the second host. It gets that
// host only once.
func TestASessionWhoseHostCannotBeUsedGetsAnother(t *testing.T) {
	w := newWorld(t)
	w.hosts = []string{"web-1", "web-2"}
	w.fake.gone = map[string]bool{"web-1": true}
	w.fake.pumps = append(w.fake.pumps, endsTurn("completed", "hi there"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.ends(time.Minute)
	w.start(session.Options{})
	if v := w.view(); v.Host != "web-2" || v.Attempt != 2 || v.Turn.N != 1 || v.Turn.Status != "completed" || v.Error != nil {
		t.Errorf("session is %+v", v)
	}
	if r := w.back[0]; r.Failed == nil || r.Failed.Kind != protocol.ErrTypeUnreachable || r.Left == nil || r.Left.Host != "web-1" || !r.Left.Discard {
		t.Errorf("the pool was told %+v", r)
	}
	if got := w.done(); !strings.HasPrefix(got, "prepare s1 on web-1, prepare s1 on web-2, start 1") {
		t.Errorf("done was %s", got)
	}
}

// A new label can make a host match what sessions ask for.
func TestAHostsLabelsAndSlotsAreChanged(t *testing.T) {
	p := newPoolWorld(t)
	in := put("web-1", 1)
	in.Labels = map[string]string{"team": "red", "tier": "1"}
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, in)) })
	p.at(time.Second, func() {
		p.takes(p.send(protocol.UpdateSetHost, protocol.SetHost{Name: "web-1", Labels: map[string]string{"gpu": "no"}, Unlabel: []string{"team"}, Slots: 3}))
		p.refuses(p.send(protocol.UpdateSetHost, protocol.SetHost{Name: "web-1", Slots: -1}), protocol.RefusedBadInput)
		p.refuses(p.send(protocol.UpdateSetHost, protocol.SetHost{Name: "web-1", Labels: map[string]string{"k": strings.Repeat("x", lease.MaxHost)}}), protocol.RefusedBadInput)
	})
	p.at(2*time.Second, func() {
		if h := p.shown("web-1"); h.Slots != 3 || len(h.Labels) != 2 || h.Labels["gpu"] != "no" || h.Labels["tier"] != "1" {
			t.Errorf("host is %+v", h)
		}
	})
	p.finish(time.Minute)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

// A host that sends more than it may is quarantined at once, although its probes succeed,
// and whatever else is heard of it. An hour later it is probed.
func TestAHostThatSendsTooMuchIsQuarantinedForAnHour(t *testing.T) {
	p := newPoolWorld(t)
	flood := protocol.Problem{Kind: protocol.ErrTypeHostFlood, Message: "take a snapshot: host sends too much", Hint: "look there"}
	quarantined := func(when string) {
		h := p.shown("web-1")
		if h.State != protocol.HealthQuarantined || h.Health == nil || h.Health.Kind != flood.Kind || h.Health.Reason != flood.Message || h.Health.Hint != flood.Hint {
			t.Errorf("%s: host is %+v, %+v", when, h, h.Health)
		}
	}
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 4))) })
	p.at(time.Second, func() {
		p.hosts.probed()
		p.SignalWorkflow(protocol.SignalHostAway, protocol.HostAway{Host: "web-1", Problem: flood})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1", Generation: 1})
	})
	p.at(2*time.Second, func() {
		quarantined("at once")
		p.forget()
	})
	p.at(10*time.Minute, func() {
		p.SignalWorkflow(lease.SignalHostBack, protocol.HostBack{Host: "web-1"})
		p.SignalWorkflow(lease.SignalFound, protocol.SetHost{Name: "web-1", Failed: &protocol.Failure{Kind: protocol.ErrTypeUnreachable, Message: "no route"}})
		p.SignalWorkflow(lease.SignalHostBack, protocol.HostBack{Host: "web-1"})
	})
	p.at(59*time.Minute, func() {
		quarantined("59 minutes later")
		if got := p.hosts.probed(); got != "" {
			t.Errorf("it was probed early: %s", got)
		}
	})
	p.at(62*time.Minute, func() {
		if got := p.hosts.probed(); got != "web-1" {
			t.Errorf("an hour later, probed were: %s", got)
		}
		if h := p.shown("web-1"); h.Health != nil {
			t.Errorf("an hour later host is %+v, %+v", h, h.Health)
		}
		p.saw("session/a got web-1")
	})
	// A suspicion gives way to it, and a check by a person ends it.
	p.at(63*time.Minute, func() {
		p.hosts.finds("web-1", noRoute())
		p.SignalWorkflow(protocol.SignalHostAway, protocol.HostAway{Host: "web-1", Problem: *noRoute()})
		p.SignalWorkflow(protocol.SignalHostAway, protocol.HostAway{Host: "web-1", Problem: flood})
	})
	p.at(64*time.Minute, func() {
		quarantined("again")
		p.SignalWorkflow(lease.SignalFound, protocol.SetHost{Name: "web-1", Check: &protocol.CheckHostResult{OK: true}})
	})
	p.at(64*time.Minute+time.Second, func() {
		if h := p.shown("web-1"); h.Health != nil {
			t.Errorf("after a check host is %+v, %+v", h, h.Health)
		}
	})
	p.finish(65 * time.Minute)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}
