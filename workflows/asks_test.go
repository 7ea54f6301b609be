package workflows

import (
	"reflect"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// Activities check this answer against bounds, so it must have all that is bounded.
func TestASessionSaysWhatItAsksFor(t *testing.T) {
	most := &protocol.Ceiling{Sandbox: "danger-full-access", NoHooks: true}
	for name, c := range map[string]struct {
		options session.Options
		bounds  *protocol.Ceiling
		want    protocol.SessionAsks
	}{
		"defaults": {session.Options{}, nil, protocol.SessionAsks{Sandbox: "workspace-write", ApprovalPolicy: "on-request"}},
		"all": {session.Options{Seed: "team", Sandbox: "danger-full-access", ApprovalPolicy: "never", Confine: hosts.Confinement{Network: "on"},
			Workspace: workspaces.Workspace{Repo: &workspaces.Repo{URL: "git@example.com:a/b", ForwardAgent: true},
				Hooks: workspaces.Hooks{AfterCreate: "a", BeforeRun: "b", AfterRun: "c", BeforeRemove: "d"}}}, most,
			protocol.SessionAsks{Sandbox: "danger-full-access", ApprovalPolicy: "never", Network: "on", ForwardAgent: true,
				Hooks: []string{"after_create", "before_run", "after_run", "before_remove"}, Seed: "team", SeedCeiling: most, Unsaid: true}},
		"profile": {session.Options{Dir: "/srv", Confine: hosts.Confinement{Profile: "loose", Write: []string{"/srv/x"}}}, nil,
			protocol.SessionAsks{Sandbox: "profile", ApprovalPolicy: "on-request", Profile: "loose", Write: []string{"/srv/x"}, Dir: "/srv"}},
	} {
		w := newWorld(t)
		w.bounds = c.bounds
		w.fake.pumps = append(w.fake.pumps, endsTurn("completed", ""))
		var got protocol.SessionAsks
		w.at(time.Second, func() {
			got = query[protocol.SessionAsks](w, protocol.QueryAsks)
			w.send(protocol.SignalMessage, hello("m1"))
		})
		w.ends(time.Minute)
		w.start(c.options)
		if got.Host == "" {
			t.Errorf("%s: it does not say on which host it is", name)
		}
		got.Host = ""
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, c.want)
		}
		if p := w.fake.prepared; len(p) != 1 || p[0].Bounded != (c.bounds != nil) {
			t.Errorf("%s: prepared %+v", name, p)
		}
		if s := w.fake.begun; len(s) != 1 || s[0].Bounded != (c.bounds != nil) {
			t.Errorf("%s: started %+v", name, s)
		}
	}
}

// A refusal is final: waiting cannot mend it.
func TestASessionOutOfBoundsFailsAtOnce(t *testing.T) {
	w := newWorld(t)
	w.fake.fails = map[string]error{"prepare": finally(protocol.ErrTypeBounds)}
	w.start(session.Options{})
	if kind := typeOf(w.GetWorkflowError()); kind != protocol.ErrTypeBounds {
		t.Fatalf("it ended with %v", w.GetWorkflowError())
	}
	if v := query[protocol.SessionView](w, protocol.QueryState); v.State != protocol.Failed || v.Error == nil || v.Error.Kind != protocol.ErrTypeBounds || len(w.fake.prepared) != 1 {
		t.Errorf("%+v, %d attempts", v, len(w.fake.prepared))
	}
}

func TestASeedTellsItsSessionsItsBounds(t *testing.T) {
	p := newPoolWorld(t)
	p.at(0, func() {
		p.takes(p.send(protocol.UpdatePutSeed, protocol.PutSeed{Name: "team", Ref: protocol.SeedRef{Blob: "seeds/team/b1", Digest: "d", Kind: "api_key"}}))
		p.acquires(on("a", "web-1", 1))
	})
	p.at(time.Second, func() {
		p.saw("session/a got team")
		for _, bad := range []protocol.Ceiling{{Sandbox: "none"}, {NoExec: true}, {ApprovalPolicies: []string{"always"}}} {
			p.refuses(p.send(protocol.UpdateSetSeed, protocol.SetSeed{Bounds: &bad}), protocol.RefusedBadInput)
		}
		p.takes(p.send(protocol.UpdateSetSeed, protocol.SetSeed{Bounds: &protocol.Ceiling{Sandbox: "read-only"}}))
		p.acquires(on("b", "web-1", 1))
	})
	p.at(2*time.Second, func() {
		p.saw("session/b got team within read-only")
		p.takes(p.send(protocol.UpdateSetSeed, protocol.SetSeed{Bounds: &protocol.Ceiling{}}))
		p.acquires(on("c", "web-1", 1))
	})
	p.at(3*time.Second, func() { p.saw("session/c got team") })
	p.runSeed(time.Minute)
}
