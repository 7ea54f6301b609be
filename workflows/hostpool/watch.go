package hostpool

import (
	"reflect"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// A watch is the one activity that looks after the processes of all sessions that wait on a
// host. It holds the only activity slot and the only channel to the host that these
// sessions take. It costs one event when the host's first session comes. Some time after
// the last session has left, it costs three events and a workflow task. In between, it
// signals a session only when something happened to that session.
type watch struct {
	spec   protocol.HostSpec
	fut    workflow.Future
	cancel workflow.CancelFunc
	idle   bool // the host had no session when the watches were last tended
}

// watchesPart keeps a watch on each host that has sessions. It calls no other part.
type watchesPart struct {
	*poolCore

	running map[string]*watch // by host
}

// keepWatch watches every host that has sessions. A watch only looks, so two watches of a
// host may overlap for a moment. Therefore a rollover neither ends watches nor waits for
// them. A watch of the former run learns at its next heartbeat that nobody wants it any
// more.
func (p *watchesPart) keepWatch() {
	busy := p.busyHosts()
	for i := range p.st.Hosts {
		spec := p.st.Hosts[i].Spec
		w := p.running[spec.Name]
		switch {
		case w != nil && changed(w.spec, spec):
			w.cancel() // the name now means another machine
		case w != nil || !busy[spec.Name]:
			continue
		}
		p.running[spec.Name] = p.startWatch(spec)
	}
	for _, name := range workflow.DeterministicKeys(p.running) {
		if p.host(name) == nil {
			p.endWatch(name)
		}
	}
}

// changed reports whether a host is reached in another way than before.
func changed(before, now protocol.HostSpec) bool {
	//workflowcheck:ignore // a pure function
	return !reflect.DeepEqual(before, now)
}

// tendWatches ends the watches of hosts that have had no session for a while. It starts
// watches that ended by themselves anew.
func (p *watchesPart) tendWatches() {
	busy := p.busyHosts()
	for _, name := range workflow.DeterministicKeys(p.running) {
		w := p.running[name]
		switch {
		case w.fut.IsReady():
			workflow.GetLogger(p.ctx).Warn("watch of a host ended", "host", name, "error", w.fut.Get(p.ctx, nil))
			delete(p.running, name)
		case busy[name]:
			w.idle = false
		case w.idle:
			p.endWatch(name)
		default:
			w.idle = true
		}
	}
}

func (p *watchesPart) startWatch(spec protocol.HostSpec) *watch {
	w := &watch{spec: spec}
	var ctx workflow.Context
	ctx, w.cancel = workflow.WithCancel(watching(p.ctx, "watch "+spec.Name))
	left, _ := p.leftOn(spec.Name)
	w.fut = workflow.ExecuteActivity(ctx, pumpJobs.WatchHost, pumps.WatchHostInput{Host: spec, Prefix: protocol.SessionID(""), Signal: lease.SignalStirred,
		Pool: protocol.PoolID(p.zone), Back: lease.SignalHostBack, Away: lease.SignalHostAway, Owed: left > 0})
	return w
}

func (p *watchesPart) endWatch(name string) {
	p.running[name].cancel()
	delete(p.running, name)
}

func (p *watchesPart) busyHosts() map[string]bool {
	busy := make(map[string]bool, len(p.st.Hosts))
	for _, l := range p.st.Leases {
		busy[l.Host] = busy[l.Host] || l.Warm == nil // a parked session has no process to watch
	}
	for i := range p.st.Leftovers {
		if l := &p.st.Leftovers[i]; l.open() {
			busy[l.Host] = true // the watch is the first to see that the host is back
		}
	}
	return busy
}

// watching is for an activity that goes on as long as it is wanted, on any worker. The
// death of a worker is noticed as soon as with a pump, so that a login which codex rotates
// right then is still noticed within 15 seconds. The server therefore gets a heartbeat for
// each host every three seconds instead of every ten; that costs no event.
func watching(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * 24 * time.Hour,
		HeartbeatTimeout:    kit.Beat,
		Summary:             kit.Cut(summary, 100), // Temporal takes 400 bytes of JSON
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
		},
	})
}
