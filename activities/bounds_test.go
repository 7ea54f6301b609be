package activities

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/internal/protocol"
)

// outOfBounds reports an error that is not a refusal which says all of says.
func outOfBounds(t *testing.T, what string, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: not refused", what)
		return
	}
	app := appError(t, kit.Failing{}.Failure(t.Context(), what, err))
	if app.Type() != protocol.ErrTypeBounds || !app.NonRetryable() {
		t.Errorf("%s: refused as %s, and it is final: %v: %v", what, app.Type(), app.NonRetryable(), err)
	}
	for _, s := range says {
		if !strings.Contains(app.Message(), s) {
			t.Errorf("%s: %q does not say %q", what, app.Message(), s)
		}
	}
}

// A session that exceeds its bounds is refused before anything is done on the host,
// however it comes there, and each time codex is to start.
func TestASessionOutOfBoundsTouchesNothing(t *testing.T) {
	plain := protocol.SessionAsks{Sandbox: "workspace-write", ApprovalPolicy: "on-request", Host: "web-1", Labels: map[string]string{"tier": "prod"}, Seed: "team"}
	for name, c := range map[string]struct {
		most protocol.Ceiling
		asks func(*protocol.SessionAsks)
		says string
	}{
		"sandbox":         {protocol.Ceiling{Sandbox: "workspace-write"}, func(a *protocol.SessionAsks) { a.Sandbox = "danger-full-access" }, "--sandbox danger-full-access"},
		"approval policy": {protocol.Ceiling{ApprovalPolicies: []string{"on-request"}}, func(a *protocol.SessionAsks) { a.ApprovalPolicy = "never" }, "--approval-policy never"},
		"hooks":           {protocol.Ceiling{NoHooks: true}, func(a *protocol.SessionAsks) { a.Hooks = []string{"after_create"} }, "after_create"},
		"network":         {protocol.Ceiling{NoNetwork: true}, func(a *protocol.SessionAsks) { a.Network = "on" }, "--network on"},
		"agent":           {protocol.Ceiling{NoForwardAgent: true}, func(a *protocol.SessionAsks) { a.ForwardAgent = true }, "--forward-agent"},
		"dir":             {protocol.Ceiling{NoDir: true}, func(a *protocol.SessionAsks) { a.Dir = "/" }, "--dir /"},
		"credentials":     {protocol.Ceiling{Credentials: []string{"gateway"}}, func(*protocol.SessionAsks) {}, "--credentials planted"},
		"host":            {protocol.Ceiling{Hosts: map[string]string{"tier": "dev"}}, func(*protocol.SessionAsks) {}, "tier=dev"},
	} {
		asks := plain
		c.asks(&asks)
		bySeed := asks
		bySeed.SeedCeiling = &c.most
		for setter, set := range map[string]struct {
			bounds  site.Bounds
			asks    protocol.SessionAsks
			bounded bool
			says    string
		}{
			"organisation": {site.Bounds{All: c.most}, asks, false, "set by bounds of the workers' configuration"},
			"label":        {site.Bounds{Hosts: []site.HostBounds{{Labels: map[string]string{"tier": "prod"}, Most: c.most}}}, asks, false, "tier=prod"},
			"seed":         {site.Bounds{}, bySeed, true, "set by seed team"},
		} {
			root := t.TempDir()
			b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: root})
			b.set.site.Bounds = set.bounds
			b.set.site.AskAsks = func(_ context.Context, session string) (protocol.SessionAsks, error) {
				if session != "bounded" {
					t.Errorf("session %s is asked", session)
				}
				return set.asks, nil
			}
			claim := protocol.Claim{Session: "bounded", Host: b.spec, Generation: 1, Pump: 1}
			for entry, in := range map[string]places.PrepareSessionInput{
				"start":   {Claim: claim, Sandbox: asks.Sandbox, Bounded: set.bounded},
				"fork":    {Claim: claim, Sandbox: asks.Sandbox, Bounded: set.bounded, Restore: &snaps.RestoreSpec{Snapshot: "other", Fork: true}},
				"restore": {Claim: claim, Sandbox: asks.Sandbox, Bounded: set.bounded, Restore: &snaps.RestoreSpec{Snapshot: "own"}},
			} {
				_, err := places.PrepareSession(t.Context(), b.set.site, in, 1, site.Secrets{}, nil)
				outOfBounds(t, name+" of "+setter+", "+entry, err, c.says, set.says)
			}
			l := folder.LayoutOf(root, "bounded")
			l.Codex = "/bin/false"
			_, err := places.StartServer(t.Context(), b.set.site, places.StartServerInput{Claim: claim, Layout: l, Incarnation: 2, Bounded: set.bounded}, 1)
			outOfBounds(t, name+" of "+setter+", codex", err, c.says, set.says)
			if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
				t.Errorf("%s of %s: left on the host: %v, %v", name, setter, left, err)
			}
		}
	}
}

func TestASessionWithinItsBoundsIsPrepared(t *testing.T) {
	b := newBed(t, readyHost(t))
	b.set.site.Bounds = site.Bounds{
		All:   protocol.Ceiling{Sandbox: "workspace-write", ApprovalPolicies: []string{"on-request"}, NoHooks: true, NoNetwork: true, NoForwardAgent: true, NoDir: true, NoExec: true},
		Hosts: []site.HostBounds{{Labels: map[string]string{"tier": "prod"}, Most: protocol.Ceiling{Sandbox: "read-only"}}},
	}
	asked := 0
	b.set.site.AskAsks = func(context.Context, string) (protocol.SessionAsks, error) {
		asked++
		return protocol.SessionAsks{Sandbox: "workspace-write", ApprovalPolicy: "on-request", Labels: map[string]string{"tier": "dev"}, SeedCeiling: &protocol.Ceiling{Sandbox: "workspace-write"}}, nil
	}
	if _, err := b.prepare(places.PrepareSessionInput{Claim: protocol.Claim{Session: "bounded", Host: b.spec, Generation: 1, Pump: 1}, Sandbox: "workspace-write"}); err != nil {
		t.Error(err)
	}
	if asked != 1 {
		t.Errorf("its workflow was asked %d times", asked)
	}
}

// A workflow that cannot say what the session asks for must not begin it unchecked.
func TestNothingIsDoneWhileBoundsCannotBeChecked(t *testing.T) {
	root := t.TempDir()
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: root})
	b.set.site.Bounds.All.NoHooks = true
	for name, answer := range map[string]func(context.Context, string) (protocol.SessionAsks, error){
		"no answer": func(context.Context, string) (protocol.SessionAsks, error) {
			return protocol.SessionAsks{}, errors.New("unknown queryType asks")
		},
		"empty": func(context.Context, string) (protocol.SessionAsks, error) { return protocol.SessionAsks{}, nil },
	} {
		b.set.site.AskAsks = answer
		_, err := b.prepare(places.PrepareSessionInput{Claim: protocol.Claim{Session: "bounded", Host: b.spec, Generation: 1, Pump: 1}, Sandbox: "read-only"})
		if app := appError(t, err); app.NonRetryable() || !strings.Contains(app.Message(), "cannot check its bounds") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("left on the host: %v, %v", left, err)
	}
	// Without bounds, nobody is asked.
	free := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: root})
	free.set.site.AskAsks = b.set.site.AskAsks
	if err := site.CheckBounds(t.Context(), free.set.site, "bounded", false, ""); err != nil {
		t.Error(err)
	}
}

func TestCommandsAreRefusedWhereTheyAreOutOfBounds(t *testing.T) {
	prod := []site.HostBounds{{Labels: map[string]string{"tier": "prod"}, Most: protocol.Ceiling{NoExec: true}}}
	local := protocol.HostSpec{Name: protocol.LocalHost}
	known := func(labels map[string]string, spec protocol.HostSpec) []inquiry.HostNow {
		return []inquiry.HostNow{{Name: "other", Spec: &protocol.HostSpec{Name: "other"}, Labels: map[string]string{"tier": "dev"}}, {Name: spec.Name, Spec: &spec, Labels: labels}}
	}
	moved := local
	moved.Address = "192.0.2.7"
	for name, c := range map[string]struct {
		bounds site.Bounds
		hosts  []inquiry.HostNow
		says   string // empty: it runs
	}{
		"none":          {site.Bounds{}, nil, ""},
		"organisation":  {site.Bounds{All: protocol.Ceiling{NoExec: true}}, nil, "bounds of the workers' configuration"},
		"label":         {site.Bounds{Hosts: prod}, known(map[string]string{"tier": "prod", "a": "b"}, local), "tier=prod"},
		"other label":   {site.Bounds{Hosts: prod}, known(map[string]string{"tier": "dev"}, local), ""},
		"not known":     {site.Bounds{Hosts: prod, Zone: "here"}, known(nil, protocol.HostSpec{Name: "x"}), "zone here has no host local"},
		"other address": {site.Bounds{Hosts: prod}, known(map[string]string{"tier": "dev"}, moved), "another address"},
	} {
		root := t.TempDir()
		b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: root})
		b.set.site.Bounds = c.bounds
		b.set.site.AskHosts = func(context.Context) ([]inquiry.HostNow, error) { return c.hosts, nil }
		for n := range int32(2) { // a later attempt is checked, too
			_, err := hosts.ExecOn(t.Context(), b.set.site, protocol.ExecInput{ID: "e1", Host: b.spec, Argv: []string{"touch", root + "/ran"}}, hosts.ExecAttempt{N: n + 1})
			if c.says == "" && err != nil {
				t.Errorf("%s: %v", name, err)
			} else if c.says != "" {
				outOfBounds(t, name, err, c.says)
			}
		}
		if _, err := os.Stat(root + "/ran"); (err == nil) != (c.says == "") {
			t.Errorf("%s: it ran: %v", name, err == nil)
		}
	}
	b := newBed(t, local)
	b.set.site.Bounds.Hosts = prod
	b.set.site.AskHosts = func(context.Context) ([]inquiry.HostNow, error) { return nil, errors.New("away") }
	if app := appError(t, kit.Failing{}.Failure(t.Context(), "exec", site.CheckExec(t.Context(), b.set.site, local))); app.NonRetryable() {
		t.Errorf("unknown bounds are final: %v", app)
	}
}
