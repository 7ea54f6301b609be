package workflows

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/session"
)

// watched returns the text of a pool's request to watch a host.
func watched(name, address string) string {
	return fmt.Sprintf("%s at %s:0 tells session/* by stirred", name, address)
}

func (p *poolWorld) watches(want ...string) {
	p.t.Helper()
	if got := p.hosts.take(); !slices.Equal(got, want) {
		p.t.Errorf("watches: %q, want %q", got, want)
	}
}

// A heartbeat is due three times in its timeout (activities.Beats). Who waits costs Temporal at
// most 0.05 requests a second and host.
func TestAHostIsWatchedOnceWhileItHasSessions(t *testing.T) {
	p := newPoolWorld(t)
	p.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if beats := 3 / info.HeartbeatTimeout.Seconds(); info.ActivityType.Name == "WatchHost" && beats > 0.05 {
			t.Errorf("a watch sends %.3f heartbeats a second", beats)
		}
	})
	p.at(0, func() {
		p.takes(p.send(protocol.UpdatePutHost, put("web-1", 5)))
		p.takes(p.send(protocol.UpdatePutHost, put("web-2", 5)))
	})
	p.at(time.Second, func() {
		p.watches()
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1"})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "b", Host: "web-1"})
	})
	p.at(2*time.Second, func() {
		p.watches(watched("web-1", "192.0.2.7"))
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "a"})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "c", Host: "web-1"})
	})
	p.at(3*kit.Usual.Reap, func() {
		p.watches()
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "b"})
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "c"})
	})
	// The watch stays for a while, because the next session may come at any moment.
	p.at(3*kit.Usual.Reap+time.Second, func() { p.watches() })
	p.at(6*kit.Usual.Reap, func() {
		p.watches("called back")
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "d", Host: "web-1"})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "e", Host: "web-2"})
	})
	p.at(6*kit.Usual.Reap+time.Second, func() {
		got := p.hosts.take()
		slices.Sort(got)
		if !slices.Equal(got, []string{watched("web-1", "192.0.2.7"), watched("web-2", "192.0.2.7")}) {
			t.Errorf("watches: %q", got)
		}
	})
	p.finish(6*kit.Usual.Reap + 2*time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func TestAHostThatIsAnotherMachineNowIsWatchedAnew(t *testing.T) {
	p := newPoolWorld(t)
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 5))) })
	p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1"}) })
	p.at(2*time.Second, func() {
		p.watches(watched("web-1", "192.0.2.7"))
		same := put("web-1", 7)
		same.Replace = true
		p.takes(p.send(protocol.UpdatePutHost, same))
	})
	p.at(3*time.Second, func() {
		p.watches()
		other := put("web-1", 7)
		other.Replace, other.Spec.Address = true, "192.0.2.8"
		p.takes(p.send(protocol.UpdatePutHost, other))
	})
	p.at(4*time.Second, func() {
		p.watches("called back", watched("web-1", "192.0.2.8"))
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "a"})
	})
	p.at(5*time.Second, func() { p.takes(p.send(protocol.UpdateRemoveHost, protocol.RemoveHost{Name: "web-1"})) })
	p.at(6*time.Second, func() { p.watches("called back") })
	p.finish(7 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func TestTheNextRunOfAPoolWatchesOn(t *testing.T) {
	p := newPoolWorld(t)
	p.at(time.Second, func() { p.watches(watched("web-1", "192.0.2.7")) })
	p.finish(2 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{Carry: &hostpool.State{
		Hosts:  []hostpool.Host{{Spec: put("web-1", 1).Spec, Slots: 1}, {Spec: put("web-2", 1).Spec, Slots: 1}},
		Leases: []hostpool.Lease{{Holder: "a", Host: "web-1", Epoch: 1}},
	}})
	p.verify()
}

// looks answers as a pump that finds no news.
func looks(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.RequestsOpen, State: in.Pump.State}}, nil
}

func TestAWaitingSessionLooksWhenItsProcessStirs(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("make all"))
	for range 5 {
		w.fake.pumps = append(w.fake.pumps, looks)
	}
	w.fake.pumps = append(w.fake.pumps, dies(protocol.Acknowledged, false))
	stir := func(m pumps.Stirred) func() { return func() { w.SignalWorkflow(lease.SignalStirred, m) } }
	ran := func(n int) func() {
		return func() {
			if v := w.view(); len(w.fake.ran) != n || v.State != protocol.Waiting || !v.Process.Alive {
				t.Errorf("%d pumps ran, want %d; session is %+v", len(w.fake.ran), n, v)
			}
		}
	}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, ran(1))
	for i, m := range []pumps.Stirred{
		{Host: "web-2", Incarnation: 1, Gone: "exited"},
		{Host: "web-1", Incarnation: 2, Gone: "exited"},
		{Host: "web-1", Incarnation: 1, Offset: 1},
		{},
	} {
		w.at(3*time.Second+time.Duration(i)*time.Millisecond, stir(m))
	}
	w.at(4*time.Second, ran(1))
	// If pumps find no news, however often, codex does not count as failing.
	for i := range 5 {
		at := time.Duration(5+i) * time.Second
		w.at(at, stir(pumps.Stirred{Host: "web-1", Incarnation: 1, Offset: 5000}))
		w.at(at+500*time.Millisecond, ran(2+i))
	}
	w.at(20*time.Second, stir(pumps.Stirred{Host: "web-1", Incarnation: 1, Gone: "exited"}))
	w.at(21*time.Second, func() {
		v := w.view()
		if v.State != protocol.Interrupted || v.Process.Alive || v.Process.End == "" || v.Turn.Status != "interrupted" || len(v.Requests) != 0 || v.Error == nil {
			t.Errorf("session is %+v, process %+v", v, v.Process)
		}
		if a := query[[]protocol.Approval](w, protocol.QueryApprovals); a[0].State != protocol.ApprovalVoid {
			t.Errorf("approval is %+v", a[0])
		}
		if n := len(w.fake.ran); n != 7 {
			t.Errorf("%d pumps ran", n)
		}
	})
	w.at(22*time.Second, stir(pumps.Stirred{Host: "web-1", Incarnation: 1, Gone: "exited"}))
	w.at(23*time.Second, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{})
	if n := len(w.fake.ran); n != 7 {
		t.Errorf("%d pumps ran for a process that is known to be gone", n)
	}
	for i, in := range w.fake.ran[1:] {
		if len(in.Pump.Sends) != 0 {
			t.Errorf("pump %d was to send %+v", i+2, in.Pump.Sends)
		}
	}
}

// stirredWhile returns a pump that has read to an offset while its session is told
// that something happened.
func (w *world) stirredWhile(offset int64, m pumps.Stirred) pumpFunc {
	return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		w.SignalWorkflow(lease.SignalStirred, m)
		out, err := looks(ctx, in)
		out.Pump.State.Cursor.Offset = offset
		return out, err
	}
}

func TestOnlyWhatStirredBehindAPumpNeedsAnother(t *testing.T) {
	moved := pumps.Stirred{Host: "web-1", Incarnation: 1, Offset: 9000}
	gone := pumps.Stirred{Host: "web-1", Incarnation: 1, Gone: "exited"}
	for name, c := range map[string]struct {
		pump func(w *world) pumpFunc
		more []pumpFunc
		ends protocol.SessionStatus
	}{
		"it has read that":   {func(w *world) pumpFunc { return w.stirredWhile(9000, moved) }, nil, protocol.Waiting},
		"it has not":         {func(w *world) pumpFunc { return w.stirredWhile(8000, moved) }, []pumpFunc{looks}, protocol.Waiting},
		"the process died":   {func(w *world) pumpFunc { return w.stirredWhile(8000, gone) }, []pumpFunc{dies(protocol.Acknowledged, false)}, protocol.Interrupted},
		"it saw that itself": {func(*world) pumpFunc { return dies(protocol.Acknowledged, false) }, nil, protocol.Interrupted},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = append([]pumpFunc{asks("make all"), c.pump(w)}, c.more...)
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			w.at(2*time.Second, func() { w.SignalWorkflow(lease.SignalStirred, moved) })
			w.at(4*time.Second, func() {
				if v := w.view(); v.State != c.ends || len(w.fake.ran) != 2+len(c.more) {
					t.Errorf("after %d pumps it is %s, want %s after %d", len(w.fake.ran), v.State, c.ends, 2+len(c.more))
				}
				w.fake.rest = endsTurn("interrupted", "") // for the close
				w.send(protocol.SignalClose, protocol.Close{})
			})
			w.start(session.Options{})
		})
	}
}

func TestAWaitingSessionCostsNoEventsAndOneWatchServesAll(t *testing.T) {
	r := newReal(t)
	r.looksOften()
	r.work()
	var ids []string
	counts := map[string]int{}
	for i := range 3 {
		id := r.session(fmt.Sprint("s", i), session.Options{})
		r.say(id, "m1", "ask make")
		ids = append(ids, id)
	}
	for _, id := range ids {
		r.becomes(id, protocol.Waiting)
		counts[id] = r.events(id)
	}
	r.until("the host is watched", func() bool { return r.host.watched() == 1 })
	pool := protocol.PoolID(r.zone)
	have := len(r.history(pool, "").Events)
	r.until("the pool has looked after its holders twice", func() bool { return len(r.history(pool, "").Events) > have+20 })
	if n := r.host.watched(); n != 1 {
		t.Errorf("%d watches run for one host", n)
	}
	for _, id := range ids {
		if n := r.events(id); n != counts[id] {
			t.Errorf("%s has %d events, had %d", id, n, counts[id])
		}
	}
	// Only the session to which something happened notices.
	r.host.kill(ids[1], protocol.Decided)
	r.signal(protocol.SessionID(ids[1]), lease.SignalStirred, pumps.Stirred{Host: "web-1", Incarnation: 1, Gone: "exited"})
	r.ended(ids[1], "m1", "interrupted")
	r.becomes(ids[1], protocol.Interrupted)
	t.Logf("a process that died while its session waited: %d events", r.events(ids[1])-counts[ids[1]])
	for _, id := range []string{ids[0], ids[2]} {
		if n := r.events(id); n != counts[id] {
			t.Errorf("%s has %d events, had %d", id, n, counts[id])
		}
	}
	for _, id := range ids {
		r.close(id)
	}
	r.until("nobody watches a host without sessions", func() bool { return r.host.watched() == 0 })
}

func TestAWatchOutlivesItsWorkerAndARolloverOfThePool(t *testing.T) {
	r := newReal(t, shortRuns)
	stop := r.work()
	id := r.session("s", session.Options{})
	r.becomes(id, protocol.Idle)
	r.until("the host is watched", func() bool { return r.host.watched() == 1 })
	r.work()
	stop()
	r.until("another worker watches it", func() bool { return r.host.watched() == 1 })
	pool := protocol.PoolID(r.zone)
	runs := len(r.runs(pool))
	yes := true
	for len(r.runs(pool)) < runs+2 {
		r.update(pool, protocol.UpdateSetHost, nil, protocol.SetHost{Name: "web-1", Cordon: &yes})
		r.signal(pool, lease.SignalRelease, lease.Release{Holder: "nobody"})
	}
	// The watches of earlier runs are told to end.
	r.until("only the newest run's watch runs", func() bool { return r.host.watched() == 1 })
	r.close(id)
}
