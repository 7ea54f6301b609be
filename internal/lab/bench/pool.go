package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

const poolSlots = 20

// measurePool measures how fast idle holders get slots of a zone, and how long
// sessions of the real codex wait for a single slot.
func measurePool(ctx context.Context, o *options) (err error) {
	f, err := newFleet(ctx, lab.Options{Repo: o.repo, Script: []byte(script), Keep: o.keep}, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for name, slots := range map[string]string{"many": fmt.Sprint(poolSlots), "one": "1"} {
		if _, err := f.lab.AddHost(ctx, name, hosttest.Options{}, "--slots", slots); err != nil {
			return err
		}
	}
	if err := f.grants(ctx, o.grants); err != nil {
		return err
	}
	if _, err := f.lab.Out(ctx, "host", "provision", "one"); err != nil {
		return err
	}
	if err := f.lab.ImportSeed(ctx, "bench"); err != nil {
		return err
	}
	return f.handovers(ctx, o.handovers)
}

// holder is a workflow that acts on its pool as a session does: it asks for a
// slot and gives it back at once.
func holder(ctx workflow.Context, id, host string) error {
	pool := protocol.PoolID("")
	run := workflow.GetInfo(ctx).FirstRunID
	ask := map[string]any{"holder": id, "run": run, "host": host, "generation": 1}
	if err := workflow.SignalExternalWorkflow(ctx, pool, "", "acquire", ask).Get(ctx, nil); err != nil {
		return err
	}
	for {
		var got struct {
			Epoch   int64             `json:"epoch"`
			Refused *protocol.Failure `json:"refused"`
		}
		workflow.GetSignalChannel(ctx, "lease").Receive(ctx, &got)
		switch {
		case got.Refused != nil:
			return errors.New(got.Refused.Message)
		case got.Epoch > 0:
			return workflow.SignalExternalWorkflow(ctx, pool, "", "release", map[string]any{"holder": id, "run": run, "generation": 1}).Get(ctx, nil)
		}
	}
}

// grants measures the grants per second, and what each costs.
func (f *fleet) grants(ctx context.Context, n int) error {
	const queue = "bench-holders"
	w := worker.New(f.c, queue, worker.Options{})
	w.RegisterWorkflowWithOptions(holder, workflow.RegisterOptions{Name: "Holder"})
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	before, _, err := f.poolRuns(ctx)
	if err != nil {
		return err
	}
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("holder-%06d", i)
	}
	begin, took := time.Now(), processorTime()
	err = each(ids, 64, func(id string) error {
		run, err := f.c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: protocol.SessionID(id), TaskQueue: queue}, "Holder", id, "many")
		if err != nil {
			return err
		}
		return run.Get(ctx, nil)
	})
	if err != nil {
		return err
	}
	d := time.Since(begin)
	after, carried, err := f.poolRuns(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("  grants of one pool, 64 ask at a time for %d slots  %.0f a second (n %d; each is a workflow of its own, on the same server)\n", poolSlots, float64(n)/d.Seconds(), n)
	fmt.Printf("  events of the pool for each, all in all            %.1f\n", float64(after-before)/float64(n))
	if len(carried) > 0 {
		fmt.Printf("  bytes that it carried from run to run              %v\n", carried)
	}
	fmt.Printf("  the machine                                        %s\n", processorTime().since(took))
	return nil
}

// poolRuns counts the events of all runs of the default zone's pool, and
// returns how many bytes each run carried over from the last.
func (f *fleet) poolRuns(ctx context.Context) (events int, carried []int, err error) {
	err = f.poolEvents(ctx, func(e *history.HistoryEvent) {
		events++
		if a := e.GetWorkflowExecutionStartedEventAttributes(); a.GetContinuedExecutionRunId() != "" {
			carried = append(carried, len(a.GetInput().GetPayloads()[0].GetData()))
		}
	})
	slices.Reverse(carried)
	return events, carried, err
}

// poolEvents calls each for the events of the default zone's pool, newest run
// first.
func (f *fleet) poolEvents(ctx context.Context, each func(*history.HistoryEvent)) error {
	for run, more := "", true; more; {
		it := f.c.GetWorkflowHistory(ctx, protocol.PoolID(""), run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for run = ""; it.HasNext(); {
			e, err := it.Next()
			if err != nil {
				return err
			}
			each(e)
			if a := e.GetWorkflowExecutionStartedEventAttributes(); a != nil {
				run = a.GetContinuedExecutionRunId()
			}
		}
		more = run != ""
	}
	return nil
}

// handovers makes sessions of the real codex wait for one slot. It measures the
// time from the release of the slot until the next session's pump starts to
// talk to its codex, and until codex has answered and begun the turn.
func (f *fleet) handovers(ctx context.Context, n int) error {
	var ids []string
	for i := range n + 2 {
		id := fmt.Sprintf("next-%03d", i)
		ids = append(ids, id)
		if err := f.start(ctx, id, session.Options{Host: "one", Seed: "bench", CloseAfter: true}, "say yes"); err != nil {
			return err
		}
	}
	var spoke, began []time.Time
	for _, id := range ids {
		var v protocol.SessionView
		if err := f.c.GetWorkflow(ctx, protocol.SessionID(id), "").Get(ctx, &v); err != nil {
			return err
		}
		at, err := f.firstPump(ctx, id)
		if err != nil {
			return err
		}
		spoke = append(spoke, at)
		if v.Turn != nil {
			began = append(began, v.Turn.StartedAt)
		}
	}
	freed, err := f.releases(ctx)
	if err != nil {
		return err
	}
	behind(spoke, freed).against("slot freed → the next session's pump talks", time.Second)
	behind(began, freed).against("slot freed → its codex has begun the turn", 2*time.Second)
	return nil
}

// behind returns, for each time in at except the first, how long it came after
// the latest of others before it. The first one waited for nobody.
func behind(at, others []time.Time) (s series) {
	slices.SortFunc(at, time.Time.Compare)
	for _, t := range at[min(1, len(at)):] {
		for _, o := range slices.Backward(others) {
			if o.Before(t) {
				s = append(s, t.Sub(o))
				break
			}
		}
	}
	return s
}

func (f *fleet) firstPump(ctx context.Context, id string) (time.Time, error) {
	pumps := map[int64]bool{}
	it := f.c.GetWorkflowHistory(ctx, protocol.SessionID(id), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return time.Time{}, err
		}
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil && a.GetActivityType().GetName() == "RunPump" {
			pumps[e.GetEventId()] = true
		}
		if a := e.GetActivityTaskStartedEventAttributes(); a != nil && pumps[a.GetScheduledEventId()] {
			return e.GetEventTime().AsTime(), nil
		}
	}
	return time.Time{}, fmt.Errorf("session %s never talked with codex", id)
}

// releases returns when slots were given back, in order.
func (f *fleet) releases(ctx context.Context) (at []time.Time, err error) {
	err = f.poolEvents(ctx, func(e *history.HistoryEvent) {
		if e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == "release" {
			at = append(at, e.GetEventTime().AsTime())
		}
	})
	slices.SortFunc(at, time.Time.Compare)
	return at, err
}
