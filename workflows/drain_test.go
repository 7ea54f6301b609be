package workflows

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/session"
)

func drain(name, how string) protocol.SetHost {
	return protocol.SetHost{Name: name, Drain: &protocol.Draining{How: how, By: "ann"}}
}

// A drained host takes no new session. Each session that holds a slot there is told
// once to leave, and the folders of parked sessions are removed. Then the host can
// be removed.
func TestADrainedHostIsEmptied(t *testing.T) {
	p := newPoolWorld(t)
	f := p.sweeper()
	f.set(false, nil)
	no := false
	p.at(0, func() {
		p.takes(p.send(protocol.UpdatePutHost, put("web-1", 4)))
		p.takes(p.send(protocol.UpdatePutHost, put("web-2", 1)))
	})
	p.at(time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "asleep", Host: "web-1", Generation: 1})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1", Generation: 1})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "b", Host: "web-1", Generation: 1})
	})
	p.at(2*time.Second, func() { p.SignalWorkflow(lease.SignalRelease, Parks("asleep", 100)) })
	p.at(3*time.Second, func() {
		p.forget()
		p.takes(p.send(protocol.UpdateSetHost, drain("web-1", "")))
		p.refuses(p.send(protocol.UpdateSetHost, drain("web-1", "burn")), protocol.RefusedBadInput)
		p.refuses(p.send(protocol.UpdateSetHost, drain("web-9", "")), protocol.RefusedNotFound)
	})
	p.once("what slept there is removed", func() bool { h := p.shown("web-1"); return len(h.Leftovers) == 1 && h.Unclean == 0 }, func() {
		p.saw("session/a is to park, from web-1, by ann", "session/b is to park, from web-1, by ann")
		if h := p.shown("web-1"); h.State != "draining" || h.Drain == nil || h.Drain.How != protocol.DrainPark || h.Used != 2 {
			t.Errorf("host is %+v", h)
		}
		p.forget()
		p.takes(p.send(protocol.UpdateSetHost, drain("web-1", ""))) // it is drained already
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "late", Host: "web-1", Generation: 1})
		p.SignalWorkflow(lease.SignalRelease, Parks("a", 101))
	})
	p.at(10*time.Second, func() {
		p.saw("session/late queued: a slot: host web-1 is being drained; nobody waits before it")
		p.forget()
		p.takes(p.send(protocol.UpdateSetHost, drain("web-1", protocol.DrainMove)))
	})
	p.at(11*time.Second, func() {
		p.saw("session/b is to move, from web-1, by ann")
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "b", Generation: 9})
	})
	p.at(12*time.Second, func() {
		if h := p.shown("web-1"); h.State != "drained" || h.Used != 0 || h.Unclean != 0 {
			t.Errorf("host is %+v", h)
		}
		p.forget()
		p.takes(p.send(protocol.UpdateSetHost, protocol.SetHost{Name: "web-1", Cordon: &no}))
	})
	p.at(13*time.Second, func() {
		p.saw("session/late got web-1")
		p.forget()
		p.takes(p.send(protocol.UpdateSetHost, drain("web-1", protocol.DrainPark)))
	})
	p.at(14*time.Second, func() { p.takes(p.send(protocol.UpdateSetHost, protocol.SetHost{Name: "web-1", Cordon: &no})) })
	p.at(15*time.Second, func() {
		p.saw("session/late is to park, from web-1, by ann", "session/late may stay on web-1")
		if h := p.shown("web-1"); h.State != "unchecked" || h.Drain != nil {
			t.Errorf("host is %+v", h)
		}
	})
	p.finish(20 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func leave(how string) lease.LeaveHost {
	return lease.LeaveHost{Draining: protocol.Draining{How: how, By: "ann", Since: time.Unix(1, 0)}, Host: "web-1", Epoch: 1}
}

func TestASessionLeavesADrainedHostBetweenTwoTurns(t *testing.T) {
	for _, how := range []string{protocol.DrainPark, protocol.DrainMove} {
		w := newWorld(t)
		w.hosts = []string{"web-1", "web-2"}
		w.fake.pumps, w.fake.rest = append(w.fake.pumps, asks("make")), endsTurn("completed", "")
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.at(2*time.Second, func() { w.SignalWorkflow(lease.SignalLeave, leave(how)) })
		w.at(3*time.Second, func() { w.takes(w.send(protocol.SignalMessage, hello("m2"))) })
		w.at(time.Hour, func() {
			if v := w.view(); v.State != protocol.Waiting || v.Host != "web-1" || len(w.fake.parks) > 0 {
				t.Errorf("%s: session is %+v", how, v)
			}
			w.takes(w.send(protocol.SignalDecide, protocol.Decide{Approval: "s1.1", Digest: "digest of make", Outcome: "accept"}))
		})
		w.at(time.Hour+time.Minute, func() {
			if v := w.view(); v.State != protocol.Idle || v.Host != "web-2" || v.Attempt != 2 || v.Turn.N != 2 || v.Turn.Status != "completed" {
				t.Errorf("%s: session is %+v", how, v)
			}
		})
		w.ends(2 * time.Hour)
		w.start(session.Options{})
		if got := strings.Join(w.released, " "); !strings.HasPrefix(got, "pool/default") {
			t.Errorf("%s: given back %s", how, got)
		}
		if r := w.lastPrepared().Restore; r == nil || r.Snapshot == "" || r.Warm != 0 {
			t.Errorf("%s: prepared with %+v", how, r)
		}
	}
}

func TestAnIdleSessionParksOrMovesFromADrainedHost(t *testing.T) {
	for how, want := range map[string]protocol.SessionStatus{protocol.DrainPark: protocol.Parked, protocol.DrainMove: protocol.Idle} {
		w := newWorld(t)
		w.hosts = []string{"web-1", "web-2"}
		w.fake.rest = endsTurn("completed", "")
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.at(2*time.Minute, func() { w.SignalWorkflow(lease.SignalLeave, leave(how)) })
		w.at(3*time.Minute, func() {
			v := w.view()
			if v.State != want || how == protocol.DrainMove && v.Host != "web-2" {
				t.Errorf("%s: session is %+v", how, v)
			}
		})
		w.ends(time.Hour)
		w.start(session.Options{ParkAfter: 30 * time.Minute})
		if how == protocol.DrainMove {
			continue
		}
		var by []string
		for _, in := range w.fake.closed {
			for _, n := range in.Notes {
				if n.Text == "parked" {
					by = append(by, n.Data["by"])
				}
			}
		}
		if got := strings.Join(by, ","); got != "drain of web-1 by ann" {
			t.Errorf("it is said that it was parked by %q", got)
		}
	}
}

// A session stays if the order to leave is for an earlier lease, if a later signal says
// that it may stay, or if it takes no snapshots.
func TestASessionStaysWhereItNeedNotOrCannotLeave(t *testing.T) {
	stale, off := leave(protocol.DrainMove), leave(protocol.DrainMove)
	stale.Epoch, off.Off = 0, true
	for name, c := range map[string]struct {
		opt  session.Options
		told []lease.LeaveHost
	}{
		"of an earlier lease": {told: []lease.LeaveHost{stale}},
		"it is over":          {told: []lease.LeaveHost{leave(protocol.DrainMove), off}},
		"takes no snapshots":  {told: []lease.LeaveHost{leave(protocol.DrainMove)}, opt: session.Options{Snapshot: protocol.SnapshotOptions{When: protocol.SnapshotOff}}},
	} {
		w := newWorld(t)
		w.fake.pumps, w.fake.rest = append(w.fake.pumps, asks("make")), endsTurn("completed", "")
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.at(2*time.Second, func() {
			for _, l := range c.told {
				w.SignalWorkflow(lease.SignalLeave, l)
			}
		})
		w.at(time.Minute, func() {
			w.takes(w.send(protocol.SignalDecide, protocol.Decide{Approval: "s1.1", Digest: "digest of make", Outcome: "accept"}))
		})
		w.at(2*time.Minute, func() { w.takes(w.send(protocol.SignalMessage, hello("m2"))) })
		w.at(3*time.Minute, func() {
			if v := w.view(); v.State != protocol.Idle || v.Attempt != 1 || v.Turn.N != 2 || len(w.fake.parks) > 0 {
				t.Errorf("%s: session is %+v", name, v)
			}
		})
		w.ends(time.Hour)
		w.start(c.opt)
	}
}

// A session that could not park because of a fault tries again later.
func TestASessionThatCannotLeaveTriesAgain(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.fake.fail("park", finally(protocol.ErrTypeStoreFull))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.SignalWorkflow(lease.SignalLeave, leave(protocol.DrainPark)) })
	w.at(time.Minute, func() {
		if v := w.view(); v.State != protocol.Idle || v.Error == nil || v.Error.Kind != protocol.ErrTypeStoreFull || len(w.fake.parks) != 1 {
			t.Errorf("session is %+v after %d tries", v, len(w.fake.parks))
		}
		w.fake.fail("park", nil)
	})
	w.at(6*time.Minute, func() {
		if v := w.view(); v.State != protocol.Parked {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(time.Hour)
	w.start(session.Options{ParkAfter: 10 * time.Hour})
}
