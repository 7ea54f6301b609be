package workflows

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/care"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/session"
)

// lies returns the report of a look at web-1.
func lies(ended ...inquiry.FoundFolder) inquiry.HostLooked {
	return inquiry.HostLooked{Host: put("web-1", 1).Spec, At: time.Unix(1_790_000_000, 0).UTC(), Dir: "/r/sessions", Ended: ended}
}

func (p *poolWorld) found(all ...inquiry.HostLooked) {
	p.SignalWorkflow(lease.SignalLooked, inquiry.HostsLooked{Hosts: all})
}

// A look reports a folder that the pool does not know. The pool has it wiped like any
// leftover, with the folder's generation, and keeps the proof. A new session of that name
// gets the host only after that.
func TestAFolderThatSomebodyFoundIsWiped(t *testing.T) {
	p := newPoolWorld(t)
	f := p.sweeper()
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	p.at(time.Second, func() { p.found(lies(inquiry.FoundFolder{Session: "gone", Generation: 1_789_000_000})) })
	p.once("a try", func() bool { return len(f.tried()) == 1 && p.shown("web-1").Leftovers[0].Error != "" }, func() {
		if v := p.shown("web-1"); v.Unclean != 1 || v.Folders == nil || v.Folders.Dir != "/r/sessions" || v.Leftovers[0].Why != hostpool.WhyFound {
			t.Errorf("host is %+v", v)
		}
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "gone", Host: "web-1"})
	})
	p.at(2*time.Minute, func() {
		p.saw("session/gone queued: a slot: host web-1 is not yet cleaned of what session gone left there before; nobody waits before it")
		f.set(false, nil)
		p.SignalWorkflow(lease.SignalHostBack, protocol.HostBack{Host: "web-1"})
	})
	p.at(3*time.Minute, func() {
		p.saw("session/gone got web-1")
		v, tries := p.shown("web-1"), f.tried()
		if v.Unclean != 0 || len(v.Leftovers) != 1 || v.Leftovers[0].WipedAt.IsZero() {
			t.Errorf("host is %+v", v)
		}
		if last := tries[len(tries)-1]; last.Generation != 1_789_000_000 || last.Claim.Session != "gone" || last.Discard || last.Seed != nil || last.Layout != (protocol.Layout{}) {
			t.Errorf("wiped by %+v", last)
		}
	})
	p.finish(4 * time.Minute)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

// Between a look at a host and its report, a session may have begun or ended there. The
// pool does not touch a folder that it knows when the report comes, and does not list it as
// unknown.
func TestWhatThePoolKnowsOfIsNoFindOfAnybody(t *testing.T) {
	p := newPoolWorld(t)
	f := p.sweeper()
	was := []inquiry.FoundFolder{}
	for _, s := range []string{"held", "parked", "waits", "kept", "left"} {
		was = append(was, inquiry.FoundFolder{Session: s, Generation: 7, Why: "nobody knows it"})
	}
	carry := &hostpool.State{
		Hosts:  []hostpool.Host{{Spec: put("web-1", 1).Spec, Slots: 2, Reached: true}, {Spec: put("web-2", 1).Spec, Slots: 0}},
		Leases: []hostpool.Lease{{Holder: "held", Host: "web-2"}, {Holder: "parked", Host: "web-1", Warm: &lease.LeftBehind{Why: "parked", Generation: 7}}},
		Queue:  []lease.Ticket{{Acquire: lease.Acquire{Holder: "waits", Host: "web-2"}}},
		Leftovers: []hostpool.Leftover{
			{Leftover: protocol.Leftover{Session: "kept", Host: "web-1", WipedAt: time.Unix(1, 0), Kept: "/r/sessions/kept"}},
			{Leftover: protocol.Leftover{Session: "gone", Host: "web-1", WipedAt: time.Unix(1, 0), Removed: true}},
		},
	}
	p.at(time.Second, func() {
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "left", Left: &lease.LeftBehind{Host: "web-1", Why: "gone"}})
		if got := fmt.Sprint(query[[]inquiry.LeftThere](p.world, protocol.QueryFolders)); got != "[{held web-2 true} {parked web-1 true} {kept web-1 false}]" {
			t.Errorf("it knows of %s", got)
		}
	})
	p.at(10*time.Second, func() {
		other := lies(inquiry.FoundFolder{Session: "of-another-machine", Generation: 7})
		other.Host.HostKeys = []string{"SHA256:other"}
		unmarked := inquiry.FoundFolder{Session: "unmarked"}
		nowhere := lies(unmarked)
		nowhere.Host.Name = "nowhere"
		look := lies(append([]inquiry.FoundFolder{unmarked, {Session: "No Name", Generation: 7}}, was...)...)
		look.Unknown = append([]inquiry.FoundFolder{{Session: "stranger", Generation: 9, Since: time.Unix(9, 0).UTC(), Why: "nobody knows it"}}, was...)
		look.Others = 3
		p.found(other, look, nowhere)
	})
	p.at(20*time.Second, func() {
		for _, in := range f.tried() {
			if in.Claim.Session != "left" {
				t.Errorf("wiped %+v", in)
			}
		}
		v := p.shown("web-1")
		if v.Unclean != 1 || len(v.Leftovers) != 3 || v.Folders.Unknown != 4 ||
			len(v.UnknownFolders) != 1 || v.UnknownFolders[0] != (protocol.UnknownFolder{Session: "stranger", Generation: 9, Since: time.Unix(9, 0).UTC(), Why: "nobody knows it"}) {
			t.Errorf("host is %+v", v)
		}
		for _, h := range query[[]protocol.HostView](p.world, protocol.QueryHosts) {
			if h.Name == "web-1" && (h.UnknownFolders != nil || h.Folders.Unknown != 4) {
				t.Errorf("listed as %+v", h)
			}
		}
		p.found(lies()) // the unknown folder is gone
	})
	p.at(30*time.Second, func() {
		if v := p.shown("web-1"); v.Folders.Unknown != 0 || len(v.UnknownFolders) > 0 {
			t.Errorf("host is %+v", v)
		}
	})
	p.finish(40 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{Carry: carry})
	p.verify()
}

// Temporal's record of workflows tells who owns a folder. Sessions that run or are parked
// own their folders. An ended session owned the folders that were made while it ran.
func TestAFolderIsOfTheSessionThatRanWhenItBegan(t *testing.T) {
	r := newReal(t)
	r.work()
	id := r.session("s", session.Options{})
	says := func(generation int64, want inquiry.FolderOwner) {
		t.Helper()
		if owner, err := inquiry.AskFolderOwner(t.Context(), r.c, id, generation); err != nil || owner != want {
			t.Errorf("generation %d is of one that %q, %v; want %q", generation, owner, err, want)
		}
	}
	r.say(id, "m0", "hello")
	r.ended(id, "m0", "completed")
	first := r.host.prepared(id)[0].Claim.Generation
	says(first, inquiry.OwnerRuns)
	says(7, inquiry.OwnerRuns) // the session looks after it itself
	r.update(protocol.SessionID(id), protocol.SignalPark, nil, protocol.Park{})
	r.becomes(id, protocol.Parked)
	says(first, inquiry.OwnerRuns)
	r.close(id)
	says(first, inquiry.OwnerEnded)
	says(0, inquiry.OwnerUnmarked)
	says(first-3600, inquiry.OwnerAnother)
	says(first+3600, inquiry.OwnerAnother)
	if owner, err := inquiry.AskFolderOwner(t.Context(), r.c, id+".none", first); err != nil || owner != inquiry.OwnerNobody {
		t.Errorf("nobody's folder is of one that %q, %v", owner, err)
	}
	// Now a later session has the name, and Temporal still has the history of the earlier
	// one.
	r.until("the first is a second old", func() bool { return time.Now().Unix() > first+1 })
	_, err := r.c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: protocol.SessionID(id), TaskQueue: r.queue,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE}, protocol.TypeSession, session.Input{ID: id, Options: session.Options{Zone: r.zone, Host: "web-1"}})
	if err != nil {
		t.Fatal(err)
	}
	says(first, inquiry.OwnerRuns)
	r.close(id)
	r.until("both are listed", func() bool {
		owner, err := inquiry.AskFolderOwner(t.Context(), r.c, id, first)
		return err == nil && owner == inquiry.OwnerEnded
	})
}

type fakeFinder struct {
	t   *testing.T
	err error
}

func (f *fakeFinder) FindLeftovers(_ context.Context, in places.FindLeftoversInput) (places.FindLeftoversResult, error) {
	if in.Pool != "pool/north" || in.Signal != lease.SignalLooked || in.Older < time.Minute || in.Limit == 0 {
		f.t.Errorf("looks for %+v", in)
	}
	return places.FindLeftoversResult{Hosts: 3, Unknown: 1, Problems: []string{"host web-2: no route"}}, f.err
}

// The result of the run lists what was found on the hosts. If the look failed, the result
// says so, and the run does not fail.
func TestMaintenanceSaysWhatLiesOnHosts(t *testing.T) {
	for _, err := range []error{nil, temporal.NewNonRetryableApplicationError("no pool", "x", errors.New("no pool"))} {
		env := newEnvironment()
		env.RegisterWorkflowWithOptions(care.Maintenance, workflow.RegisterOptions{Name: protocol.TypeMaintenance})
		env.RegisterActivity(&fakeFinder{t, err})
		env.ExecuteWorkflow(protocol.TypeMaintenance, care.MaintenanceInput{Leftovers: true, Zone: "north"})
		var out care.MaintenanceResult
		if err := env.GetWorkflowResult(&out); err != nil {
			t.Fatal(err)
		}
		problems := strings.Join(out.Problems, "; ")
		if err == nil && (out.Leftovers == nil || out.Leftovers.Hosts != 3 || problems != "host web-2: no route") ||
			err != nil && (out.Leftovers != nil || !strings.Contains(problems, "no pool")) {
			t.Errorf("after %v it says %+v", err, out)
		}
	}
}
