package workflows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/schedule"
	"fairlead.dev/fairlead/workflows/session"
)

// A scheduled is a Temporal Schedule that a test made.
type scheduled struct {
	r    *real
	name string
	client.ScheduleHandle
}

// schedule makes a Schedule that starts sessions with text as their message. Its calendar
// fires only in the year 2099, so a test must trigger it.
func (r *real) schedule(name, text string, change func(*client.ScheduleOptions)) scheduled {
	r.t.Helper()
	name += "-" + protocol.KeyDigest(r.zone)[:12] // the name of a zone is too long for a schedule's name
	opts := client.ScheduleOptions{
		ID: protocol.ScheduleID(name), Spec: client.ScheduleSpec{Calendars: []client.ScheduleCalendarSpec{{Year: []client.ScheduleRange{{Start: 2099}}}}},
		Action: &client.ScheduleWorkflowAction{ID: protocol.ScheduleID(name), Workflow: protocol.TypeFire, TaskQueue: r.queue, Args: []any{schedule.FireInput{Schedule: name, Session: &session.Input{
			Options: session.Options{Zone: r.zone, Host: "web-1", CloseAfter: true, Origin: protocol.OriginSchedule(name)},
			First:   &protocol.Message{ID: "first", Text: text},
		}}}},
	}
	if change != nil {
		change(&opts)
	}
	h, err := r.c.ScheduleClient().Create(r.t.Context(), opts)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		// The test's own context is done by now, so the deletion needs another one.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), patience)
		defer cancel()
		if err := h.Delete(ctx); err != nil {
			r.t.Error(err)
		}
	})
	return scheduled{r, name, h}
}

func (s scheduled) look() client.ScheduleInfo {
	s.r.t.Helper()
	d, err := s.Describe(s.r.t.Context())
	if err != nil {
		s.r.t.Fatal(err)
	}
	return d.Info
}

// trigger fires the schedule. Temporal names a firing after the second in which it happens,
// and runs only one workflow of a name at a time. So trigger first waits until the second
// of the last firing is over.
func (s scheduled) trigger(overlap enums.ScheduleOverlapPolicy) {
	s.r.t.Helper()
	if had := s.look().RecentActions; len(had) > 0 {
		last := had[len(had)-1].ActualTime.Truncate(time.Second)
		s.r.until("another second has begun", func() bool { return time.Now().Truncate(time.Second).After(last) })
	}
	if err := s.Trigger(s.r.t.Context(), client.ScheduleTriggerOptions{Overlap: overlap}); err != nil {
		s.r.t.Fatal(err)
	}
}

func (r *real) scheduleBatch(name string, window int, texts ...string) scheduled {
	r.t.Helper()
	spec := r.packed(owned.Owner{Kind: owned.Schedule, ID: name}, protocol.BatchSpec{Window: window}, texts...)
	return r.schedule(name, "", func(o *client.ScheduleOptions) {
		in := &o.Action.(*client.ScheduleWorkflowAction).Args[0]
		*in = schedule.FireInput{Schedule: (*in).(schedule.FireInput).Schedule, Batch: &spec, By: "ann"}
	})
}

// fired waits for the nth firing and for the session that it started. The session's id is
// read from the firing, because two firings in one second have names that differ only in a
// number.
func (s scheduled) fired(n int) (fire client.ScheduleWorkflowExecution, id string) {
	s.r.t.Helper()
	s.r.until(fmt.Sprintf("firing %d of %s", n, s.name), func() bool { return len(s.look().RecentActions) >= n })
	fire = *s.look().RecentActions[n-1].StartWorkflowResult
	at, err := time.Parse(time.RFC3339, strings.TrimPrefix(fire.WorkflowID, protocol.ScheduleID(s.name)+"-"))
	if err != nil {
		s.r.t.Fatalf("the firing is %q: %v", fire.WorkflowID, err)
	}
	s.r.until("firing "+fire.WorkflowID+" has begun something", func() bool {
		for _, e := range s.r.history(fire.WorkflowID, fire.FirstExecutionRunID).Events {
			if a := e.GetChildWorkflowExecutionStartedEventAttributes(); a != nil {
				_, id, _ = strings.Cut(a.WorkflowExecution.WorkflowId, "/")
			}
		}
		return id != ""
	})
	if of := protocol.FiredID(s.name, at); id != of && !strings.HasPrefix(id, of+".") {
		s.r.t.Errorf("the firing of %s began %s", of, id)
	}
	return fire, id
}

func (s scheduled) ends(fire client.ScheduleWorkflowExecution) (out protocol.FireResult, err error) {
	s.r.t.Helper()
	ctx, cancel := context.WithTimeout(s.r.t.Context(), patience)
	defer cancel()
	err = s.r.c.GetWorkflow(ctx, fire.WorkflowID, fire.FirstExecutionRunID).Get(ctx, &out)
	return out, err
}

func (s scheduled) isBusy(session string) {
	s.r.t.Helper()
	s.r.until("codex works in "+session, func() bool { return s.r.host.attached(session) })
}

func TestAFiringIsASessionOfItsTime(t *testing.T) {
	r := newReal(t)
	r.work()
	s := r.schedule("nightly", "hello", nil)
	s.trigger(enums.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED)
	fire, id := s.fired(1)
	out, err := s.ends(fire)
	if err != nil || out.ID != id || out.State != string(protocol.Closed) || out.Status != "completed" {
		t.Errorf("the firing ended with %+v, %v; its session is %s", out, err, id)
	}
	v, err := r.result(id)
	if err != nil || v.State != protocol.Closed || v.Turn == nil || v.Turn.N != 1 || v.Origin != protocol.OriginSchedule(s.name) {
		t.Errorf("its session ended as %+v, %v", v, err)
	}
	bad := r.schedule("failing", "fail", nil)
	bad.trigger(enums.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED)
	fire, _ = bad.fired(1)
	var app *temporal.ApplicationError
	if _, err := bad.ends(fire); !errors.As(err, &app) || app.Type() != "turn_failed" {
		t.Errorf("a firing whose turn fails ends with %v", err)
	}
}

func TestWhatStillRunsDecidesWhatIsFired(t *testing.T) {
	r := newReal(t)
	r.work()
	s := r.schedule("busy", "stay", func(o *client.ScheduleOptions) { o.Overlap = enums.SCHEDULE_OVERLAP_POLICY_SKIP })
	s.trigger(enums.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED)
	fire1, first := s.fired(1)
	s.isBusy(first)

	s.trigger(enums.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED)
	r.until("the second firing is skipped", func() bool { return s.look().NumActionsSkippedOverlap == 1 })

	s.trigger(enums.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER)
	fire2, second := s.fired(2)
	if v, err := r.result(first); err != nil || v.State != protocol.Closed || v.Turn.Status != "interrupted" || v.Close == nil {
		t.Errorf("the first was not closed in good order: %+v, %v", v, err)
	}
	var cancelled *temporal.CanceledError
	if _, err := s.ends(fire1); !errors.As(err, &cancelled) {
		t.Errorf("the cancelled firing ended with %v", err)
	}
	s.isBusy(second)

	s.trigger(enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL)
	_, third := s.fired(3)
	s.isBusy(third)
	if !r.host.attached(second) {
		t.Error("the second does not run beside the third")
	}
	r.update(protocol.SessionID(third), protocol.SignalClose, nil, protocol.Close{By: "bob"})
	if v, err := r.result(third); err != nil || v.State != protocol.Closed {
		t.Errorf("the third ended as %+v, %v", v, err)
	}

	s.trigger(enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE)
	r.close(second)
	fire4, fourth := s.fired(4)
	if out, err := s.ends(fire2); err == nil || out.ID != "" && out.State != string(protocol.Closed) {
		t.Errorf("the second firing ended with %+v, %v", out, err)
	}
	s.isBusy(fourth)

	s.trigger(enums.SCHEDULE_OVERLAP_POLICY_TERMINATE_OTHER)
	_, fifth := s.fired(5)
	if v, err := r.result(fourth); err != nil || v.State != protocol.Closed {
		t.Errorf("what a terminated firing had started was left alone: %+v, %v", v, err)
	}
	if _, err := s.ends(fire4); err == nil {
		t.Error("the terminated firing ended well")
	}
	s.isBusy(fifth)
	r.close(fifth)
}

func TestTimesThatPassedAreFilledInOnce(t *testing.T) {
	r := newReal(t)
	r.work()
	s := r.schedule("past", "hello", func(o *client.ScheduleOptions) {
		o.Spec = client.ScheduleSpec{Calendars: []client.ScheduleCalendarSpec{{Hour: []client.ScheduleRange{{Start: 3}}, Year: []client.ScheduleRange{{Start: 2021}}}}}
	})
	fill := func() {
		t.Helper()
		err := s.Backfill(t.Context(), client.ScheduleBackfillOptions{Backfill: []client.ScheduleBackfill{{
			Start:   time.Date(2021, 5, 1, 0, 0, 0, 0, time.UTC),
			End:     time.Date(2021, 5, 3, 12, 0, 0, 0, time.UTC),
			Overlap: enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL,
		}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	ids := func(n int) (out []string) {
		t.Helper()
		for i := range n {
			fire, _ := s.fired(i + 1)
			var res protocol.FireResult
			if err := r.c.GetWorkflow(t.Context(), fire.WorkflowID, fire.FirstExecutionRunID).Get(t.Context(), &res); err != nil {
				t.Fatal(err)
			}
			out = append(out, strings.TrimPrefix(res.ID, s.name+"-"))
		}
		slices.Sort(out)
		return out
	}
	fill()
	if got := fmt.Sprint(ids(3)); got != "[20210501t030000z 20210502t030000z 20210503t030000z]" {
		t.Errorf("filled in: %s", got)
	}
	// A second backfill of the same times starts sessions for these times once more.
	fill()
	if got := fmt.Sprint(ids(6)); got != "[20210501t030000z 20210501t030000z.2 20210502t030000z 20210502t030000z.2 20210503t030000z 20210503t030000z.2]" {
		t.Errorf("filled in again: %s", got)
	}
}

func TestAPausedScheduleFiresNothingByItself(t *testing.T) {
	r := newReal(t)
	r.work()
	often := func(o *client.ScheduleOptions) {
		o.Spec = client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: time.Second}}}
	}
	paused := r.schedule("paused", "hello", func(o *client.ScheduleOptions) { often(o); o.Paused = true })
	r.schedule("ticking", "hello", often).fired(2) // the paused schedule would also have fired in that time
	if info := paused.look(); info.NumActions != 0 {
		t.Errorf("paused it fired %d times", info.NumActions)
	}
	if err := paused.Unpause(t.Context(), client.ScheduleUnpauseOptions{}); err != nil {
		t.Fatal(err)
	}
	fire, _ := paused.fired(1)
	if out, err := paused.ends(fire); err != nil || out.Status != "completed" {
		t.Errorf("it ended with %+v, %v", out, err)
	}
}

// A cancelled firing closes its session, in whatever state the session is. Here the session
// waits in the pool's queue.
func TestACancelledFiringTakesItsSessionOutOfTheLine(t *testing.T) {
	r := newReal(t)
	r.work()
	for n := range 3 { // as many sessions as there are slots
		id := r.session(fmt.Sprint("holds", n), session.Options{})
		r.becomes(id, protocol.Idle)
	}
	s := r.schedule("waits", "hello", nil)
	s.trigger(enums.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED)
	fire, id := s.fired(1)
	r.becomes(id, protocol.Queued)
	if err := r.c.CancelWorkflow(t.Context(), fire.WorkflowID, fire.FirstExecutionRunID); err != nil {
		t.Fatal(err)
	}
	if v, err := r.result(id); err != nil || v.State != protocol.Closed || v.Turn != nil && v.Turn.Status == "completed" {
		t.Errorf("its session ended as %+v, %v", v, err)
	}
	for n := range 3 {
		r.close(fmt.Sprintf("%s.holds%d", r.zone, n))
	}
}

func TestAFiringIsABatchOfItsTime(t *testing.T) {
	r := newBatches(t)
	r.work()
	s := r.scheduleBatch("many", 2, "hello", "hello", "hello")
	s.trigger(enums.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED)
	fire, id := s.fired(1)
	out, err := s.ends(fire)
	if err != nil || out.ID != id || out.State != protocol.BatchDone || out.Status != "3 of 3 done, 0 failed" {
		t.Errorf("the firing ended with %+v, %v; its batch is %s", out, err, id)
	}
	if v := r.batchEnd(id).View; v.Done != 3 || v.Origin != protocol.OriginSchedule(s.name) || v.By != "ann" {
		t.Errorf("its batch ended as %+v", v)
	}
	r.until("the batch is found by its schedule", func() bool {
		n, err := r.c.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{
			Query: fmt.Sprintf("WorkflowType = '%s' AND FairleadOrigin = '%s'", protocol.TypeBatch, protocol.OriginSchedule(s.name))})
		return err == nil && n.Count == 1
	})

	bad := r.scheduleBatch("failing", 2, "hello", "fail")
	bad.trigger(enums.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED)
	fire, id = bad.fired(1)
	var app *temporal.ApplicationError
	if out, err = bad.ends(fire); !errors.As(err, &app) || app.Type() != "batch_done" {
		t.Errorf("a firing of which an item fails ends with %v", err)
	} else if schedule.ReadFireResult(&out, err); out.ID != id || out.Status != "1 of 2 done, 1 failed" {
		t.Errorf("it says of itself %+v", out)
	}
}

func TestABatchThatStillRunsDecidesAsAWhole(t *testing.T) {
	r := newBatches(t)
	r.work()
	s := r.scheduleBatch("busy", 1, "stay", "stay")
	s.trigger(enums.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED)
	fire1, first := s.fired(1)
	session := batches.ItemSession(first, "i0", 1)
	s.isBusy(session)

	s.trigger(enums.SCHEDULE_OVERLAP_POLICY_SKIP)
	r.until("the second firing is skipped", func() bool { return s.look().NumActionsSkippedOverlap == 1 })

	s.trigger(enums.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER)
	_, second := s.fired(2)
	var cancelled *temporal.CanceledError
	if _, err := s.ends(fire1); !errors.As(err, &cancelled) {
		t.Errorf("the cancelled firing ended with %v", err)
	}
	if v := r.batchEnd(first).View; v.State != protocol.BatchCancelled || v.Cancelled != 1 || v.Running != 0 || v.Queued != 1 {
		t.Errorf("its batch ended as %+v", v)
	}
	if v, err := r.result(session); err != nil || v.State != protocol.Closed {
		t.Errorf("its session ended as %+v, %v", v, err)
	}
	s.isBusy(batches.ItemSession(second, "i0", 1))

	s.trigger(enums.SCHEDULE_OVERLAP_POLICY_TERMINATE_OTHER)
	fire3, third := s.fired(3)
	if v := r.batchEnd(second).View; v.State != protocol.BatchCancelled {
		t.Errorf("the batch of a terminated firing ended as %+v", v)
	}
	s.isBusy(batches.ItemSession(third, "i0", 1))
	if err := r.c.CancelWorkflow(t.Context(), fire3.WorkflowID, fire3.FirstExecutionRunID); err != nil {
		t.Fatal(err)
	}
	if v := r.batchEnd(third).View; v.State != protocol.BatchCancelled {
		t.Errorf("it ended as %+v", v)
	}
}
