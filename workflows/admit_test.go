package workflows

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/session"
)

// guard makes the worker take signed commands only, by an access file with these people and
// these bindings.
func (w *world) guard(bindings string, people ...string) {
	w.t.Helper()
	var b strings.Builder
	b.WriteString("people:\n")
	for _, name := range people {
		_, key := keyOf(w.t, name)
		fmt.Fprintf(&b, "  - {name: %s, keys: [%q]}\n", name, key)
	}
	_, key := keyOf(w.t, "worker")
	fmt.Fprintf(&b, "workers: [%q]\n", key)
	b.WriteString("bindings:\n" + bindings)
	a, err := access.Parse([]byte(b.String()))
	if err != nil {
		w.t.Fatal(err)
	}
	k := authority.Fixed(a, w.Now)
	k.Know(w.tokens)
	w.access, w.keeper = a.Digest, k
	w.used = map[string]string{}
	w.RegisterActivityWithOptions(func(_ context.Context, in protocol.ClaimStart) (out protocol.StartClaimed, _ error) {
		w.reads = append(w.reads, in.Reads)
		out.Run, out.Nonce = in.Run, in.Nonce
		if in.Reads != nil && strings.HasPrefix(in.Reads.Snapshot, "secret.") {
			out.Refused = "it may not read that"
		}
		if by := w.used[in.Nonce]; in.Nonce != "" && by != "" {
			out.Refused = "it was started before"
		}
		if in.Owns != nil && w.foreign[in.Owns.Session] {
			out.Refused = "it is somebody else's"
		}
		w.used[in.Nonce] = in.Run
		if out.Refused == "" && in.Audit != nil {
			w.ledger.lines = append(w.ledger.lines, in.Audit.Lines...)
			out.Audited = in.Audit.Last()
		}
		return out, nil
	}, activity.RegisterOptions{Name: protocol.ActivityClaimStart})
	w.keeps(k)
}

// keeps gives the worker a keeper, or none.
func (w *world) keeps(k *authority.Keeper) { w.judgedBy(k, authority.Options{}) }

func (w *world) judgedBy(k *authority.Keeper, o authority.Options) {
	if w.fake == nil { // which writes records itself
		w.RegisterActivityWithOptions(w.ledger.WriteAudit, activity.RegisterOptions{Name: protocol.ActivityWriteAudit})
	}
	w.SetWorkerOptions(worker.Options{
		DeadlockDetectionTimeout: 10 * time.Second,
		Interceptors:             []interceptor.WorkerInterceptor{&beginning{tell: w.environment.begins}, authority.Interceptor(k, o)},
	})
}

const team = `  - {name: ops, roles: [operator], to: [ann], when: 'tenant == "blue"'}
  - {name: approvers, roles: [approver], to: [bob], when: 'owner == "ann"'}
`

// by returns a command that somebody signed now.
func (w *world) by(who, name string, arg any) json.RawMessage {
	return w.byFor(who, protocol.SessionID("s1"), name, arg)
}

func (w *world) byFor(who, workflow, name string, arg any) json.RawMessage {
	w.t.Helper()
	signer, _ := keyOf(w.t, who)
	raw, err := json.Marshal(arg)
	if err != nil {
		w.t.Fatal(err)
	}
	signed, err := command.Sign(signer, who, workflow, name, raw, w.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return signed
}

// as is by for one kind of message.
func (w *world) as(kind command.Kind, who, name string, arg any) json.RawMessage {
	w.t.Helper()
	return w.asAt(w.Now(), kind, who, name, arg)
}

// asAt is as for a message that was signed at some time.
func (w *world) asAt(at time.Time, kind command.Kind, who, name string, arg any) json.RawMessage {
	w.t.Helper()
	signer, _ := keyOf(w.t, who)
	raw, err := json.Marshal(arg)
	if err != nil {
		w.t.Fatal(err)
	}
	signed, err := command.SignAs(kind, signer, who, nil, protocol.SessionID("s1"), name, raw, at)
	if err != nil {
		w.t.Fatal(err)
	}
	return signed
}

// startBy starts a session that ann signed.
func (w *world) startBy(who string, opt session.Options) {
	w.t.Helper()
	w.ExecuteWorkflow(protocol.TypeSession, w.by(who, protocol.TypeSession, session.Input{ID: "s1", Options: opt}))
	if !w.IsWorkflowCompleted() {
		w.t.Fatal("the session did not end")
	}
}

func TestOnlySignedCommandsOfPrincipalsWithARoleCount(t *testing.T) {
	w := newWorld(t)
	w.guard(team, "ann", "bob")
	w.fake.pumps = append(w.fake.pumps, asks("make"), endsTurn("completed", ""))
	first := w.by("ann", protocol.SignalMessage, hello("m1"))
	w.at(time.Second, func() {
		for what, raw := range map[string]any{
			"unsigned":             hello("m1"),
			"of a stranger":        w.by("mallory", protocol.SignalMessage, hello("m1")),
			"of another role":      w.by("bob", protocol.SignalMessage, hello("m1")),
			"for another session":  w.byFor("ann", protocol.SessionID("s2"), protocol.SignalMessage, hello("m1")),
			"of another kind":      w.by("ann", protocol.SignalInterrupt, hello("m1")),
			"with changed content": json.RawMessage(strings.Replace(string(first), `"text":"`, `"text":"x`, 1)),
		} {
			u := w.send(protocol.SignalMessage, raw)
			w.after(func() {
				if u.rejected == nil {
					t.Errorf("a message %s counts", what)
				}
			})
			w.refuses(u, protocol.RefusedForbidden)
			w.SignalWorkflow(protocol.SignalMessage, raw)
		}
	})
	w.at(2*time.Second, func() {
		if d := query[protocol.SessionView](w, protocol.QueryState); len(d.Refusals) != 6 || d.Turn != nil {
			t.Errorf("turn %v, and %d refused signals are on record, want 6: %+v", d.Turn, len(d.Refusals), d.Refusals)
		}
		w.SignalWorkflow(protocol.SignalMessage, first)
	})
	w.at(3*time.Second, func() {
		w.takes(w.send(protocol.SignalMessage, first)) // the same message, once more: the same answer
		a := w.approval("s1.1")
		d := protocol.Decide{Approval: "s1.1", Digest: a.Digest, Outcome: "accept", By: "bob"}
		w.refuses(w.send(protocol.SignalDecide, w.by("ann", protocol.SignalDecide, d)), protocol.RefusedForbidden)
		d.By = "somebody else"
		accept := w.by("bob", protocol.SignalDecide, d)
		w.takes(w.send(protocol.SignalDecide, accept))
		w.refuses(w.send(protocol.SignalDecide, accept), protocol.RefusedForbidden) // a replay
	})
	w.whenTurn(1, "completed", func() {
		if got := w.approval("s1.1").Decision; got == nil || got.By != "bob" {
			t.Errorf("the decision is %+v, want it to be bob's, whatever the message claims", got)
		}
		w.takes(w.send(protocol.SignalClose, w.by("ann", protocol.SignalClose, protocol.Close{By: "bob"})))
	})
	w.startBy("ann", session.Options{Tenant: "blue", By: "root"}) // ann signed, so ann is the owner
	w.verify()
}

func TestASignalThatWasRefusedIsNotTakenLater(t *testing.T) {
	w := newWorld(t)
	w.guard(team, "ann", "bob")
	w.fake.pumps = append(w.fake.pumps, asks("make"), endsTurn("completed", ""))
	var early, update json.RawMessage
	w.at(time.Second, func() {
		early = w.as(command.Signal, "ann", protocol.SignalInterrupt, protocol.Interrupt{})
		w.SignalWorkflow(protocol.SignalInterrupt, early) // nothing runs
		update = w.as(command.Update, "ann", protocol.SignalInterrupt, protocol.Interrupt{})
		w.refuses(w.send(protocol.SignalInterrupt, update), protocol.RefusedState)
		w.SignalWorkflow(protocol.SignalMessage, w.as(command.Signal, "ann", protocol.SignalMessage, hello("m1")))
	})
	w.at(time.Hour, func() {
		a := w.approval("s1.1")
		w.SignalWorkflow(protocol.SignalInterrupt, early)
		w.SignalWorkflow(protocol.SignalInterrupt, update) // as another kind, which may wait longer
		w.at(time.Minute, func() {
			d := query[protocol.SessionView](w, protocol.QueryState)
			if len(d.Refusals) != 3 || d.Turn == nil || w.approval("s1.1").Decision != nil {
				t.Errorf("turn %+v, refusals %+v", d.Turn, d.Refusals)
			}
			w.takes(w.send(protocol.SignalDecide, w.by("bob", protocol.SignalDecide, protocol.Decide{Approval: "s1.1", Digest: a.Digest, Outcome: "accept"})))
		})
	})
	w.whenTurn(1, "completed", func() {
		w.takes(w.send(protocol.SignalClose, w.as(command.Update, "ann", protocol.SignalClose, protocol.Close{})))
	})
	w.startBy("ann", session.Options{Tenant: "blue"})
	w.verify()
}

func TestASessionThatNobodyMayStartTouchesNothing(t *testing.T) {
	for what, c := range map[string]struct {
		who string
		opt session.Options
	}{
		"a stranger":             {"mallory", session.Options{Tenant: "blue"}},
		"somebody else's tenant": {"ann", session.Options{Tenant: "red"}},
		"another role":           {"bob", session.Options{Tenant: "blue"}},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.guard(team, "ann", "bob")
			w.startBy(c.who, c.opt)
			if err := w.GetWorkflowError(); err == nil || !strings.Contains(err.Error(), protocol.RefusedForbidden) {
				t.Errorf("it ended with %v", err)
			}
			if len(w.asked) > 0 || len(w.fake.prepared) > 0 {
				t.Errorf("it asked for %d leases and prepared %d hosts", len(w.asked), len(w.fake.prepared))
			}
		})
	}
	t.Run("nobody signed", func(t *testing.T) {
		w := newWorld(t)
		w.guard(team, "ann", "bob")
		w.ExecuteWorkflow(protocol.TypeSession, session.Input{ID: "s1", Options: session.Options{Tenant: "blue"}})
		if err := w.GetWorkflowError(); err == nil || !strings.Contains(err.Error(), protocol.RefusedForbidden) {
			t.Errorf("it ended with %v", err)
		}
	})
	t.Run("the state of another", func(t *testing.T) {
		w := newWorld(t)
		w.guard(team, "ann", "bob")
		w.ExecuteWorkflow(protocol.TypeSession, session.Input{ID: "s1", Options: session.Options{Tenant: "blue"}, Carry: &session.State{}})
		if err := w.GetWorkflowError(); err == nil || !strings.Contains(err.Error(), protocol.RefusedForbidden) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// A name that somebody has read in Temporal gives no right to what it stands for.
func TestASessionBeginsWithNothingOfOthers(t *testing.T) {
	key := func(who, family string) string {
		folder, ok := owned.FolderOf("session.s0.0123456789abcdef", who)
		if !ok {
			t.Fatal("no folder")
		}
		return owned.In(folder, family) + "/" + strings.Repeat("0", 64)
	}
	const snapshot = ".snap-20260101t000000-012345"
	file := func(who string) []protocol.Input {
		return []protocol.Input{{Kind: protocol.InputFile, Name: "a", Blob: key(who, owned.Inputs), Digest: strings.Repeat("0", 64), Bytes: 1}}
	}
	message := func(who string) *protocol.Message {
		return &protocol.Message{ID: "m1", Blob: key(who, owned.Messages), Chars: 1}
	}
	for what, c := range map[string]struct {
		in    session.Input
		begun bool
		reads *protocol.StartReads
	}{
		"her own message":          {session.Input{First: message("ann")}, true, nil},
		"another's message":        {session.Input{First: message("bob")}, false, nil},
		"another's file, no fork":  {session.Input{Options: session.Options{Files: file("bob")}}, false, nil},
		"a snapshot":               {session.Input{Options: session.Options{From: "s0" + snapshot}}, true, &protocol.StartReads{Principal: "ann", Session: "s1", Snapshot: "s0" + snapshot}},
		"a secret snapshot":        {session.Input{Options: session.Options{From: "secret" + snapshot}}, false, &protocol.StartReads{Principal: "ann", Session: "s1", Snapshot: "secret" + snapshot}},
		"a workspace":              {session.Input{Options: session.Options{Workspace: workspaces.Workspace{Snapshot: "secret" + snapshot}}}, false, &protocol.StartReads{Principal: "ann", Session: "s1", Snapshot: "secret" + snapshot}},
		"a fork with another's":    {session.Input{Options: session.Options{From: "s0" + snapshot, Files: file("bob")}}, true, &protocol.StartReads{Principal: "ann", Session: "s1", Snapshot: "s0" + snapshot, Owners: []string{"session.s0"}}},
		"a fork with its own file": {session.Input{Options: session.Options{From: "s0" + snapshot, Files: file("ann")}}, true, &protocol.StartReads{Principal: "ann", Session: "s1", Snapshot: "s0" + snapshot}},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.guard(team, "ann", "bob")
			c.in.ID, c.in.Options.Tenant = "s1", "blue"
			if c.in.First != nil && c.begun {
				w.fake.pumps = append(w.fake.pumps, endsTurn("completed", ""))
			}
			w.at(time.Minute, func() { w.send(protocol.SignalClose, w.by("ann", protocol.SignalClose, protocol.Close{})) })
			w.ExecuteWorkflow(protocol.TypeSession, w.by("ann", protocol.TypeSession, c.in))
			err := w.GetWorkflowError()
			refused := strings.Contains(fmt.Sprint(err), protocol.RefusedForbidden)
			if refused == c.begun || !c.begun && (len(w.asked) > 0 || len(w.fake.prepared) > 0) {
				t.Errorf("it ended with %v; it asked for %d leases and prepared %d hosts", err, len(w.asked), len(w.fake.prepared))
			}
			var got *protocol.StartReads
			if len(w.reads) > 0 {
				got = w.reads[0]
			}
			if !reflect.DeepEqual(got, c.reads) {
				t.Errorf("it reads %+v, want %+v", got, c.reads)
			}
		})
	}
}

func TestHostsAndSeedsTakeSignedCommandsOnly(t *testing.T) {
	p := newPoolWorld(t)
	p.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: protocol.PoolID("")})
	p.guard(`  - {name: web, roles: [host-operator], to: [ann], when: 'host.name.startsWith("web-")'}
  - {name: ops, roles: [operator], to: [bob]}
`, "ann", "bob")
	signed := func(who, name string, host protocol.PutHost) protocol.PutHost {
		raw := p.byFor(who, protocol.PoolID(""), name, host)
		var out protocol.PutHost
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	p.at(time.Second, func() {
		p.refuses(p.send(protocol.UpdatePutHost, put("web-1", 1)), protocol.RefusedForbidden)
		p.refuses(p.send(protocol.UpdatePutHost, signed("mallory", protocol.UpdatePutHost, put("web-1", 1))), protocol.RefusedForbidden)
		p.refuses(p.send(protocol.UpdatePutHost, signed("bob", protocol.UpdatePutHost, put("web-1", 1))), protocol.RefusedForbidden)
		p.refuses(p.send(protocol.UpdatePutHost, signed("ann", protocol.UpdatePutHost, put("db-1", 1))), protocol.RefusedForbidden)
		moved := signed("ann", protocol.UpdatePutHost, put("web-1", 1))
		moved.Spec.Address = "elsewhere.example"
		p.refuses(p.send(protocol.UpdatePutHost, moved), protocol.RefusedForbidden)
		p.takes(p.send(protocol.UpdatePutHost, signed("ann", protocol.UpdatePutHost, put("web-1", 1))))
	})
	p.at(2*time.Second, p.CancelWorkflow)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

// A host is judged as it is and as a command makes it, also if many are put at once.
func TestACommandToAPoolIsJudgedForEachHostItChanges(t *testing.T) {
	p := newPoolWorld(t)
	p.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: protocol.PoolID("")})
	p.guard(`  - {name: not prod, roles: [host-operator], to: [ann], when: 'host.name != "prod" && host.labels.get("env") != "prod"'}
  - {name: all, roles: [admin], to: [bob]}
`, "ann", "bob")
	env := func(name, env string) protocol.PutHost {
		h := put(name, 1)
		h.Labels, h.Replace = map[string]string{"env": env}, true
		return h
	}
	send := func(who, name string, arg any) *updated {
		to := reflect.New(reflect.TypeOf(arg))
		if err := json.Unmarshal(p.byFor(who, protocol.PoolID(""), name, arg), to.Interface()); err != nil {
			t.Fatal(err)
		}
		return p.send(name, to.Elem().Interface())
	}
	p.at(time.Second, func() {
		p.takes(send("bob", protocol.UpdatePutHosts, protocol.PutHosts{Hosts: []protocol.PutHost{env("prod", ""), env("db-1", "prod"), env("web-1", "dev")}}))
	})
	p.at(2*time.Second, func() {
		for what, u := range map[string]*updated{
			"one of many":    send("ann", protocol.UpdatePutHosts, protocol.PutHosts{Hosts: []protocol.PutHost{env("web-2", ""), env("prod", "")}}),
			"by its labels":  send("ann", protocol.UpdatePutHosts, protocol.PutHosts{Hosts: []protocol.PutHost{env("db-1", "dev")}}),
			"with labels":    send("ann", protocol.UpdatePutHosts, protocol.PutHosts{Hosts: []protocol.PutHost{env("web-1", "prod")}}),
			"replaced":       send("ann", protocol.UpdatePutHost, env("db-1", "dev")),
			"relabelled":     send("ann", protocol.UpdateSetHost, protocol.SetHost{Name: "db-1", Unlabel: []string{"env"}}),
			"labelled so":    send("ann", protocol.UpdateSetHost, protocol.SetHost{Name: "web-1", Labels: map[string]string{"env": "prod"}}),
			"removed":        send("ann", protocol.UpdateRemoveHost, protocol.RemoveHost{Name: "db-1"}),
			"not there":      send("ann", protocol.UpdateRemoveHost, protocol.RemoveHost{Name: "db-9"}),
			"not to be seen": send("ann", protocol.UpdateSetHost, protocol.SetHost{Name: "db-9", Slots: 3}),
		} {
			p.after(func() {
				if u.rejected == nil {
					t.Errorf("a host %s: taken", what)
				}
			})
			p.refuses(u, protocol.RefusedForbidden)
		}
		p.takes(send("ann", protocol.UpdatePutHosts, protocol.PutHosts{Hosts: []protocol.PutHost{env("web-1", "test"), env("web-3", "")}}))
		p.takes(send("ann", protocol.UpdateSetHost, protocol.SetHost{Name: "web-1", Slots: 3}))
	})
	p.at(3*time.Second, p.CancelWorkflow)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func TestASignedUpdateOfAPoolOrASeedCountsOnce(t *testing.T) {
	const all = "  - {name: all, roles: [admin], to: [ann]}\n"
	t.Run("pool", func(t *testing.T) {
		p := newPoolWorld(t)
		p.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: protocol.PoolID("")})
		p.guard(all, "ann")
		sign := func(name string, in, out any) {
			if err := json.Unmarshal(p.byFor("ann", protocol.PoolID(""), name, in), out); err != nil {
				t.Fatal(err)
			}
		}
		var in protocol.PutHost
		p.at(time.Second, func() {
			sign(protocol.UpdatePutHost, put("web-1", 1), &in)
			p.takes(p.send(protocol.UpdatePutHost, in))
		})
		p.at(time.Minute, func() { p.refuses(p.send(protocol.UpdatePutHost, in), protocol.RefusedForbidden) })
		p.at(2*time.Minute, func() {
			var again protocol.PutHost
			sign(protocol.UpdatePutHost, put("web-2", 1), &again)
			p.takes(p.send(protocol.UpdatePutHost, again))
		})
		p.at(3*time.Minute, p.CancelWorkflow)
		p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
		p.verify()
	})
	t.Run("seed", func(t *testing.T) {
		p := newPoolWorld(t)
		p.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: protocol.SeedID("team")})
		p.guard(all, "ann")
		sign := func(name string, in, out any) {
			if err := json.Unmarshal(p.byFor("ann", protocol.SeedID("team"), name, in), out); err != nil {
				t.Fatal(err)
			}
		}
		var in protocol.PutSeed
		var before, after protocol.DeleteSeed // the former is for an earlier seed of this name
		p.at(time.Second, func() { sign(protocol.UpdateDeleteSeed, protocol.DeleteSeed{}, &before) })
		p.at(2*time.Second, func() {
			sign(protocol.UpdatePutSeed, login("1"), &in)
			p.takes(p.send(protocol.UpdatePutSeed, in))
		})
		p.at(time.Minute, func() {
			p.refuses(p.send(protocol.UpdatePutSeed, in), protocol.RefusedForbidden)
			p.refuses(p.send(protocol.UpdateDeleteSeed, before), protocol.RefusedForbidden)
		})
		p.at(2*time.Minute, func() {
			sign(protocol.UpdateDeleteSeed, protocol.DeleteSeed{}, &after)
			p.takes(p.send(protocol.UpdateDeleteSeed, after))
		})
		p.ExecuteWorkflow(protocol.TypeSeed, newSeed)
		p.verify()
	})
}

func TestACommandOnAHostRunsForWhoMayGiveIt(t *testing.T) {
	in := protocol.ExecInput{ID: "e1", Host: protocol.HostSpec{Name: "web-1"}, Argv: []string{"true"}}
	for who, want := range map[string]bool{"ann": true, "bob": false, "mallory": false, "": false} {
		w := &world{environment: newEnvironment(), t: t}
		ran := 0
		w.RegisterActivityWithOptions(func(context.Context, protocol.ExecInput) (protocol.ExecResult, error) {
			ran++
			return protocol.ExecResult{}, nil
		}, activity.RegisterOptions{Name: "RunExec"})
		w.RegisterWorkflowWithOptions(hostpool.ExecOnHost, workflow.RegisterOptions{Name: protocol.TypeExec})
		w.guard("  - {name: hosts, roles: [host-operator], to: [ann]}\n  - {name: ops, roles: [operator], to: [bob]}\n", "ann", "bob")
		w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: "exec/e1"})
		var arg any = in
		if who != "" {
			arg = w.byFor(who, "exec/e1", protocol.TypeExec, in)
		}
		w.ExecuteWorkflow(protocol.TypeExec, arg)
		err := w.GetWorkflowError()
		if (ran == 1) != want || (err == nil) != want {
			t.Errorf("by %q it ran %d times: %v", who, ran, err)
		}
		if !want && !strings.Contains(fmt.Sprint(err), protocol.RefusedForbidden) {
			t.Errorf("by %q: %v", who, err)
		}
	}
}

func TestASessionStartedAgainWithItsSignedInputTouchesNothing(t *testing.T) {
	for again, want := range map[bool]int{false: 1, true: 0} {
		w := newWorld(t)
		w.guard(team, "ann", "bob")
		raw := w.by("ann", protocol.TypeSession, session.Input{ID: "s1", Options: session.Options{Tenant: "blue"}})
		if again {
			_, auth, err := command.Plain(raw)
			if err != nil {
				t.Fatal(err)
			}
			w.used[auth.Nonce] = "an earlier run"
		}
		w.at(time.Minute, func() {
			w.send(protocol.SignalClose, w.by("ann", protocol.SignalClose, protocol.Close{}))
		})
		w.ExecuteWorkflow(protocol.TypeSession, raw)
		err := w.GetWorkflowError()
		if got := len(w.fake.prepared); got != want || (err == nil) == again {
			t.Errorf("started again: %v; it prepared %d hosts and ended with %v", again, got, err)
		}
		if again && !strings.Contains(fmt.Sprint(err), "started before") {
			t.Errorf("it ended with %v", err)
		}
	}
}

// A right to start sessions is none to use a seed, and what a pool will choose meets no
// condition.
func TestASessionRunsOnSeedsAndHostsThatItsStarterMayUse(t *testing.T) {
	const bindings = `  - {name: tenant, roles: [operator], to: [ann], when: 'tenant == "blue" && (verb != "seed.use" || seed == "web")'}
  - {name: not prod, roles: [operator], to: [bob], when: 'seed != "prod"'}
  - {name: not db, roles: [operator], to: [carl], when: 'host.name != "db-1"'}
  - {name: no db labels, roles: [operator], to: [dora], when: 'host.labels.get("kind") != "db"'}
`
	for _, c := range []struct {
		who  string
		opt  session.Options
		want bool
	}{
		{"ann", session.Options{}, true},
		{"ann", session.Options{Seed: "web"}, true},
		{"ann", session.Options{Seed: "other"}, false},
		{"ann", session.Options{SeedPool: "web"}, false},
		{"bob", session.Options{}, true},
		{"bob", session.Options{Seed: "web"}, true},
		{"bob", session.Options{Seed: "prod"}, false},
		{"bob", session.Options{SeedPool: "all"}, false},
		{"carl", session.Options{Host: "web-1"}, true},
		{"carl", session.Options{Host: "db-1"}, false},
		{"carl", session.Options{}, false},
		{"dora", session.Options{Host: "web-1"}, false},
	} {
		c.opt.Tenant = "blue"
		w := newWorld(t)
		w.guard(bindings, "ann", "bob", "carl", "dora")
		w.at(time.Minute, func() {
			w.send(protocol.SignalClose, w.by(c.who, protocol.SignalClose, protocol.Close{}))
		})
		w.at(2*time.Minute, w.CancelWorkflow)
		w.startBy(c.who, c.opt)
		err := w.GetWorkflowError()
		if c.want && strings.Contains(fmt.Sprint(err), protocol.RefusedForbidden) || !c.want && !strings.Contains(fmt.Sprint(err), protocol.RefusedForbidden) {
			t.Errorf("%s with seed %q, pool %q, host %q: %v, want it allowed: %v", c.who, c.opt.Seed, c.opt.SeedPool, c.opt.Host, err, c.want)
		}
		if !c.want && len(w.asked) > 0 {
			t.Errorf("%s with seed %q, pool %q, host %q: it asked for %d leases", c.who, c.opt.Seed, c.opt.SeedPool, c.opt.Host, len(w.asked))
		}
	}
}

// Nobody learns what the store has of an id from a session that did not get the id.
func TestASessionWhoseIDIsSomebodyElsesTouchesNothingAndIsNobodys(t *testing.T) {
	w := newWorld(t)
	w.guard(team, "ann", "bob")
	w.foreign = map[string]bool{"s1": true}
	w.startBy("ann", session.Options{Tenant: "blue"})
	if err := w.GetWorkflowError(); err == nil || !strings.Contains(err.Error(), "somebody else's") || len(w.fake.prepared) > 0 {
		t.Errorf("it prepared %d hosts and ended with %v", len(w.fake.prepared), err)
	}
	if o := query[access.Object](w, protocol.QueryObject); !o.Unknown || o.Owner != "" || o.Tenant != "" {
		t.Errorf("conditions see %+v, want nothing known", o)
	}
}

// Workflows that began before there was an authority go on when their worker has one, and
// was told when that came.
func TestHistoriesOfBeforeAuthorityReplayOnAWorkerThatRequiresIt(t *testing.T) {
	for file, err := range replayedUnder(t, time.Now()) {
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// A database whose owner leaves out the marker of a run cannot pass it off as one of before.
func TestARunThatJudgesNoCommandsGoesOnOnlyIfItBeganBeforeTheyWereJudged(t *testing.T) {
	judged := 0
	for file, err := range replayedUnder(t, time.Time{}) {
		switch {
		case err == nil:
		case strings.Contains(err.Error(), "no worker that judges commands began this run"):
			judged++
		default:
			t.Errorf("%s: %v", file, err)
		}
		if err == nil && strings.Contains(file, "session") {
			t.Errorf("%s goes on", file)
		}
	}
	if judged == 0 {
		t.Error("all runs go on")
	}
}

// replayedUnder replays the histories of the first release, whose workers judged nothing, on
// a worker that takes signed commands only and lets runs of before a time go on.
func replayedUnder(t *testing.T, before time.Time) map[string]error {
	t.Helper()
	_, key := keyOf(t, "ann")
	a, err := access.Parse(fmt.Appendf(nil, "people:\n  - {name: ann, keys: [%q]}\nbindings:\n  - {name: all, roles: [viewer], to: [ann]}\n", key))
	if err != nil {
		t.Fatal(err)
	}
	all, err := releases(histories)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d releases, %v", len(all), err)
	}
	k := authority.Fixed(a, time.Now)
	k.AllowBefore(before)
	out := map[string]error{}
	for file, h := range readHistories(t, all[0]) {
		r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Interceptors: []interceptor.WorkerInterceptor{authority.Interceptor(k, authority.Options{})}, DisableDeadlockDetection: true})
		if err != nil {
			t.Fatal(err)
		}
		register(r, recordedWith(file))
		begun := h.Events[0].GetWorkflowExecutionStartedEventAttributes()
		out[file] = r.ReplayWorkflowHistoryWithOptions(quiet(), h, worker.ReplayWorkflowHistoryOptions{
			OriginalExecution: workflow.Execution{ID: begun.GetWorkflowId(), RunID: begun.GetOriginalExecutionRunId()},
		})
	}
	return out
}
