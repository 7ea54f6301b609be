package workflows

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/session"
)

// A pool that was terminated and started anew gives no slot twice.
func TestAPoolThatIsBegunAnewLearnsWhatSessionsHold(t *testing.T) {
	p := newPoolWorld(t)
	p.engine.sessions = []string{protocol.SessionID("a"), protocol.SessionID("b"), protocol.SessionID("d"), protocol.SessionID("idle"), protocol.SessionID("over")}
	p.gone[protocol.SessionID("over")] = true
	ask := func(holder string) {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: holder, Host: "local", Run: "run-" + holder})
	}
	p.at(time.Second, func() { ask("c1"); ask("c2") })
	p.at(2*time.Second, func() {
		p.saw("session/a is asked what it holds of pool/default", "session/b is asked what it holds of pool/default",
			"session/d is asked what it holds of pool/default", "session/idle is asked what it holds of pool/default",
			"session/c1 queued: a slot: the pool asks the sessions that run what they hold; nobody waits before it",
			"session/c2 queued: a slot: the pool asks the sessions that run what they hold; 1 waits before it")
		for i, holder := range []string{"a", "b", "d"} {
			p.SignalWorkflow(lease.SignalHolds, lease.Holds{Holder: holder, Run: "run-" + holder, Host: "local", Epoch: int64(40 + i)})
		}
		p.SignalWorkflow(lease.SignalHolds, lease.Holds{Holder: "idle"})
	})
	p.at(3*time.Second, func() {
		// There are four slots, of which three are held.
		p.saw("session/c1 got local", "session/c2 queued: a slot: host local has all 4 slots in use; nobody waits before it")
		ask("a") // this session asks again, and gets the slot that it had
	})
	p.at(4*time.Second, func() {
		p.saw("session/a got local")
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "b", Run: "run-b"})
	})
	p.at(5*time.Second, func() { p.saw("session/c2 got local") })
	p.finish(6 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

// The pool does not wait forever for a session that does not answer because its
// worker is of an older version.
func TestAPoolDoesNotWaitForeverForAnswers(t *testing.T) {
	p := newPoolWorld(t)
	p.engine.sessions = []string{protocol.SessionID("mute")}
	p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "c", Host: "local"}) })
	p.at(hostpool.AnswersWithin+time.Second, func() {
		p.saw("session/mute is asked what it holds of pool/default",
			"session/c queued: a slot: the pool asks the sessions that run what they hold; nobody waits before it", "session/c got local")
	})
	p.finish(hostpool.AnswersWithin + 2*time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func (p *poolWorld) noLists(n int, err error) {
	p.engine.noLists = slices.Repeat([]error{err}, n)
}

// A pool that cannot list the sessions says so. Until it can list them, it grants no slot,
// because one of the sessions may hold that slot.
func TestAPoolGivesNoSlotBeforeItCouldListTheSessions(t *testing.T) {
	p := newPoolWorld(t)
	p.engine.sessions = []string{protocol.SessionID("a")}
	p.noLists(7, errors.New("the server is away")) // five attempts, a pause, and two more
	in := hostpool.Input{Carry: &hostpool.State{Calling: true, Hosts: []hostpool.Host{{Spec: put("web-1", 1).Spec, Slots: 1}}}}
	p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "c", Host: "web-1"}) })
	p.at(16*time.Second, func() {
		f := query[protocol.PoolView](p.world, protocol.QueryPool).WaitingFor
		if f == nil {
			t.Fatal("the pool does not show what it waits for")
		}
		p.saw("session/c queued: a slot: the pool asks the sessions that run what they hold; nobody waits before it",
			"session/c queued: a slot: the pool asks the sessions that run what they hold, and cannot list them since "+kit.Clock(f.Since)+
				" (failed attempts: at least 1): look for sessions that may hold slots: the server is away; it tries again, and grants nothing until Temporal lists workflows again; nobody waits before it")
	})
	p.at(30*time.Second, func() {
		p.saw("session/a is asked what it holds of pool/default",
			"session/c queued: a slot: the pool asks the sessions that run what they hold; nobody waits before it")
		if v := query[protocol.PoolView](p.world, protocol.QueryPool); v.WaitingFor != nil {
			t.Errorf("the pool still waits for %+v", v.WaitingFor)
		}
		p.SignalWorkflow(lease.SignalHolds, lease.Holds{Holder: "a", Run: "run-a", Host: "web-1", Epoch: 40})
	})
	p.at(31*time.Second, func() {
		p.saw("session/c queued: a slot: host web-1 has all 1 slots in use; nobody waits before it")
	})
	p.finish(32 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, in)
	p.verify()
}

// A pool that cannot list the sessions shows that in its view and in the views of its
// hosts: since when, after how many attempts, and why. It tells waiting sessions again only
// when the number of attempts has doubled.
func TestAPoolShowsThatItCannotListTheSessions(t *testing.T) {
	p := newPoolWorld(t)
	p.noLists(1000, errors.New("the server is away"))
	began := p.Now()
	p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "c", Host: "local"}) })
	shown := func(attempts int) *protocol.WaitingView {
		v, hosts := query[protocol.PoolView](p.world, protocol.QueryPool), query[[]protocol.HostView](p.world, protocol.QueryHosts)
		if len(hosts) == 0 || v.WaitingFor == nil || hosts[0].WaitingFor == nil || *hosts[0].WaitingFor != *v.WaitingFor {
			t.Errorf("the pool shows %+v, and its hosts %+v", v.WaitingFor, hosts)
			return &protocol.WaitingView{}
		}
		f := v.WaitingFor
		if f.Doing != "look for sessions that may hold slots" || f.Attempt < attempts || f.Kind == "" || !strings.Contains(f.Error, "the server is away") ||
			!f.Since.After(began) || f.NextAt.IsZero() {
			t.Errorf("the pool shows %+v, want at least %d attempts", f, attempts)
		}
		if len(v.Queue) != 1 || !strings.Contains(v.Queue[0].Reason, "cannot list them since "+kit.Clock(f.Since)) {
			t.Errorf("the queue is %+v", v.Queue)
		}
		return f
	}
	var since time.Time
	p.at(16*time.Second, func() { since = shown(1).Since })
	p.at(6*time.Hour, func() {
		if f := shown(60); !f.Since.Equal(since) {
			t.Errorf("since %v, and %v before", f.Since, since)
		}
		p.mu.Lock()
		letters := len(p.told)
		p.mu.Unlock()
		if letters < 7 || letters > 9 { // one letter without an error, and one each for 1, 2, 4, … attempts
			t.Errorf("the session was told %d times", letters)
		}
		p.overdue()
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "nobody"})
	})
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	in := carriedAs[hostpool.Input](t, p.continued())

	p = newPoolWorld(t)
	p.noLists(1000, errors.New("the server is away"))
	p.at(16*time.Second, func() {
		if f := shown(61); !f.Since.Equal(since) {
			t.Errorf("in the next run it waits since %v, and %v before", f.Since, since)
		}
		p.fill()
	})
	p.ExecuteWorkflow(protocol.TypeHostPool, in)
}

// If a run ends before the sessions were asked, the next run asks them.
func TestARollCallIsMadeAgainByTheNextRun(t *testing.T) {
	p := newPoolWorld(t)
	p.noLists(1000, errors.New("the server is away"))
	p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "c", Host: "local"}) })
	p.at(2*time.Second, func() {
		p.overdue()
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "nobody"})
	})
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	in := carriedAs[hostpool.Input](t, p.continued())

	p = newPoolWorld(t)
	p.engine.sessions = []string{protocol.SessionID("a")}
	p.at(time.Second, func() {
		p.saw("session/a is asked what it holds of pool/default")
		p.SignalWorkflow(lease.SignalHolds, lease.Holds{Holder: "a", Run: "run-a", Host: "local", Epoch: 40})
	})
	p.at(2*time.Second, func() { p.saw("session/c got local"); p.fill() })
	p.ExecuteWorkflow(protocol.TypeHostPool, in)
	if in = carriedAs[hostpool.Input](t, p.continued()); in.Carry.Calling || len(in.Carry.Leases) != 2 {
		t.Errorf("carried %+v", in.Carry)
	}
}

// A session may hold a host that nobody has added yet to a pool that was started
// anew.
func TestASlotOfAHostThatIsNotThereYetIsKept(t *testing.T) {
	p := newPoolWorld(t)
	p.engine.sessions = []string{protocol.SessionID("a")}
	p.at(time.Second, func() {
		p.SignalWorkflow(lease.SignalHolds, lease.Holds{Holder: "a", Run: "run-a", Host: "web-1", Epoch: 40})
	})
	p.at(2*time.Second, func() {
		p.saw("session/a is asked what it holds of pool/default")
		p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1)))
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "c", Host: "web-1"})
	})
	p.at(3*time.Second, func() {
		p.saw("session/c queued: a slot: host web-1 has all 1 slots in use; nobody waits before it")
	})
	p.finish(4 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func TestASessionSaysWhatItHolds(t *testing.T) {
	w := newWorld(t)
	w.at(time.Second, func() {
		w.SignalWorkflow(lease.SignalCall, lease.RollCall{From: protocol.PoolID("elsewhere")})
		w.SignalWorkflow(lease.SignalCall, lease.RollCall{From: protocol.PoolID("")})
	})
	w.ends(time.Minute)
	w.start(session.Options{Seed: "team"})
	if len(w.held) != 1 || w.held[0].Holder != "s1" || w.held[0].Host != "web-1" || w.held[0].Epoch != 1 || w.held[0].Seed != "team" {
		t.Errorf("it said %+v", w.held)
	}
}

func TestAParkedSessionSaysWhereItsFolderIs(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
	w.at(3*time.Second, func() { w.SignalWorkflow(lease.SignalCall, lease.RollCall{From: protocol.PoolID("")}) })
	w.ends(time.Minute)
	w.start(session.Options{})
	if len(w.held) != 1 || w.held[0].Host != "web-1" || w.held[0].Warm == nil || w.held[0].Warm.Generation != w.fake.parks[0].Claim.Generation || !w.held[0].Warm.Wiped {
		t.Errorf("it said %+v", w.held)
	}
}

// A session may end its run in the task in which it is asked. It answers before that,
// because the server sends no signal for a run that has ended.
func TestASessionAnswersBeforeItRollsOver(t *testing.T) {
	r := newReal(t, shortRuns)
	stop := r.work()
	id := r.session("a", session.Options{})
	r.say(id, "m1", "hello")
	r.ended(id, "m1", "completed")
	r.becomes(id, protocol.Idle)
	stop()
	runs := len(r.runs(protocol.SessionID(id)))
	for range 60 { // the next task finds all of these signals, and ends the run
		r.signal(protocol.SessionID(id), lease.SignalCall, lease.RollCall{From: protocol.PoolID("elsewhere")})
	}
	r.signal(protocol.SessionID(id), lease.SignalCall, lease.RollCall{From: protocol.PoolID(r.zone)})
	r.work()
	r.until("the run has ended", func() bool { return len(r.runs(protocol.SessionID(id))) > runs })
	r.until("the pool has its answer", func() bool {
		for _, e := range r.history(protocol.PoolID(r.zone), "").Events {
			if e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == lease.SignalHolds {
				return true
			}
		}
		return false
	})
	r.close(id)
}
