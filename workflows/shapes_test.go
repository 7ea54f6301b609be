package workflows

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/care"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/seed"
	"fairlead.dev/fairlead/workflows/session"
)

// A shape is a scenario of workflows. Its run returns the ids of the workflows whose
// histories are kept.
type shape struct {
	name string
	run  func(t *testing.T) (*real, []string)
}

// shapes are run on the real server.
var shapes = []shape{
	{"turn by update", inSession(session.Options{}, func(r *real, id string) {
		r.say(id, "m1", "hello")
		r.ended(id, "m1", "completed")
		r.becomes(id, protocol.Idle)
		r.close(id)
	})},
	{"turn by signal", inSession(session.Options{}, func(r *real, id string) {
		r.signal(protocol.SessionID(id), protocol.SignalMessage, protocol.Message{ID: "m1", Text: "hello"})
		r.until("the message is there", func() bool { return r.view(id).Turn != nil })
		r.ended(id, "m1", "completed")
		r.signal(protocol.SessionID(id), protocol.SignalClose, nil)
	})},
	{"approval accepted by update", inSession(session.Options{}, func(r *real, id string) {
		r.say(id, "m1", "ask make")
		r.becomes(id, protocol.Waiting)
		r.decide(id, 1, "accept", "")
		r.ended(id, "m1", "completed")
		r.close(id)
	})},
	{"approval declined by signal", inSession(session.Options{}, func(r *real, id string) {
		r.say(id, "m1", "ask make")
		r.becomes(id, protocol.Waiting)
		r.signal(protocol.SessionID(id), protocol.SignalDecide, map[string]any{"approval": "none"})
		r.signal(protocol.SessionID(id), protocol.SignalDecide, r.decision(id, 1, "decline", ""))
		r.ended(id, "m1", "completed")
		r.close(id)
	})},
	{"approval expired", inSession(session.Options{Expiry: time.Second}, func(r *real, id string) {
		r.say(id, "m1", "ask make")
		r.ended(id, "m1", "completed")
		r.close(id)
	})},
	{"accepted for the session", inSession(session.Options{}, func(r *real, id string) {
		r.say(id, "m1", "ask make")
		r.becomes(id, protocol.Waiting)
		r.decide(id, 1, "accept", "session")
		r.ended(id, "m1", "completed")
		r.say(id, "m2", "ask make test")
		r.becomes(id, protocol.Waiting)
		r.decide(id, 3, "accept", "")
		r.ended(id, "m2", "completed")
		r.close(id)
	})},
	{"interrupt", inSession(session.Options{}, func(r *real, id string) {
		r.say(id, "m1", "stay")
		r.until("a pump is attached", func() bool { return r.host.attached(id) })
		r.update(protocol.SessionID(id), protocol.SignalInterrupt, nil, protocol.Interrupt{By: "bob", Reason: "enough"})
		r.ended(id, "m1", "interrupted")
		r.close(id)
	})},
	{"steer", inSession(session.Options{}, func(r *real, id string) {
		r.say(id, "m1", "stay")
		r.until("a pump is attached", func() bool { return r.host.attached(id) })
		r.update(protocol.SessionID(id), protocol.SignalMessage, nil, protocol.Message{ID: "m2", Text: "faster", Mode: "steer"})
		r.until("the next pump is attached", func() bool {
			results, _ := r.host.pumps(id)
			return len(results) == 1 && r.host.attached(id)
		})
		r.update(protocol.SessionID(id), protocol.SignalInterrupt, nil, protocol.Interrupt{By: "bob"})
		r.ended(id, "m1", "interrupted")
		r.close(id)
	})},
	{"close while running", inSession(session.Options{}, func(r *real, id string) {
		r.say(id, "m1", "stay")
		r.until("a pump is attached", func() bool { return r.host.attached(id) })
		r.close(id)
	})},
	{"close while waiting", inSession(session.Options{}, func(r *real, id string) {
		r.say(id, "m1", "ask make")
		r.becomes(id, protocol.Waiting)
		r.close(id)
	})},
	{"process death and resume", inSession(session.Options{}, func(r *real, id string) {
		r.say(id, "m1", "die")
		r.ended(id, "m1", "interrupted")
		r.say(id, "m2", "hello")
		r.ended(id, "m2", "completed")
		r.close(id)
	})},
	{"process death and continue", inSession(session.Options{OnInterrupt: protocol.InterruptContinue}, func(r *real, id string) {
		r.say(id, "m1", "die")
		if turn := r.ended(id, "m1", "interrupted"); turn.FollowedBy != 2 {
			r.t.Errorf("the turn is %+v", turn)
		}
		r.ended(id, id+".c1", "completed")
		r.becomes(id, protocol.Idle)
		r.close(id)
	})},
	{"process death and fail", func(t *testing.T) (*real, []string) {
		r := newReal(t)
		r.work()
		id := r.session("s", session.Options{OnInterrupt: protocol.InterruptFail})
		r.say(id, "m1", "die")
		if _, err := r.result(id); typeOf(err) != "process_exit" {
			t.Errorf("session ended with %v", err)
		}
		if v := r.view(id); v.State != protocol.Failed || v.Turn.Status != "interrupted" || v.Close == nil || !v.Close.Removed {
			t.Errorf("session is %+v", v)
		}
		return r, []string{protocol.SessionID(id)}
	}},
	{"decisions that a process took with it", inSession(session.Options{OnInterrupt: protocol.InterruptContinue}, func(r *real, id string) {
		r.say(id, "m1", "ask make")
		r.becomes(id, protocol.Waiting)
		r.host.kill(id, protocol.Decided)
		r.decide(id, 1, "accept", "") // never reaches codex, so the next process gets it
		r.ended(id, "m1", "interrupted")
		r.ended(id, id+".c1", "completed")
		r.say(id, "m2", "ask test")
		r.becomes(id, protocol.Waiting)
		r.host.kill(id, protocol.Sent)
		r.decide(id, 3, "accept", "") // may have had its effect, so codex asks again
		r.ended(id, "m2", "interrupted")
		r.until("it is asked anew", func() bool { return len(r.view(id).Requests) == 1 })
		for n, want := range []string{"void", "acknowledged decided", "sent", "open sent"} {
			a := r.approval(id, n+1)
			got := string(a.State)
			if a.Earlier != nil {
				got += " " + string(a.Earlier.State)
			}
			if got != want {
				r.t.Errorf("approval %s is %s, want %s", a.ID, got, want)
			}
		}
		r.decide(id, 4, "accept", "session")
		r.ended(id, id+".c2", "completed")
		r.close(id)
	})},
	{"a grant outlives its process", inSession(session.Options{}, func(r *real, id string) {
		r.say(id, "m1", "ask make")
		r.becomes(id, protocol.Waiting)
		r.host.kill(id, protocol.Sent)
		r.decide(id, 1, "accept", "session")
		r.ended(id, "m1", "interrupted")
		r.say(id, "m2", "ask make")
		r.ended(id, "m2", "completed")
		if a := r.approval(id, 2); a.State != protocol.ApprovalAcknowledged || a.Decision.Scope != "session" || a.Earlier == nil || a.Earlier.State != protocol.ApprovalSent {
			r.t.Errorf("the second approval is %+v, earlier %+v", a, a.Earlier)
		}
		r.close(id)
	})},
	{"parks and comes back", inSession(session.Options{ParkAfter: time.Second}, func(r *real, id string) {
		r.say(id, "m1", "hello")
		r.ended(id, "m1", "completed")
		r.becomes(id, protocol.Parked)
		r.say(id, "m2", "hello")
		r.ended(id, "m2", "completed")
		r.becomes(id, protocol.Parked)
		r.close(id)
	})},
	{"a lost host", loseHost},
	{"a lost host with calm watches", loseHost}, // recorded since pools have them
	{"budget", inSession(session.Options{Bounds: protocol.Bounds{Tokens: 1000}}, func(r *real, id string) {
		r.say(id, "m1", "stay")
		r.until("a pump is attached", func() bool { return r.host.attached(id) })
		r.update(protocol.SessionID(id), protocol.SignalBudget, nil, protocol.Budget{By: "bob", Tokens: tokens(50), TurnTimeout: "1h"})
		r.until("the next pump is attached", func() bool { results, _ := r.host.pumps(id); return len(results) == 1 && r.host.attached(id) })
		if l := r.host.bounds(id); len(l) != 2 || l[0].Budget.Tokens != 1000 || l[1].Budget.Tokens != 50 || l[1].Turn > time.Hour {
			r.t.Errorf("the pumps had the bounds %+v", l)
		}
		r.update(protocol.SessionID(id), protocol.SignalInterrupt, nil, protocol.Interrupt{By: "bob"})
		r.ended(id, "m1", "interrupted")
		r.say(id, "m2", "spend 60")
		if turn := r.ended(id, "m2", "interrupted"); turn.Error == nil || turn.Error.Kind != "budget" {
			r.t.Errorf("the turn is %+v", turn)
		}
		if err := r.tryUpdate(protocol.SessionID(id), protocol.SignalMessage, nil, protocol.Message{ID: "m3", Text: "hello"}); typeOf(err) != protocol.RefusedBudget {
			r.t.Errorf("a message over the budget was answered %v", err)
		}
		r.signal(protocol.SessionID(id), protocol.SignalBudget, protocol.Budget{Tokens: tokens(0)})
		r.until("the budget is gone", func() bool { return r.view(id).Budget.Tokens.Limit == 0 })
		r.say(id, "m3", "hello")
		r.ended(id, "m3", "completed")
		r.close(id)
	})},
	{"failed turn that ends its session", inSession(session.Options{CloseAfter: true}, func(r *real, id string) {
		r.say(id, "m1", "fail")
		if v, err := r.result(id); err != nil || v.State != protocol.Closed {
			r.t.Errorf("session ended as %+v (%v)", v, err)
		}
	})},
	{"worker lost on the way", func(t *testing.T) (*real, []string) {
		r := newReal(t)
		stop := r.work()
		id := r.session("s", session.Options{})
		r.say(id, "m1", "ask make")
		r.becomes(id, protocol.Waiting)
		yes := r.decision(id, 1, "accept", "")
		stop()
		r.signal(protocol.SessionID(id), protocol.SignalDecide, yes)
		r.work()
		r.ended(id, "m1", "completed")
		r.close(id)
		return r, []string{protocol.SessionID(id)}
	}},
	{"prepare failure", func(t *testing.T) (*real, []string) {
		r := newReal(t)
		r.host.bad["s"] = finally(protocol.ErrTypeCodexMissing)
		r.work()
		id := r.session("s", session.Options{})
		if _, err := r.result(id); typeOf(err) != protocol.ErrTypeCodexMissing {
			t.Errorf("session ended with %v", err)
		}
		return r, []string{protocol.SessionID(id)}
	}},
	{"unknown host", func(t *testing.T) (*real, []string) {
		r := newReal(t)
		r.work()
		id := r.zone + ".s"
		r.start(protocol.SessionID(id), protocol.TypeSession, session.Input{ID: id, Options: session.Options{Zone: r.zone, Host: "nowhere"}})
		if _, err := r.result(id); typeOf(err) != "host_not_found" {
			t.Errorf("session ended with %v", err)
		}
		return r, []string{protocol.SessionID(id)}
	}},
	{"cancelled workflow", inSession(session.Options{}, func(r *real, id string) {
		if err := r.c.CancelWorkflow(r.t.Context(), protocol.SessionID(id), ""); err != nil {
			r.t.Fatal(err)
		}
		if v, err := r.result(id); err != nil || v.State != protocol.Closed {
			r.t.Errorf("session ended as %+v (%v)", v, err)
		}
	})},
	{"rollover", func(t *testing.T) (*real, []string) {
		r := newReal(t, shortRuns)
		r.work()
		id := r.session("s", session.Options{})
		r.say(id, "m0", "ask make test")
		r.becomes(id, protocol.Waiting)
		for i := 1; i <= 12; i++ {
			r.signal(protocol.SessionID(id), protocol.SignalMessage, protocol.Message{ID: fmt.Sprint("m", i), Text: "hello"})
		}
		r.decide(id, 1, "accept", "")
		r.decide(id, 2, "accept", "")
		r.ended(id, "m12", "completed")
		r.close(id)
		return r, []string{protocol.SessionID(id)}
	}},
	{"pool and seed", func(t *testing.T) (*real, []string) {
		r := newReal(t, shortRuns)
		r.looksOften()
		r.work()
		name := r.zone + "-team"
		r.start(protocol.SeedID(name), protocol.TypeSeed, seed.Input{Name: name})
		r.update(protocol.SeedID(name), protocol.UpdatePutSeed, nil, protocol.PutSeed{Name: name, Ref: protocol.SeedRef{Blob: "seeds/" + name + "/b1", Digest: "d", Kind: "chatgpt"}})
		yes, no := true, false
		r.update(protocol.PoolID(r.zone), protocol.UpdateSetHost, nil, protocol.SetHost{Name: "web-1", Cordon: &yes})
		var ids []string
		for i := range 6 {
			id := r.session(fmt.Sprint("s", i), session.Options{Seed: name, CloseAfter: i > 0})
			r.say(id, "m1", "hello")
			ids = append(ids, id)
		}
		r.update(protocol.PoolID(r.zone), protocol.UpdateSetHost, nil, protocol.SetHost{Name: "web-1", Cordon: &no})
		r.ended(ids[0], "m1", "completed")
		if err := r.c.TerminateWorkflow(t.Context(), protocol.SessionID(ids[0]), "", "for the record"); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids[1:] {
			if _, err := r.result(id); err != nil {
				t.Error(err)
			}
		}
		r.until("nobody holds the seed", func() bool {
			return len(asked[protocol.SeedView](r, protocol.SeedID(name), protocol.QuerySeed).HeldBy) == 0
		})
		r.until("what the terminated one left is wiped", func() bool {
			h := asked[protocol.HostView](r, protocol.PoolID(r.zone), protocol.QueryHost, "web-1")
			return h.Unclean == 0 && slices.ContainsFunc(h.Leftovers, func(l protocol.Leftover) bool { return l.Session == ids[0] }) // on a slow machine, others may be found, too
		})
		r.update(protocol.PoolID(r.zone), protocol.UpdateRemoveHost, nil, protocol.RemoveHost{Name: "web-1"})
		r.update(protocol.SeedID(name), protocol.UpdateDeleteSeed, nil, protocol.DeleteSeed{Purge: true})
		if err := r.c.GetWorkflow(t.Context(), protocol.SeedID(name), "").Get(t.Context(), nil); err != nil {
			t.Error(err)
		}
		r.until("nobody watches the host, and the pool rests", func() bool {
			d, err := r.c.DescribeWorkflowExecution(t.Context(), protocol.PoolID(r.zone), "")
			if err != nil {
				t.Fatal(err)
			}
			return r.host.watched() == 0 && d.PendingWorkflowTask == nil && len(d.PendingActivities) == 0
		})
		return r, []string{protocol.PoolID(r.zone), protocol.SeedID(name), protocol.SessionID(ids[5])}
	}},
	{"logins of a pool", func(t *testing.T) (*real, []string) {
		r := newReal(t, shortRuns)
		r.looksOften()
		r.work()
		a, b := r.makesSeed("a", "logins"), r.makesSeed("b", "logins")
		pool := r.zone + "-logins"
		r.until("the pool knows both", func() bool { return len(r.pool(pool).Seeds) == 2 })
		var ids []string
		for i := range 2 {
			ids = append(ids, r.session(fmt.Sprint("s", i), session.Options{SeedPool: pool}))
			r.becomes(ids[i], protocol.Idle)
		}
		next := r.session("next", session.Options{SeedPool: pool})
		r.until("the third waits", func() bool { return strings.Contains(r.view(next).Waits, "of which no seed is free") })
		killed := ids[0]
		name := r.view(killed).Seed
		epoch := r.seed(name).Epoch
		r.update(protocol.SeedID(name), protocol.UpdateRotatedSeed, nil, inquiry.RotatedSeed{Holder: killed, Epoch: epoch, Auth: "auth2"})
		r.update(protocol.SeedID(name), protocol.UpdateSaveSeed, nil, saves(killed, epoch, 1, "2"))
		r.terminate(killed)
		r.becomes(next, protocol.Idle)
		if v := r.view(next); v.Seed != name {
			t.Errorf("the third has %s, want %s", v.Seed, name)
		}
		r.signal(protocol.SeedID(name), lease.SignalReport, lease.Report{Holder: next, Epoch: r.seed(name).Epoch, Verdict: lease.VerdictSuspect, Reason: "401"})
		r.until("it is suspect", func() bool { return r.seed(name).Health == protocol.Suspect })
		r.update(protocol.SeedID(name), protocol.UpdateReviveSeed, nil, protocol.ReviveSeed{By: "bob"})
		r.close(next)
		r.close(ids[1])
		for _, s := range []string{a, b} {
			r.until("the login is free", func() bool { return r.seed(s).State == protocol.SeedFree })
			r.update(protocol.SeedID(s), protocol.UpdateDeleteSeed, nil, protocol.DeleteSeed{})
		}
		if err := r.c.GetWorkflow(t.Context(), protocol.SeedPoolID(pool), "").Get(t.Context(), nil); err != nil {
			t.Error(err)
		}
		return r, []string{protocol.SeedPoolID(pool), protocol.SeedID(name), protocol.SessionID(next)}
	}},
	{"host tasks", func(t *testing.T) (*real, []string) {
		r := newReal(t)
		r.work()
		spec := put("web-1", 1).Spec
		ids := []string{}
		for kind, in := range map[string]any{
			protocol.TypeProvision: protocol.HostTaskInput{Zone: r.zone, Host: spec}, protocol.TypeCheck: protocol.HostTaskInput{Zone: r.zone, Host: spec},
			protocol.TypeExec: protocol.ExecInput{ID: "e1", Host: spec, Argv: []string{"true"}}, protocol.TypeScan: protocol.ScanHostKeysInput{Host: spec},
			protocol.TypeRotate: protocol.RotateKeysInput{}, protocol.TypeRecover: protocol.RecoverInput{},
		} {
			id := protocol.HostTaskID(r.zone, kind)
			r.start(id, kind, in)
			ids = append(ids, id)
		}
		for _, id := range ids {
			if err := r.c.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		r.until("the pool knows", func() bool {
			h := asked[protocol.HostView](r, protocol.PoolID(r.zone), protocol.QueryHost, "web-1")
			return h.State == "ready" && h.Codex == "0.169.0"
		})
		return r, ids
	}},
	{"batch", func(t *testing.T) (*real, []string) {
		r := newBatches(t, shortRuns)
		id := r.batchID("b")
		r.host.bad[id+"-i1"] = finally(protocol.ErrTypeNoSpace) // so that the second try is another session
		r.work()
		texts := repeated(30, "hello")
		texts[4] = "die"
		r.batch("b", protocol.BatchSpec{Window: 3, Retry: protocol.BatchRetry{Attempts: 2, Wait: time.Millisecond}}, texts...)
		end := r.batchEnd(id)
		if v := end.View; v.State != protocol.BatchDone || v.Done != 29 || v.Failed != 1 || v.Tries != 31 {
			t.Errorf("the batch is %+v", v)
		}
		if n := len(r.runs(protocol.BatchID(id))); n < 2 {
			t.Errorf("the batch had %d runs", n)
		}
		return r, []string{protocol.BatchID(id), protocol.SessionID(id + "-i1.t2")}
	}},
	{"seeds from hosts", func(t *testing.T) (*real, []string) {
		r := newReal(t)
		r.work()
		spec := put("web-1", 1).Spec
		var ids []string
		for name, start := range map[string]func(name, id string){
			"captured": func(name, id string) {
				r.start(id, protocol.TypeCapture, seed.CaptureSeedInput{Name: name, Zone: r.zone, Host: spec, Move: true, By: "bob"})
			},
			"logged": func(name, id string) {
				r.start(id, protocol.TypeLogin, seed.LoginSeedInput{ID: "login-1", Name: name, Host: spec, By: "bob"})
			},
		} {
			name := r.zone + "-" + name
			r.start(protocol.SeedID(name), protocol.TypeSeed, seed.Input{Name: name}) // on this zone's task queue
			id := protocol.HostTaskID(r.zone, name)
			start(name, id)
			var out seed.CaptureSeedResult
			if err := r.c.GetWorkflow(t.Context(), id, "").Get(t.Context(), &out); err != nil || !out.Moved || out.Problem != nil {
				t.Errorf("%s came to %+v (%v)", id, out, err)
			}
			if v := r.seed(name); v.State != protocol.SeedFree {
				t.Errorf("the seed is %+v", v)
			}
			ids = append(ids, id)
		}
		return r, ids
	}},
	{"a key is claimed", func(t *testing.T) (*real, []string) {
		r := newReal(t)
		r.work()
		id := protocol.KeyID(r.zone)
		r.start(id, protocol.TypeClaimKey, protocol.KeyClaim{Kind: protocol.ClaimSession, ID: "s", Request: "digest of what was asked for"})
		if err := r.c.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil); err != nil {
			t.Error(err)
		}
		return r, []string{id}
	}},
	{"a session starts another one", func(t *testing.T) (*real, []string) {
		r := newReal(t)
		r.work()
		id := r.session("s", session.Options{Children: &protocol.Children{Max: 1}})
		r.say(id, "m1", "lead hello")
		r.ended(id, "m1", "completed")
		child := r.view(id).Children[0]
		if child.Outcome != protocol.ChildCompleted || !strings.HasPrefix(child.Session, id+"-child-1-") {
			t.Errorf("its child is %+v", child)
		}
		r.close(id)
		return r, []string{protocol.SessionID(id)}
	}},
	{"calls of a tool", func(t *testing.T) (*real, []string) {
		r := newReal(t)
		r.work()
		r.teamWorks()
		var ids []string
		for _, of := range []string{"answers", "refuses"} {
			id, _ := r.callTool(of, protocol.ToolActivity{}, time.Minute)
			ids = append(ids, id)
		}
		return r, ids
	}},
	{"an outbox", func(t *testing.T) (*real, []string) {
		r := newReal(t, shortRuns)
		r.work()
		id := r.outboxOf()
		dropped := told("e1", "quiet", "ann")
		dropped.State, dropped.Reason = protocol.NoticeSuppressed, "quiet hours"
		r.host.tells(told("e1", "chat", "ann"), told("e1", "refuses", "ann"), told("e1", "dies", "ann"), told("e1", "late", "ann"), told("e1", "busy", "ann"), dropped)
		for i := range 8 {
			var acc protocol.TestNotifyAccepted
			r.update(id, protocol.UpdateTestNotify, &acc, protocol.TestNotify{ID: fmt.Sprint("t", i), To: "ann"})
			r.until("the test is sent", func() bool {
				v := asked[protocol.NoticesView](r, id, protocol.QueryNotices, protocol.NoticesQuery{Key: acc.Key, State: protocol.NoticeSent})
				return len(v.Notices) == 1
			})
		}
		r.until("the outbox continued as new", func() bool { return len(r.runs(id)) > 1 })
		r.until("all that was found is done", func() bool {
			v := asked[protocol.NoticesView](r, id, protocol.QueryNotices, protocol.NoticesQuery{})
			return v.Totals[protocol.NoticeFailed] == 1 && v.Totals[protocol.NoticeUnknown] == 1 && v.Totals[protocol.NoticeSuppressed] == 2
		})
		if err := r.c.TerminateWorkflow(t.Context(), id, "", "for the record"); err != nil {
			t.Fatal(err)
		}
		return r, []string{id}
	}},
	{"snapshots are checked", storeTask(protocol.TypeCheckSnapshots, protocol.CheckSnapshotsInput{ReadData: true})},
	{"snapshots are pruned", storeTask(protocol.TypePrune, protocol.PruneSnapshotsInput{Session: "s", Keep: 2, MaxAge: time.Hour, DryRun: true})},
	{"maintenance of seeds", storeTask(protocol.TypeMaintenance, care.MaintenanceInput{})},
	{"maintenance of snapshots", storeTask(protocol.TypeMaintenance, care.MaintenanceInput{Snapshots: true}, protocol.PruneSnapshotsID)},
	{"maintenance of the store", storeTask(protocol.TypeMaintenance, care.MaintenanceInput{Store: true})},
	{"maintenance of leftovers", storeTask(protocol.TypeMaintenance, care.MaintenanceInput{Leftovers: true, Zone: "north"})},
	{"maintenance of hosts", func(t *testing.T) (*real, []string) {
		r := newReal(t)
		r.work()
		id := protocol.HostTaskID(r.zone, "maintenance")
		r.start(id, protocol.TypeMaintenance, care.MaintenanceInput{Hosts: time.Hour, Zone: r.zone})
		var out care.MaintenanceResult
		if err := r.c.GetWorkflow(t.Context(), id, "").Get(t.Context(), &out); err != nil || out.Hosts == nil || len(out.Hosts.Begun) != 1 || len(out.Problems) > 0 {
			t.Errorf("it came to %+v (%v)", out, err)
		}
		r.until("the pool knows", func() bool {
			return asked[protocol.HostView](r, protocol.PoolID(r.zone), protocol.QueryHost, "web-1").Codex == "0.169.0"
		})
		return r, []string{id}
	}},
	{"a firing", func(t *testing.T) (*real, []string) {
		r := newReal(t)
		r.work()
		s := r.schedule("daily", "hello", nil)
		s.trigger(enums.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED)
		fire, _ := s.fired(1)
		if out, err := s.ends(fire); err != nil || out.State != string(protocol.Closed) || out.Status != "completed" {
			t.Errorf("it ended as %+v (%v)", out, err)
		}
		return r, []string{fire.WorkflowID}
	}},
	{"a firing that is cancelled", func(t *testing.T) (*real, []string) {
		r := newReal(t)
		r.work()
		s := r.schedule("busy", "stay", nil)
		s.trigger(enums.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED)
		fire, id := s.fired(1)
		s.isBusy(id)
		if err := r.c.CancelWorkflow(t.Context(), fire.WorkflowID, fire.FirstExecutionRunID); err != nil {
			t.Fatal(err)
		}
		if out, err := s.ends(fire); err == nil {
			t.Errorf("it ended as %+v", out)
		}
		return r, []string{fire.WorkflowID}
	}},
}

// storeTask makes a shape of one short workflow. The histories of the workflows in others
// are kept with that workflow's own.
func storeTask(kind string, in any, others ...string) func(t *testing.T) (*real, []string) {
	return func(t *testing.T) (*real, []string) {
		r := newReal(t)
		r.work()
		id := protocol.HostTaskID(r.zone, "task")
		r.start(id, kind, in)
		if err := r.c.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		return r, append([]string{id}, others...)
	}
}

// inSession makes a shape in which do acts on one session.
func inSession(opt session.Options, do func(r *real, id string)) func(t *testing.T) (*real, []string) {
	return func(t *testing.T) (*real, []string) {
		r := newReal(t)
		r.work()
		id := r.session("s", opt)
		r.becomes(id, protocol.Idle)
		do(r, id)
		if _, err := r.result(id); err != nil {
			t.Errorf("the session ended with %v", err)
		}
		return r, []string{protocol.SessionID(id)}
	}
}

func loseHost(t *testing.T) (*real, []string) {
	r := newReal(t)
	r.work()
	id := r.losesItsHost(session.Options{OnHostLost: protocol.HostLostMove, OnInterrupt: protocol.InterruptContinue})
	r.ended(id, id+".c1", "interrupted")
	r.close(id)
	return r, []string{protocol.PoolID(r.zone), protocol.SessionID(id)}
}
