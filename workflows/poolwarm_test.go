package workflows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/session"
)

func Parks(holder string, generation int64) lease.Release {
	return lease.Release{Holder: holder, Generation: generation, Warm: &lease.LeftBehind{Host: "web-1", Generation: generation, Wiped: true,
		Snapshot: &snaps.SnapshotSpec{Parent: holder + ".snap-1"}}}
}

func TestAParkedSessionTakesNoSlotAndComesBackToItsFolder(t *testing.T) {
	p := newPoolWorld(t)
	p.at(0, func() {
		p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1)))
		p.takes(p.send(protocol.UpdatePutHost, put("web-2", 4)))
	})
	p.at(time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1", Generation: 1})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "b", Host: "web-1", Generation: 1})
	})
	p.at(2*time.Second, func() {
		p.forget()
		p.SignalWorkflow(lease.SignalRelease, Parks("a", 100))
	})
	p.at(3*time.Second, func() {
		p.saw("session/b got web-1")
		if h := p.shown("web-1"); h.Used != 1 || strings.Join(h.Holders, " ") != "b" || h.Unclean != 0 {
			t.Errorf("host is %+v", h)
		}
		p.SignalWorkflow(lease.SignalRelease, Parks("b", 200))
		p.forget()
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Prefer: "web-1", Generation: 101})
	})
	p.at(4*time.Second, func() {
		p.saw("session/a got web-1")
		if h := p.shown("web-1"); h.Used != 1 || h.Unclean != 0 || len(h.Leftovers) != 0 {
			t.Errorf("host is %+v", h)
		}
		p.refuses(p.send(protocol.UpdateRemoveHost, protocol.RemoveHost{Name: "web-1"}), protocol.RefusedState)
	})
	p.finish(5 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func TestTheFolderOfASessionThatGoesOnElsewhereIsCleanedUp(t *testing.T) {
	p := newPoolWorld(t)
	f := p.sweeper()
	f.set(false, nil)
	p.at(0, func() {
		p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1)))
		p.takes(p.send(protocol.UpdatePutHost, put("web-2", 4)))
	})
	p.at(time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1", Seed: "team", Generation: 1})
	})
	p.at(2*time.Second, func() { p.SignalWorkflow(lease.SignalRelease, Parks("a", 100)) })
	p.at(3*time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "b", Host: "web-1", Generation: 1})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Prefer: "web-1", Generation: 101})
	})
	p.once("it is cleaned", func() bool { h := p.shown("web-1"); return len(h.Leftovers) == 1 && h.Unclean == 0 }, func() {
		in := f.tried()[0]
		if in.Generation != 100 || in.Seed != nil || in.Discard || in.Snapshot == nil || in.Snapshot.Parent != "a.snap-1" {
			t.Errorf("cleaned by %+v", in)
		}
		if h := p.shown("web-2"); strings.Join(h.Holders, "") != "a" {
			t.Errorf("host is %+v", h)
		}
	})
	p.finish(time.Minute)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

// Signals of different names are not read in the order in which they came.
func TestWhatIsAskedForAfterAReleaseIsNotTakenBackWithIt(t *testing.T) {
	p := newPoolWorld(t)
	f := p.sweeper()
	p.at(0, func() {
		p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1)))
		p.takes(p.send(protocol.UpdatePutHost, put("web-2", 1)))
	})
	p.at(time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1", Generation: 1})
	})
	p.at(2*time.Second, func() {
		p.forget()
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "a", Generation: 100, Left: &lease.LeftBehind{Host: "web-1", Why: "no route to host", Generation: 100}})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Generation: 101})
	})
	p.at(3*time.Second, func() {
		p.saw("session/a got web-2") // not the host on which a leftover of the session is
		if h := p.shown("web-1"); h.Unclean != 1 || h.Used != 0 {
			t.Errorf("host is %+v", h)
		}
		f.set(false, nil)
		p.SignalWorkflow(lease.SignalHostBack, protocol.HostBack{Host: "web-1"})
	})
	p.finish(10 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func TestAPoolRemembersOnlySoManyFolders(t *testing.T) {
	p := newPoolWorld(t)
	p.sweeper().set(false, nil)
	carry := &hostpool.State{Hosts: []hostpool.Host{{Spec: put("web-1", 1).Spec, Slots: 4}}}
	for i := range hostpool.MaxWarm {
		carry.Leases = append(carry.Leases, hostpool.Lease{Holder: fmt.Sprint("s", i), Host: "web-1", Warm: Parks(fmt.Sprint("s", i), 1_800_000_000).Warm})
	}
	if n := kit.Encoded(carry); n > session.MaxCarry {
		t.Errorf("a full pool carries %d bytes", n)
	}
	p.at(time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "late", Host: "web-1", Generation: 1})
	})
	p.at(2*time.Second, func() { p.SignalWorkflow(lease.SignalRelease, Parks("late", 5)) })
	p.once("the oldest is cleaned", func() bool { return len(p.shown("web-1").Leftovers) == 1 }, func() {
		if l := p.shown("web-1").Leftovers[0]; l.Session != "s0" {
			t.Errorf("cleaned was %+v", l)
		}
	})
	p.finish(time.Minute)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{Carry: carry})
	p.verify()
}

// A parked session that ends while it waits for its host cannot report that its folder is
// on that host.
func TestTheFolderOfAParkedSessionThatEndsOnItsWayBackIsCleanedUp(t *testing.T) {
	for _, tc := range []struct {
		name string
		free bool // the session's host has a slot for it
	}{{"in line", false}, {"with a slot", true}} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPoolWorld(t)
			f := p.sweeper()
			f.set(false, nil)
			p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
			p.at(time.Second, func() {
				p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1", Generation: 1})
			})
			p.at(2*time.Second, func() { p.SignalWorkflow(lease.SignalRelease, Parks("a", 100)) })
			p.at(3*time.Second, func() {
				if !tc.free {
					p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "b", Host: "web-1", Generation: 1})
				}
			})
			p.at(4*time.Second, func() {
				p.gone["session/a"] = true
				p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Prefer: "web-1", Host: "web-1", Generation: 101})
			})
			p.at(time.Minute, func() {
				if h := p.shown("web-1"); len(h.Leftovers) != 1 || h.Leftovers[0].Session != "a" || h.Leftovers[0].WipedAt.IsZero() {
					t.Errorf("left on the host: %+v", h.Leftovers)
				}
			})
			p.finish(2 * time.Minute)
			p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
			p.verify()
		})
	}
}

// A pool that is started anew learns which folders wait for parked sessions. These folders
// take no slot, and are cleaned up when their sessions go on elsewhere.
func TestAPoolThatIsBegunAnewLearnsOfTheFoldersOfParkedSessions(t *testing.T) {
	p := newPoolWorld(t)
	f := p.sweeper()
	f.set(false, nil)
	p.engine.sessions = []string{protocol.SessionID("a"), protocol.SessionID("b")}
	p.at(0, func() {
		p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1)))
		p.takes(p.send(protocol.UpdatePutHost, put("web-2", 4)))
	})
	p.at(time.Second, func() {
		for _, holder := range []string{"a", "b"} {
			p.SignalWorkflow(lease.SignalHolds, lease.Holds{Holder: holder, Host: "web-1", Seed: "team", Warm: Parks(holder, 100).Warm})
		}
	})
	p.at(2*time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Prefer: "web-1", Generation: 101})
	})
	p.at(3*time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "b", Prefer: "web-1", Generation: 101})
	})
	p.once("the folder of b is cleaned up", func() bool { h := p.shown("web-1"); return len(h.Leftovers) == 1 && h.Unclean == 0 }, func() {
		if in := f.tried()[0]; in.Generation != 100 || in.Seed != nil || in.Snapshot == nil || in.Snapshot.Parent != "b.snap-1" {
			t.Errorf("cleaned by %+v", in)
		}
		for host, holder := range map[string]string{"web-1": "a", "web-2": "b"} {
			if h := p.shown(host); strings.Join(h.Holders, " ") != holder {
				t.Errorf("host is %+v", h)
			}
		}
		p.CancelWorkflow()
	})
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}
