package authority

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
)

// keeps has a ledger. One of its updates answers at once, one fails, and one waits first.
func keeps(ctx workflow.Context, _ string) error {
	var chain audit.Chain
	l := Record(ctx, &chain)
	for name, then := range map[string]func(workflow.Context) error{
		protocol.UpdateReviveSeed: func(workflow.Context) error { return nil },
		protocol.UpdateSetSeed:    func(workflow.Context) error { return errors.New("it fails") },
		protocol.UpdateVerifySeed: func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Millisecond) },
	} {
		if err := workflow.SetUpdateHandler(ctx, name, func(ctx workflow.Context, _ protocol.ReviveSeed) (string, error) {
			return "done", then(ctx)
		}); err != nil {
			return err
		}
	}
	l.Keep()
	workflow.GetSignalChannel(ctx, protocol.SignalMessage).Receive(ctx, nil)
	return nil
}

// keeping runs a worker of keeps, whose store takes records at once or not.
func (s *stage) keeping(soon bool) worker.Worker {
	s.t.Helper()
	w := worker.New(s.ours, "ours", worker.Options{Interceptors: []interceptor.WorkerInterceptor{Interceptor(s.keeper, Options{
		Store: func(b audit.Batch) bool {
			if soon {
				s.write(b)
			}
			return soon
		},
	})}})
	w.RegisterWorkflowWithOptions(keeps, workflow.RegisterOptions{Name: "keeps"})
	w.RegisterActivityWithOptions(func(_ context.Context, b audit.Batch) (audit.Written, error) {
		return audit.Written{Entity: b.Entity, Seq: s.write(b)}, nil
	}, activity.RegisterOptions{Name: protocol.ActivityWriteAudit})
	s.start(w)
	return w
}

// markers counts the recorded values and local activities of a workflow.
func (s *stage) markers(id string) (n int) {
	s.t.Helper()
	for _, ev := range s.history(id, "") {
		if ev.GetEventType() == enums.EVENT_TYPE_MARKER_RECORDED {
			n++
		}
	}
	return n
}

func (s *stage) chain(id string) (v protocol.AuditView) {
	s.t.Helper()
	s.ask(id, protocol.QueryAudit, &v)
	return v
}

// commands gives the three updates, and returns how many events each recorded beside its own.
func (s *stage) commands(id string) (costs map[string]int) {
	s.t.Helper()
	costs = map[string]int{}
	s.chain(id) // so that the workflow has begun
	for name, fails := range map[string]bool{protocol.UpdateReviveSeed: false, protocol.UpdateSetSeed: true, protocol.UpdateVerifySeed: false} {
		before := s.markers(id)
		_, err := update(s.ctx, s.thief, id, name, s.signed(id, name, protocol.ReviveSeed{}))
		if (err != nil) != fails {
			s.t.Fatalf("%s: %v", name, err)
		}
		s.until("the record of "+name+" is in the store", func() bool { h := s.chain(id).Head; return h != nil && h.Waiting == 0 })
		costs[name] = s.markers(id) - before
	}
	return costs
}

// holding verifies the records that the store has of a workflow.
func (s *stage) holding(id string) []audit.Record {
	s.t.Helper()
	s.mu.Lock()
	lines := slices.Clone(s.records)
	s.mu.Unlock()
	logs, fault := audit.Sort(lines)
	i := slices.IndexFunc(logs, func(l audit.Log) bool { return l.Records[0].Object == id })
	if fault != nil || i < 0 {
		s.t.Fatalf("%d chains, %v", len(logs), fault)
	}
	if fault := logs[i].Verify(s.chain(id).Head); fault != nil {
		s.t.Error(fault)
	}
	return logs[i].Records
}

func TestACommandCostsOneEventAtMostAlsoIfItWaitsOrFails(t *testing.T) {
	s := newStage(t)
	s.begin(s.ours, "seed/cost", "keeps", "in")
	w := s.keeping(true)
	for name, n := range s.commands("seed/cost") {
		if n != 1 {
			t.Errorf("%s recorded %d events", name, n)
		}
	}
	s.stop(w)
	defer s.stop(s.keeping(true)) // which replays all
	outcomes := map[string]int{}
	for _, r := range s.holding("seed/cost") {
		outcomes[r.Outcome]++
		if r.Access != s.keeper.Current().Digest {
			t.Errorf("record %d, %s, was judged by %q", r.Seq, r.Evidence.Message, r.Access)
		}
	}
	if outcomes[audit.Accepted] != 2 || outcomes[audit.Refused] != 1 {
		t.Errorf("on record are %v", outcomes)
	}
}

func TestARecordThatTheStoreDoesNotTakeAtOnceIsWrittenByAnActivity(t *testing.T) {
	s := newStage(t)
	s.begin(s.ours, "seed/slow", "keeps", "in")
	w := s.keeping(false)
	for name, n := range s.commands("seed/slow") {
		if want := map[string]int{protocol.UpdateReviveSeed: 1, protocol.UpdateSetSeed: 2, protocol.UpdateVerifySeed: 2}[name]; n != want {
			t.Errorf("%s recorded %d events, want %d", name, n, want)
		}
	}
	s.stop(w)
	defer s.stop(s.keeping(true)) // the values in the history say what is done, not this store
	if all := s.holding("seed/slow"); len(all) != 3 {
		t.Errorf("%d records", len(all))
	}
}
