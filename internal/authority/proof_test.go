package authority

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

// counts counts its updates by name. One answers at once, one fails, and one waits first.
func counts(ctx workflow.Context, _ string) error {
	n := map[string]int{}
	if err := workflow.SetQueryHandler(ctx, "counted", func() (map[string]int, error) { return n, nil }); err != nil {
		return err
	}
	for name, then := range map[string]func(workflow.Context) error{
		protocol.UpdateReviveSeed: func(workflow.Context) error { return nil },
		protocol.UpdateSetSeed:    func(workflow.Context) error { return errors.New("it fails") },
		protocol.UpdateVerifySeed: func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Millisecond) },
	} {
		if err := workflow.SetUpdateHandler(ctx, name, func(ctx workflow.Context, _ protocol.ReviveSeed) (string, error) {
			n[name]++
			return "counted", then(ctx)
		}); err != nil {
			return err
		}
	}
	workflow.GetSignalChannel(ctx, protocol.SignalMessage).Receive(ctx, nil)
	return nil
}

func (s *stage) counting(name string) (w worker.Worker) {
	s.t.Helper()
	c, interceptors := s.ours, true
	if name == "thief" {
		c, interceptors = s.thief, false
	}
	var opts worker.Options
	if interceptors {
		opts.Interceptors = append(opts.Interceptors, Interceptor(s.keeper, Options{}))
	}
	w = worker.New(c, "ours", opts)
	w.RegisterWorkflowWithOptions(counts, workflow.RegisterOptions{Name: "counts"})
	s.start(w)
	return w
}

func (s *stage) stop(w worker.Worker) {
	w.Stop()
	worker.PurgeStickyWorkflowCache()
}

func (s *stage) counted(id string) (n map[string]int) {
	s.t.Helper()
	s.ask(id, "counted", &n)
	return n
}

func TestAReplayTakesAnUpdateThatAWorkerOfOursAccepted(t *testing.T) {
	s := newStage(t)
	s.begin(s.ours, "seed/a", "counts", "in")
	w := s.counting("ours")
	for name, fails := range map[string]bool{protocol.UpdateReviveSeed: false, protocol.UpdateSetSeed: true, protocol.UpdateVerifySeed: false} {
		_, err := update(s.ctx, s.ours, "seed/a", name, s.signed("seed/a", name, protocol.ReviveSeed{}))
		if (err != nil) != fails {
			t.Fatalf("%s: %v", name, err)
		}
	}
	s.stop(w)
	defer s.stop(s.counting("ours"))
	want := map[string]int{protocol.UpdateReviveSeed: 1, protocol.UpdateSetSeed: 1, protocol.UpdateVerifySeed: 1}
	if got := s.counted("seed/a"); !maps.Equal(got, want) {
		t.Errorf("after a replay it has counted %v, not %v", got, want)
	}
}

func TestAnUpdateThatIsAnsweredAtOnceCostsNoEventMore(t *testing.T) {
	s := newStage(t)
	s.begin(s.ours, "seed/b", "counts", "in")
	defer s.stop(s.counting("ours"))
	if _, err := update(s.ctx, s.ours, "seed/b", protocol.UpdateReviveSeed, s.signed("seed/b", protocol.UpdateReviveSeed, protocol.ReviveSeed{})); err != nil {
		t.Fatal(err)
	}
	for _, ev := range s.history("seed/b", "") {
		if ev.GetEventType() == enums.EVENT_TYPE_MARKER_RECORDED {
			t.Errorf("it recorded %v", ev)
		}
	}
}

func TestAnUpdateThatAStrangersWorkerAcceptedDoesNotCount(t *testing.T) {
	s := newStage(t)
	for _, name := range []string{protocol.UpdateReviveSeed, protocol.UpdateSetSeed, protocol.UpdateVerifySeed} {
		id := "seed/" + name
		evil := s.counting("thief")
		s.begin(s.ours, id, "counts", "in")
		if _, err := update(s.ctx, s.thief, id, name, protocol.ReviveSeed{By: "ann"}); err != nil && name != protocol.UpdateSetSeed {
			t.Fatal(err)
		}
		s.stop(evil)
		w := s.counting("ours")
		s.signal(s.thief, id, protocol.SignalMessage, "end")
		s.refusesTasks(id, "no worker of ours accepted it")
		s.stop(w)
	}
}

func (s *stage) says(ev *historypb.HistoryEvent, text string) bool {
	f := ev.GetWorkflowTaskFailedEventAttributes().GetFailure()
	return f != nil && strings.Contains(payload.NewCodec("default", s.key).Message(f), text)
}

func (s *stage) refusesTasks(id, text string) {
	s.t.Helper()
	s.until("a worker of ours refuses the task of "+id, func() bool {
		for _, ev := range s.history(id, "") {
			if ev.GetEventType() == enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED {
				s.t.Fatalf("%s went on to its end", id)
			}
			if s.says(ev, text) {
				return true
			}
		}
		return false
	})
}

func TestAResetDoesNotRunASignedStartAgain(t *testing.T) {
	s := newStage(t)
	defer s.stop(s.work(s.ours))
	in := protocol.ExecInput{ID: "e", Host: protocol.HostSpec{Name: "web-1"}, Argv: []string{"true"}}
	run := s.begin(s.thief, "exec/again", protocol.TypeExec, s.signed("exec/again", protocol.TypeExec, in))
	if err := run.Get(s.ctx, nil); err != nil || s.exec.Load() != 1 {
		t.Fatalf("it ran %d times, %v", s.exec.Load(), err)
	}
	var last int64
	for _, ev := range s.history("exec/again", "") {
		if ev.GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			last = ev.GetEventId()
		}
	}
	_, err := s.thief.ResetWorkflowExecution(s.ctx, &workflowservice.ResetWorkflowExecutionRequest{Namespace: "default", RequestId: "again",
		WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: "exec/again", RunId: run.GetRunID()}, WorkflowTaskFinishEventId: last})
	if err != nil {
		t.Fatal(err)
	}
	s.refusesTasks("exec/again", "somebody has reset it")
	if n := s.exec.Load(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// A stranger's worker could otherwise begin a run whose commands leave no record.
func TestALedgerThatAStrangersWorkerBeganIsNotGoneOnWith(t *testing.T) {
	s := newStage(t)
	evil := s.work(s.thief)
	id := protocol.PoolID("")
	s.begin(s.ours, id, protocol.TypeHostPool, struct{}{})
	s.until("the thief has begun it", func() bool {
		h := s.history(id, "")
		return h[len(h)-1].GetEventType() != enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED && len(h) > 4
	})
	s.stop(evil)
	defer s.stop(s.work(s.ours))
	s.signal(s.ours, id, protocol.SignalRenew, protocol.Renew{})
	s.refusesTasks(id, "only a worker may write it")
}

func TestAnUpdateWithAnotherNumberOfArgumentsIsRefusedAndBlocksNothing(t *testing.T) {
	s := newStage(t)
	s.begin(s.ours, "seed/c", "counts", "in")
	w := s.counting("ours")
	for n, args := range [][]any{nil, 2: {s.signed("seed/c", protocol.UpdateReviveSeed, protocol.ReviveSeed{}), "more"}} {
		if n == 1 {
			continue
		}
		h, err := s.thief.UpdateWorkflow(s.ctx, client.UpdateWorkflowOptions{WorkflowID: "seed/c", UpdateName: protocol.UpdateReviveSeed,
			WaitForStage: client.WorkflowUpdateStageCompleted, Args: args})
		if err == nil {
			err = h.Get(s.ctx, nil)
		}
		if err == nil || !strings.Contains(err.Error(), "unable to decode the input") {
			t.Errorf("an update with %d arguments: %v", n, err)
		}
	}
	s.stop(w)
	defer s.stop(s.counting("ours"))
	if got := s.counted("seed/c"); len(got) != 0 {
		t.Errorf("it counted %v", got)
	}
}

func TestAnUpdateOfAnEarlierRunIsNotTakenInAReplay(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	for signed, ok := range map[time.Duration]bool{0: true, -9 * time.Minute: true, -11 * time.Minute: false, 11 * time.Minute: false} {
		env := suite.NewTestWorkflowEnvironment()
		env.ExecuteWorkflow(func(ctx workflow.Context) error {
			at := workflow.Now(ctx).Add(signed).UTC().Format(time.RFC3339)
			in := protocol.ReviveSeed{Commanded: protocol.Commanded{Auth: &protocol.Auth{Principal: "ann", At: at}}}
			raw, err := command.Marshal(in)
			if err != nil {
				return err
			}
			err, asJSON := timely(ctx, []reflect.Value{reflect.ValueOf(in)}), timely(ctx, []reflect.Value{reflect.ValueOf(json.RawMessage(raw))})
			if (err == nil) != ok || (asJSON == nil) != ok {
				t.Errorf("signed %s apart: %v, %v", signed, err, asJSON)
			}
			return nil
		})
		if err := env.GetWorkflowError(); err != nil {
			t.Fatal(err)
		}
	}
}

// The report on an earlier chain of the same workflow id may be found in Temporal.
func TestAReportOnAnotherChainDropsNoRecord(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterActivityWithOptions(func(_ context.Context, in audit.Batch) (audit.Written, error) {
		return audit.Written{Entity: "pool/default/earlier", Seq: 50}, nil
	}, activity.RegisterOptions{Name: protocol.ActivityWriteAudit})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		l := open(ctx, new(audit.Chain), "")
		l.add(audit.Record{At: audit.TimeText(workflow.Now(ctx)), Verb: "host.write", Outcome: audit.Accepted})
		l.Keep()
		if err := workflow.Sleep(ctx, time.Second); err != nil {
			return err
		}
		if l.Settled() {
			t.Error("the ledger takes its record for written")
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}

func TestASignedCommandIsRecordedAsItsSignersAlsoInARunThatBeganWithoutAuthority(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		l := open(ctx, new(audit.Chain), "unix:root")
		auth := &protocol.Auth{Principal: "ann", At: audit.TimeText(workflow.Now(ctx)), Signature: "signed"}
		for _, want := range []audit.Record{{Principal: "ann", Source: audit.Key}, {Principal: "unix:root", Source: audit.Unix}} {
			raw, err := command.Marshal(protocol.ReviveSeed{Commanded: protocol.Commanded{Auth: auth}})
			if err != nil {
				return err
			}
			who := ""
			if auth != nil {
				who = auth.Principal
			}
			got := l.record("seed/a", protocol.UpdateReviveSeed, access.SeedWrite, raw, who, nil)
			if got.Principal != want.Principal || got.Source != want.Source {
				t.Errorf("recorded as %s (%s), not as %s (%s)", got.Principal, got.Source, want.Principal, want.Source)
			}
			auth = nil
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}
