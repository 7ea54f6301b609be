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
// host: they need no other activity slot or channel to it. It costs one event when the
// host's first session comes, and three events and a workflow task some time after the last
// has left. It signals a session only when something happened to it.
type watch struct {
	spec   protocol.HostSpec
	fut    workflow.Future
	cancel workflow.CancelFunc
	idle   bool // no session when the watches were last tended
}

type watchesPart struct {
	*poolCore

	running map[string]*watch
}

// keepWatch watches every host that has sessions. Two watches of a host may overlap,
// because a watch only looks. So a rollover neither ends watches nor waits for them: a
// watch of the former run learns at its next heartbeat that it is not wanted.
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

func changed(before, now protocol.HostSpec) bool {
	//workflowcheck:ignore // a pure function
	return !reflect.DeepEqual(before, now)
}

// tendWatches ends the watches of hosts without sessions, and restarts those that ended by
// themselves.
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
		Pool: protocol.PoolID(p.zone), Back: lease.SignalHostBack, Away: protocol.SignalHostAway, Owed: left > 0})
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

// calmBeat is the heartbeat timeout of a watch, which sends a heartbeat every 25 seconds.
// Heartbeats cost no event, but each is a request to Temporal, which Temporal Cloud bills. A
// worker's death may be noticed this late for sessions that wait; a pump has kit.Beat, and what
// takes over from a worker (--takeover) waits for no timeout. What happens to the process of a
// waiting session must be noticed within two minutes, and a look is due every 25 seconds. A
// login that codex rotates meanwhile stays on the host until the next watch saves it, and its
// seed does not pass on before.
//
// A history with this timeout has the same commands as one without. So a worker of an earlier
// release can take it over.
const calmBeat = 75 * time.Second

// watching is for an activity that goes on as long as it is wanted, on any worker.
func watching(ctx workflow.Context, summary string) workflow.Context {
	beat := calmBeat
	if workflow.GetVersion(ctx, "calm watches", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		beat = kit.Beat
	}
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * 24 * time.Hour,
		HeartbeatTimeout:    beat,
		Summary:             kit.Cut(summary, 100), // Temporal takes 400 bytes of JSON
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
		},
	})
}
