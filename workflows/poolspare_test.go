package workflows

import (
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// The session's own host is well, whatever the state of the others is.
func TestAParkedSessionComesBackToItsHostThoughNoOtherWasEverReached(t *testing.T) {
	p := newPoolWorld(t)
	p.hosts.finds("web-9", noRoute())
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	p.at(time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1", Generation: 1})
	})
	p.at(2*time.Second, func() {
		p.SignalWorkflow(lease.SignalRelease, Parks("a", 100))
		p.takes(p.send(protocol.UpdateSetHost, protocol.SetHost{Name: "web-1", Labels: map[string]string{"team": "red"}}))
		in := put("web-9", 4)
		in.Labels = map[string]string{"gpu": "no"}
		p.takes(p.send(protocol.UpdatePutHost, in))
	})
	asks := lease.Acquire{Holder: "a", Prefer: "web-1", Labels: map[string]string{"gpu": "no"}, Generation: 101}
	p.at(5*time.Second, func() {
		p.forget()
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "b", Host: "web-1", Generation: 1})
	})
	p.at(6*time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, asks) })
	p.at(7*time.Second, func() {
		p.saw("session/b got web-1", "session/a queued: a slot: host web-1, where its folder is, has all 1 slots in use; nobody waits before it")
		p.forget()
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "b", Generation: 1})
	})
	p.at(8*time.Second, func() { p.saw("session/a got web-1") })
	p.finish(time.Minute)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

// A request that was accepted does not end because no host can be reached. Its holder is
// told why it gets no host, and gets one as soon as that changes. A session that has begun
// waits even if no host fits.
func TestWhoeverTakesAnyHostThatFitsWaitsWhileNoneCanBeReached(t *testing.T) {
	p := newPoolWorld(t)
	p.hosts.finds("web-9", noRoute())
	gpu := map[string]string{"gpu": "no"}
	p.at(0, func() {
		in := put("web-9", 4)
		in.Labels = gpu
		p.takes(p.send(protocol.UpdatePutHost, in))
	})
	p.at(5*time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "new", Labels: gpu, Generation: 1})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Labels: gpu, Begun: true, Generation: 9})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "b", Labels: map[string]string{"team": "red"}, Begun: true, Generation: 9})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "c", Select: []string{">"}, Begun: true, Generation: 9})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "d", Labels: map[string]string{"team": "red"}, Generation: 9})
	})
	p.at(6*time.Second, func() {
		p.saw("session/c refused "+protocol.RefusedBadInput, "session/d refused host_not_found",
			"session/new queued: a slot: host web-9 was never reached: no route to host; nobody waits before it",
			"session/a queued: a slot: host web-9 was never reached: no route to host; 1 waits before it",
			"session/b queued: a slot: no host of zone default meets team=red: host local lacks team=red (it has no team); host web-9 lacks team=red (it has no team); 2 wait before it")
		p.forget()
		p.takes(p.send(protocol.UpdateSetHost, protocol.SetHost{Name: "local", Labels: map[string]string{"team": "red"}}))
		p.hosts.finds("web-9", nil)
	})
	p.at(10*time.Minute, func() { p.saw("session/b got local", "session/a got web-9", "session/new got web-9") })
	p.finish(11 * time.Minute)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}
