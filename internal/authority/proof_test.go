package authority

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

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
		opts.Interceptors = append(opts.Interceptors, Interceptor(s.keeper))
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
	v, err := s.ours.QueryWorkflow(s.ctx, id, "", "counted")
	if err == nil {
		err = v.Get(&n)
	}
	if err != nil {
		s.t.Fatal(err)
	}
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
		s.until("a worker of ours refuses the task of "+id, func() bool {
			for _, ev := range s.history(id, "") {
				if ev.GetEventType() == enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED {
					t.Fatalf("%s counted", name)
				}
				if s.says(ev, "no worker of ours accepted it") {
					return true
				}
			}
			return false
		})
		s.stop(w)
	}
}

func (s *stage) says(ev *historypb.HistoryEvent, text string) bool {
	f := ev.GetWorkflowTaskFailedEventAttributes().GetFailure()
	return f != nil && strings.Contains(payload.NewCodec("default", s.key).Message(f), text)
}
