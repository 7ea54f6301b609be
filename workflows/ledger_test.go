package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/batch"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/schedule"
	"fairlead.dev/fairlead/workflows/session"
)

// fakeLedger is a store of audit records.
type fakeLedger struct {
	mu     sync.Mutex
	lines  []string
	writes int // activities, also those that failed, that wrote nothing but records
	away   bool
}

func (f *fakeLedger) WriteAudit(_ context.Context, in audit.Batch) (audit.Written, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.writes++; f.away {
		return audit.Written{}, errors.New("the store is away")
	}
	f.lines = append(f.lines, in.Lines...)
	return audit.Written{Entity: in.Entity, Seq: in.Last()}, nil
}

func (f *fakeLedger) set(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

// head asks the workflow for its newest record. All must be in the store.
func (w *world) head() *protocol.AuditHead {
	w.t.Helper()
	v := query[protocol.AuditView](w, protocol.QueryAudit)
	if v.Head == nil || len(v.Waiting) > 0 {
		w.t.Errorf("the workflow tells %+v of its records", v)
	}
	return v.Head
}

// giving sends an update that somebody signed for a workflow.
func (w *world) giving(who, id, name string, arg any) *updated {
	w.t.Helper()
	to := reflect.New(reflect.TypeOf(arg))
	if err := json.Unmarshal(w.byFor(who, id, name, arg), to.Interface()); err != nil {
		w.t.Fatal(err)
	}
	return w.send(name, to.Elem().Interface())
}

const annMayAll = "  - {name: all, roles: [admin], to: [ann]}\n"

func TestEachAcceptedCommandToAPoolIsOnRecordOnce(t *testing.T) {
	p := newPoolWorld(t)
	id := protocol.PoolID("")
	p.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: id})
	p.guard(annMayAll, "ann", "bob")
	p.at(time.Second, func() {
		p.takes(p.giving("ann", id, protocol.UpdatePutHost, put("web-1", 1)))
		p.refuses(p.giving("bob", id, protocol.UpdatePutHost, put("web-2", 1)), protocol.RefusedForbidden)
		p.refuses(p.send(protocol.UpdatePutHost, put("web-3", 1)), protocol.RefusedForbidden)
	})
	p.at(2*time.Second, func() {
		p.refuses(p.giving("ann", id, protocol.UpdateRemoveHost, protocol.RemoveHost{Name: "web-9"}), protocol.RefusedNotFound)
		p.takes(p.giving("ann", id, protocol.UpdateSetHost, protocol.SetHost{Name: "web-1", Slots: 3}))
		p.takes(p.giving("ann", id, protocol.UpdatePausePool, protocol.PausePool{Reason: "night"}))
	})
	p.at(3*time.Second, p.CancelWorkflow)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
	sameLines(t, says(recorded(t, p.ledger.lines, p.head())),
		`accepted host.write by "ann" (ssh_key signed) on pool/default`,
		`accepted host.write by "ann" (ssh_key signed) on pool/default`,
		`accepted host.write by "ann" (ssh_key signed) on pool/default`)
	if p.ledger.writes > 3 {
		t.Errorf("3 commands cost %d events", p.ledger.writes)
	}
}

func TestEachAcceptedCommandToASeedIsOnRecordBeforeItEnds(t *testing.T) {
	for what, signs := range map[string]bool{"signed": true, "of the user of the stack": false} {
		t.Run(what, func(t *testing.T) {
			p := newPoolWorld(t)
			id := protocol.SeedID("team")
			p.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: id})
			give := func(name string, arg any) *updated { return p.giving("ann", id, name, arg) }
			who, how := "ann", "ssh_key signed"
			if signs {
				p.guard(annMayAll, "ann")
			} else {
				p.keeps(nil)
				give = p.send
				who, how = audit.UnixUser(), "unix"
			}
			p.at(time.Second, func() {
				in := login("1")
				in.By = "mallory"
				p.takes(give(protocol.UpdatePutSeed, in))
			})
			p.at(2*time.Second, func() { p.takes(give(protocol.UpdateVerifySeed, protocol.VerifySeed{By: "mallory"})) })
			p.at(time.Minute, func() {
				p.ledger.set(true)
				p.takes(give(protocol.UpdateDeleteSeed, protocol.DeleteSeed{}))
			})
			p.at(3*time.Minute, func() { p.ledger.set(false) })
			p.ExecuteWorkflow(protocol.TypeSeed, newSeed)
			p.verify()
			line := fmt.Sprintf(`accepted seed.write by %q (%s) on seed/team`, who, how)
			sameLines(t, says(recorded(t, p.ledger.lines, p.head())), line, line, line)
		})
	}
}

func TestRecordsOfAPoolWaitWhileTheStoreIsAway(t *testing.T) {
	pool := func() *poolWorld {
		p := newPoolWorld(t)
		p.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: protocol.PoolID("")})
		p.keeps(nil)
		return p
	}
	waiting := func(p *poolWorld) int { return len(query[protocol.AuditView](p.world, protocol.QueryAudit).Waiting) }
	p := pool()
	p.ledger.away = true
	p.at(time.Second, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	p.at(time.Minute, func() {
		if n := waiting(p); n != 1 || p.ledger.writes != 1 {
			t.Errorf("%d records wait after %d attempts", n, p.ledger.writes)
		}
		p.ledger.set(false)
		p.takes(p.send(protocol.UpdatePutHost, put("web-2", 1))) // takes the other one along
	})
	p.at(2*time.Minute, func() {
		if n := waiting(p); n != 0 || len(p.ledger.lines) != 2 || p.ledger.writes != 2 {
			t.Errorf("%d records wait, and %d are in the store after %d attempts", n, len(p.ledger.lines), p.ledger.writes)
		}
		p.ledger.set(true)
		p.takes(p.send(protocol.UpdatePutHost, put("web-3", 1)))
	})
	p.at(3*time.Minute, func() { p.ledger.set(false) })
	p.at(time.Hour, func() {
		if n := waiting(p); n != 0 || len(p.ledger.lines) != 3 {
			t.Errorf("%d records wait, and %d are in the store, though it came back", n, len(p.ledger.lines))
		}
		p.ledger.set(true)
		p.takes(p.send(protocol.UpdatePutHost, put("web-4", 1)))
	})
	p.at(time.Hour+time.Second, func() {
		p.fill()
		p.SignalWorkflow(protocol.SignalRenew, protocol.Renew{})
	})
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
	in := carriedAs[hostpool.Input](t, p.continued())
	if n := len(in.Carry.Audit.Waiting); n != 1 {
		t.Fatalf("%d records are carried", n)
	}
	again := pool()
	again.SetContinuedExecutionRunID("the run before")
	again.at(time.Minute, func() {
		if n := waiting(again); n != 0 {
			t.Errorf("%d records wait in the next run", n)
		}
		again.takes(again.send(protocol.UpdatePutHost, put("web-5", 1)))
	})
	again.at(2*time.Minute, again.CancelWorkflow)
	again.ExecuteWorkflow(protocol.TypeHostPool, in)
	again.verify()
	got := recorded(t, append(p.ledger.lines, again.ledger.lines...), again.head())
	if len(got) != 5 {
		t.Errorf("%d records, want 5", len(got))
	}
}

func TestEachStartOfATaskIsOnRecordOnce(t *testing.T) {
	for name, verb := range map[string]string{
		protocol.TypeProvision: "host.write", protocol.TypeCheck: "host.write", protocol.TypeScan: "host.write", protocol.TypeExec: "host.exec",
		protocol.TypeCapture: "seed.write", protocol.TypeLogin: "seed.write", protocol.TypeRotate: "seed.write", protocol.TypeRecover: "seed.write",
		protocol.TypePrune: "snapshot.write", protocol.TypeCheckSnapshots: "snapshot.write",
	} {
		for _, how := range []string{"signed", "refused", "unsigned", "unsigned, while the store is away"} {
			w := &world{environment: newEnvironment(), t: t}
			id := "task/" + name
			w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: id})
			ran := false
			w.RegisterWorkflowWithOptions(func(workflow.Context, map[string]any) (string, error) { ran = true; return "", errors.New("it failed") }, workflow.RegisterOptions{Name: name})
			var arg any = map[string]any{"by": "mallory"}
			want, writes := []string{}, 0
			switch how {
			case "signed", "refused":
				w.guard(annMayAll, "ann")
				who := "ann"
				if how == "refused" {
					who = "mallory"
				} else {
					want = []string{fmt.Sprintf(`accepted %s by "ann" (ssh_key signed) on %s`, verb, id)} // goes along with the claim
				}
				arg = w.byFor(who, id, name, arg)
			default:
				w.keeps(nil)
				want, writes = []string{fmt.Sprintf(`accepted %s by %q (unix) on %s`, verb, audit.UnixUser(), id)}, 1
			}
			if how == "unsigned, while the store is away" {
				w.ledger.away, writes = true, 4
				w.RegisterDelayedCallback(func() { w.ledger.set(false) }, 2500*time.Millisecond)
			}
			w.ExecuteWorkflow(name, arg)
			if ran == (how == "refused") || w.GetWorkflowError() == nil {
				t.Errorf("%s, %s: it ran: %v", name, how, ran)
			}
			if len(want) == 0 {
				if len(w.ledger.lines) > 0 {
					t.Errorf("%s, %s: on record are %s", name, how, w.ledger.lines)
				}
				continue
			}
			sameLines(t, says(recorded(t, w.ledger.lines, w.head())), want...)
			if w.ledger.writes > writes {
				t.Errorf("%s, %s: %d activities wrote nothing but records", name, how, w.ledger.writes)
			}
		}
	}
}

func TestEachCommandToABatchIsOnRecordOnce(t *testing.T) {
	f := newFakeBatches(t)
	w := &world{environment: f.environment, t: t}
	w.guard("  - {name: ops, roles: [operator], to: [ann]}\n", "ann", "bob")
	f.start = func(_ int, in batches.StartItemsInput) (batches.StartItemsResult, error) {
		return startedItems(in), nil
	}
	id := protocol.BatchID("b")
	f.RegisterDelayedCallback(func() {
		w.ledger.set(true)
		f.SignalWorkflow(protocol.SignalCancelBatch, w.byFor("bob", id, protocol.SignalCancelBatch, protocol.CancelBatch{By: "ann"}))
		f.SignalWorkflow(protocol.SignalRetryBatch, w.byFor("ann", id, protocol.SignalRetryBatch, protocol.RetryBatch{}))
	}, time.Second)
	f.RegisterDelayedCallback(func() {
		f.SignalWorkflow(protocol.SignalCancelBatch, w.byFor("ann", id, protocol.SignalCancelBatch, protocol.CancelBatch{}))
	}, time.Minute)
	f.RegisterDelayedCallback(func() { w.ledger.set(false) }, 2*time.Minute)
	in := batch.Input{ID: "b", By: "mallory", Spec: protocol.BatchSpec{Total: 1, Window: 1, Pages: []protocol.BatchPages{{Blob: "p"}}}}
	f.ExecuteWorkflow(protocol.TypeBatch, w.byFor("ann", id, protocol.TypeBatch, in))
	var end batch.End
	if err := f.GetWorkflowResult(&end); err != nil {
		t.Fatal(err)
	}
	if a := end.State.Audit; a.Seq != 0 {
		t.Errorf("a retry would go on with the chain %+v", a)
	}
	sameLines(t, says(recorded(t, w.ledger.lines, w.head())),
		`accepted batch.run by "ann" (ssh_key signed) on batch/b`,
		`refused batch.run by "bob" (ssh_key signed) on batch/b`,
		`accepted batch.run by "ann" (ssh_key signed) on batch/b`,
		`accepted batch.run by "ann" (ssh_key signed) on batch/b`)
}

func TestWhatAScheduleStartsIsOnRecordAsWhoSignedIt(t *testing.T) {
	w := &world{environment: newEnvironment(), t: t}
	w.guard(annMayAll, "ann")
	var got batch.Input
	w.RegisterWorkflowWithOptions(schedule.Fire, workflow.RegisterOptions{Name: protocol.TypeFire})
	w.RegisterWorkflowWithOptions(func(_ workflow.Context, in batch.Input) (batch.End, error) {
		got = in
		return batch.End{View: protocol.BatchView{Total: 1, Done: 1}}, nil
	}, workflow.RegisterOptions{Name: protocol.TypeBatch})
	id := protocol.ScheduleID("nightly")
	w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: id + "-2026-05-04T12:00:00Z"})
	raw := w.byFor("ann", id, protocol.TypeFire, schedule.FireInput{Schedule: "nightly", Batch: &protocol.BatchSpec{Total: 1, Window: 1}})
	w.SetStartTime(w.Now().Add(365 * 24 * time.Hour)) // it was signed a year before
	w.ExecuteWorkflow(protocol.TypeFire, raw)
	if err := w.GetWorkflowError(); err != nil || got.Judged != "ann" {
		t.Fatalf("it began %+v: %v", got, err)
	}
	records := recorded(t, w.ledger.lines, w.head())
	sameLines(t, says(records), `accepted schedule.write by "ann" (ssh_key signed) on schedule/nightly`)
	if !strings.HasPrefix(records[0].Entity, id+"-2026-05-04T12:00:00Z/") {
		t.Errorf("it is in the chain of %s", records[0].Entity)
	}
	if w.ledger.writes > 0 {
		t.Errorf("it cost %d events", w.ledger.writes)
	}

	// The batch that it begins.
	f := newFakeBatches(t)
	b := &world{environment: f.environment, t: t}
	b.keeps(nil)
	f.start = func(_ int, in batches.StartItemsInput) (batches.StartItemsResult, error) {
		f.ends(protocol.SessionEnded{ID: "b-i0", State: protocol.Closed, Turn: wellDone})
		return startedItems(in), nil
	}
	got.ID, got.Spec.Pages = "b", []protocol.BatchPages{{Blob: "p"}}
	f.SetContinuedExecutionRunID("as a child, which the environment does not have")
	f.ExecuteWorkflow(protocol.TypeBatch, got)
	if err := f.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	sameLines(t, says(recorded(t, b.ledger.lines, nil)), `accepted batch.run by "ann" (workflow) on batch/b`)
}

// Sessions have chains of their own.
func TestTheStartOfASessionIsInNoOtherChain(t *testing.T) {
	w := newWorld(t)
	w.guard(team, "ann", "bob")
	w.at(time.Minute, func() { w.send(protocol.SignalClose, w.by("ann", protocol.SignalClose, protocol.Close{})) })
	w.startBy("ann", session.Options{Tenant: "blue"})
	if len(w.ledger.lines) > 0 {
		t.Errorf("a claim wrote %s", w.ledger.lines)
	}
	recorded(t, w.fake.records, w.lastView().Audit)
}

// A Schedule is written by ctl itself, so what a person does to one has a record of its own.
func TestWhatAPersonDoesToAScheduleIsOnRecordWithItsSignature(t *testing.T) {
	id := protocol.ScheduleActID("nightly", protocol.ScheduleDelete, "x1")
	act := func(bindings, who, signedFor string, in schedule.FireInput) *world {
		t.Helper()
		w := &world{environment: newEnvironment(), t: t}
		w.guard(bindings, "ann", "bob")
		w.RegisterWorkflowWithOptions(schedule.Fire, workflow.RegisterOptions{Name: protocol.TypeFire})
		w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: id})
		w.ExecuteWorkflow(protocol.TypeFire, w.byFor(who, signedFor, protocol.TypeFire, in))
		return w
	}
	in := schedule.FireInput{Schedule: "nightly", Act: protocol.ScheduleDelete, About: "not needed any more"}
	// A condition is about what the schedule begins, and holds when that begins.
	w := act("  - {name: ops, roles: [operator], to: [ann], when: 'tenant == \"blue\"'}\n", "ann", id, in)
	if err := w.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	records := recorded(t, w.ledger.lines, w.head())
	sameLines(t, says(records), `accepted schedule.write by "ann" (ssh_key signed) on schedule/nightly/delete-x1`)
	if r := records[0]; r.Reason != "delete: not needed any more" || !strings.HasPrefix(r.Entity, "schedule/nightly/") {
		t.Errorf("its record is %+v", r)
	}
	if w.ledger.writes > 0 {
		t.Errorf("it cost %d events", w.ledger.writes)
	}
	with := func(change func(*schedule.FireInput)) schedule.FireInput {
		other := in
		change(&other)
		return other
	}
	for what, c := range map[string]struct {
		who, signedFor, says string
		in                   schedule.FireInput
	}{
		"by a viewer":                  {"bob", id, "schedule.write", in},
		"the signature of another act": {"ann", protocol.ScheduleActID("nightly", protocol.SchedulePause, "x1"), "signature does not count", in},
		"signed for a firing":          {"ann", protocol.ScheduleID("nightly"), "signature does not count", in},
		"of no kind":                   {"ann", id, "the act is invalid", with(func(in *schedule.FireInput) { in.Act = "steal" })},
		"with a session":               {"ann", id, "session or a batch", with(func(in *schedule.FireInput) { in.Session = &session.Input{} })},
		"a text that is too long":      {"ann", id, "too long", with(func(in *schedule.FireInput) { in.About = strings.Repeat("a", protocol.MaxScheduleAbout+1) })},
	} {
		w := act(annMayAll+"  - {name: view, roles: [viewer], to: [bob]}\n", c.who, c.signedFor, c.in)
		if err := w.GetWorkflowError(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
