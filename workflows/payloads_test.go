package workflows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/fairlead/workflows/internal/kit"
)

// Temporal's replayer compares the kinds of commands, their order, and the names in them.
// It does not look at inputs, results, search attributes, memos, the length of timers, or
// at the type and input of a continue-as-new. The replay below notes all of these, and
// compares them with those of the history.

// A step is a command of a workflow, or its answer to an update.
type step struct {
	kind string // activity, child, signal, timer, …
	name string
	body any // as encoding/json decodes it, with json.Number
	// unsent reports whether Temporal may have no record of the step, because its context
	// was cancelled, maybe within the same workflow task.
	unsent func() bool
}

func (s step) String() string { return strings.TrimSpace(s.kind + " " + s.name) }

// The kinds of steps. Each kind has an order of its own.
const (
	stepActivity = "activity"
	stepChild    = "child workflow"
	stepSignal   = "signal"
	stepTimer    = "timer"
	stepAttrs    = "search attributes"
	stepMemo     = "memo"
	stepUpdate   = "update"
	stepCancel   = "cancellation of a workflow"
	stepEffect   = "side effect"
	stepEnd      = "end"
)

// changeVersions is the search attribute that the SDK sets for workflow.GetVersion.
const changeVersions = "TemporalChangeVersion"

// recordedSteps reads the steps of a history.
func recordedSteps(h *historypb.History) (steps []step, err error) {
	updates := map[int64]string{} // by event: the update's id and name
	for _, e := range h.Events {
		add := func(kind, name string, body map[string]any) {
			if summary := e.GetUserMetadata().GetSummary(); summary != nil {
				body["summary"] = fromPayload(summary)
			}
			steps = append(steps, step{kind: kind, name: name, body: normal(body)})
		}
		switch {
		case e.GetActivityTaskScheduledEventAttributes() != nil:
			a := e.GetActivityTaskScheduledEventAttributes()
			add(stepActivity, a.ActivityType.Name, map[string]any{
				"input": fromPayloads(a.Input), "start_to_close": seconds(a.StartToCloseTimeout), "schedule_to_close": seconds(a.ScheduleToCloseTimeout),
				"heartbeat": seconds(a.HeartbeatTimeout),
				"attempts":  a.RetryPolicy.GetMaximumAttempts(), "interval": seconds(a.RetryPolicy.GetInitialInterval()),
			})
		case e.GetStartChildWorkflowExecutionInitiatedEventAttributes() != nil:
			a := e.GetStartChildWorkflowExecutionInitiatedEventAttributes()
			add(stepChild, a.WorkflowType.Name, map[string]any{
				"id": a.WorkflowId, "input": fromPayloads(a.Input), "memo": fromFields(a.Memo.GetFields()),
				"attributes": fromFields(a.SearchAttributes.GetIndexedFields()), "queue": a.TaskQueue.GetName(),
				"when_parent_ends": a.ParentClosePolicy.String(), "id_again": a.WorkflowIdReusePolicy.String(),
			})
		case e.GetSignalExternalWorkflowExecutionInitiatedEventAttributes() != nil:
			a := e.GetSignalExternalWorkflowExecutionInitiatedEventAttributes()
			add(stepSignal, a.SignalName, map[string]any{
				"to": a.WorkflowExecution.WorkflowId, "run": a.WorkflowExecution.RunId, "child": a.ChildWorkflowOnly, "input": fromPayloads(a.Input),
			})
		case e.GetRequestCancelExternalWorkflowExecutionInitiatedEventAttributes() != nil:
			a := e.GetRequestCancelExternalWorkflowExecutionInitiatedEventAttributes()
			add(stepCancel, a.WorkflowExecution.WorkflowId, map[string]any{"run": a.WorkflowExecution.RunId})
		case e.GetMarkerRecordedEventAttributes().GetMarkerName() == "SideEffect":
			add(stepEffect, "", map[string]any{})
		case e.GetTimerStartedEventAttributes() != nil:
			a := e.GetTimerStartedEventAttributes()
			add(stepTimer, "", map[string]any{"length": seconds(a.StartToFireTimeout)})
		case e.GetUpsertWorkflowSearchAttributesEventAttributes() != nil:
			fields := e.GetUpsertWorkflowSearchAttributesEventAttributes().SearchAttributes.IndexedFields
			if fields[changeVersions] == nil {
				add(stepAttrs, "", fromFields(fields))
			}
		case e.GetWorkflowPropertiesModifiedEventAttributes() != nil:
			add(stepMemo, "", fromFields(e.GetWorkflowPropertiesModifiedEventAttributes().UpsertedMemo.GetFields()))
		case e.GetWorkflowExecutionUpdateAcceptedEventAttributes() != nil:
			r := e.GetWorkflowExecutionUpdateAcceptedEventAttributes().AcceptedRequest
			updates[e.EventId] = updateName(r.GetInput().GetName(), r.GetMeta().GetUpdateId())
		case e.GetWorkflowExecutionUpdateCompletedEventAttributes() != nil:
			a := e.GetWorkflowExecutionUpdateCompletedEventAttributes()
			name := updates[a.AcceptedEventId]
			if name == "" {
				return nil, fmt.Errorf("event %d completes an update that was not accepted", e.EventId)
			}
			add(stepUpdate, name, ending(a.Outcome.GetSuccess(), a.Outcome.GetFailure()))
		case e.GetWorkflowExecutionCompletedEventAttributes() != nil:
			add(stepEnd, "completed", ending(e.GetWorkflowExecutionCompletedEventAttributes().Result, nil))
		case e.GetWorkflowExecutionFailedEventAttributes() != nil:
			add(stepEnd, "failed", ending(nil, e.GetWorkflowExecutionFailedEventAttributes().Failure))
		case e.GetWorkflowExecutionCanceledEventAttributes() != nil:
			add(stepEnd, "cancelled", ending(nil, nil))
		case e.GetWorkflowExecutionContinuedAsNewEventAttributes() != nil:
			a := e.GetWorkflowExecutionContinuedAsNewEventAttributes()
			add(stepEnd, "continued as new", map[string]any{"type": a.WorkflowType.Name, "input": fromPayloads(a.Input)})
		}
	}
	return steps, nil
}

func updateName(name, id string) string { return name + " " + id }

func ending(result *commonpb.Payloads, failure *failurepb.Failure) map[string]any {
	return map[string]any{"result": fromPayloads(result), "failure": fromFailure(failure)}
}

// A strictness says how payloads are compared.
type strictness bool

const (
	exact   strictness = false
	mayGrow strictness = true // a payload may have fields that the history does not know
)

// replayed replays a history with today's code, and returns the differences.
func replayed(h *historypb.History, every kit.Intervals, how strictness) error {
	n, err := replayNoting(h, every)
	if err != nil {
		return err
	}
	recorded, err := recordedSteps(h)
	if err != nil {
		return err
	}
	return errors.Join(append(n.broken, unlike(recorded, n.steps, how)...)...)
}

// replayNoting replays a history and notes what the workflow does.
func replayNoting(h *historypb.History, every kit.Intervals) (*noting, error) {
	if len(h.Events) == 0 {
		return nil, errors.New("the history is empty")
	}
	n := &noting{served: map[served]any{}}
	r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Interceptors: []interceptor.WorkerInterceptor{n}, DisableDeadlockDetection: true})
	if err != nil {
		return nil, err
	}
	register(r, every)
	begun := h.Events[0].GetWorkflowExecutionStartedEventAttributes()
	return n, r.ReplayWorkflowHistoryWithOptions(quiet(), h, worker.ReplayWorkflowHistoryOptions{
		OriginalExecution: workflow.Execution{ID: begun.GetWorkflowId(), RunID: begun.GetOriginalExecutionRunId()},
	})
}

// unlike returns the differences between the steps of a history and those of its replay.
func unlike(recorded, replayed []step, how strictness) (all []error) {
	for _, kind := range []string{stepActivity, stepChild, stepSignal, stepTimer, stepAttrs, stepMemo, stepUpdate, stepCancel, stepEffect, stepEnd} {
		of := func(steps []step) []step {
			return slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return s.kind != kind })
		}
		left := of(replayed)
		for i, want := range of(recorded) {
			at := -1
			for j, got := range left {
				if len(differences(want, got, how)) == 0 {
					at = j
					break
				}
				if !got.unsent() {
					break
				}
			}
			switch {
			case at >= 0:
				left = left[at+1:]
			case len(left) == 0:
				all = append(all, fmt.Errorf("%s (number %d of its kind) is on record, and does not come in the replay", want, i+1))
			default:
				// A step of the same name is the likeliest match.
				at = max(0, slices.IndexFunc(left, func(s step) bool { return s.name == want.name }))
				all = append(all, fmt.Errorf("%s (number %d of its kind): %s", want, i+1, strings.Join(differences(want, left[at], how), "; ")))
				left = left[at+1:]
			}
		}
		for _, more := range left {
			if !more.unsent() {
				all = append(all, fmt.Errorf("%s comes in the replay, and is not on record", more))
			}
		}
	}
	return all
}

func differences(recorded, replayed step, how strictness) []string {
	if recorded.name != replayed.name {
		return []string{fmt.Sprintf("it is %s in the replay", replayed)}
	}
	return differ("", recorded.body, replayed.body, how)
}

// differ lists the places where two values of JSON differ.
func differ(path string, recorded, replayed any, how strictness) (all []string) {
	switch was := recorded.(type) {
	case map[string]any:
		now, ok := replayed.(map[string]any)
		if !ok {
			break
		}
		for _, name := range slices.Sorted(maps.Keys(was)) {
			v, there := now[name]
			if !there {
				all = append(all, fmt.Sprintf("%s.%s was %s, is not there any more", path, name, asJSON(was[name])))
				continue
			}
			all = append(all, differ(path+"."+name, was[name], v, how)...)
		}
		for _, name := range slices.Sorted(maps.Keys(now)) {
			if _, there := was[name]; !there && how == exact {
				all = append(all, fmt.Sprintf("%s.%s was not there, is %s", path, name, asJSON(now[name])))
			}
		}
		return all
	case []any:
		now, ok := replayed.([]any)
		if !ok || len(now) != len(was) {
			break
		}
		for i := range was {
			all = append(all, differ(fmt.Sprintf("%s[%d]", path, i), was[i], now[i], how)...)
		}
		return all
	}
	if reflect.DeepEqual(recorded, replayed) {
		return nil
	}
	return []string{fmt.Sprintf("%s was %s, is %s", path, asJSON(recorded), asJSON(replayed))}
}

func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return kit.Cut(string(raw), 300)
}

// normal returns v as it is after encoding and decoding as JSON.
//
//workflowcheck:ignore // what a replay does is noted, and changes nothing in it
func normal(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return decoded(raw)
}

//workflowcheck:ignore // what a replay does is noted, and changes nothing in it
func decoded(raw []byte) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "no JSON: " + string(raw)
	}
	return v
}

func fromPayload(p *commonpb.Payload) any {
	if len(p.GetData()) == 0 {
		return nil
	}
	return decoded(p.Data)
}

func fromPayloads(p *commonpb.Payloads) any {
	all := []any{}
	for _, one := range p.GetPayloads() {
		all = append(all, fromPayload(one))
	}
	return all
}

//workflowcheck:ignore // what a replay does is noted, and changes nothing in it
func fromFields(fields map[string]*commonpb.Payload) map[string]any {
	out := map[string]any{}
	for name, p := range fields {
		out[name] = fromPayload(p)
	}
	return out
}

// fromFailure leaves out the stacks: they change with every line of code.
//
//workflowcheck:ignore // what a replay does is noted, and changes nothing in it
func fromFailure(f *failurepb.Failure) any {
	if f == nil {
		return nil
	}
	f = proto.Clone(f).(*failurepb.Failure)
	for c := f; c != nil; c = c.Cause {
		c.StackTrace = ""
	}
	raw, err := protojson.Marshal(f)
	if err != nil {
		panic(err)
	}
	return decoded(raw)
}

func seconds(d *durationpb.Duration) float64 { return d.AsDuration().Seconds() }

// Temporal's replayer finds none of these changes. This test makes each of them in a
// history, and checks that the replay here finds it.
func TestAReplayNoticesAnotherPayload(t *testing.T) {
	spoil := func(p *commonpb.Payloads) bool {
		if len(p.GetPayloads()) == 0 || !bytes.HasPrefix(p.Payloads[0].Data, []byte("{")) {
			return false
		}
		p.Payloads[0].Data = append([]byte(`{"not_known_any_more":1,`), p.Payloads[0].Data[1:]...)
		return json.Valid(p.Payloads[0].Data)
	}
	spoilOne := func(p *commonpb.Payload) bool {
		if p != nil {
			p.Data = []byte(`"spoiled"`)
		}
		return p != nil
	}
	spoilAny := func(fields map[string]*commonpb.Payload) bool {
		for _, p := range fields {
			return spoilOne(p)
		}
		return false
	}
	const unknown = "not_known_any_more was 1, is not there any more"
	cases := []struct {
		what  string
		spoil func(e *historypb.HistoryEvent) bool // reports whether it changed e
		want  string
	}{
		{"the input of an activity", func(e *historypb.HistoryEvent) bool {
			return spoil(e.GetActivityTaskScheduledEventAttributes().GetInput())
		}, unknown},
		{"the timeout of an activity", func(e *historypb.HistoryEvent) bool {
			a := e.GetActivityTaskScheduledEventAttributes()
			if a != nil {
				a.HeartbeatTimeout = durationpb.New(77 * time.Second)
			}
			return a != nil
		}, ".heartbeat was 77"},
		{"the summary of an activity", func(e *historypb.HistoryEvent) bool {
			return e.GetActivityTaskScheduledEventAttributes() != nil && spoilOne(e.GetUserMetadata().GetSummary())
		}, `.summary was "spoiled"`},
		{"the input of a child", func(e *historypb.HistoryEvent) bool {
			return spoil(e.GetStartChildWorkflowExecutionInitiatedEventAttributes().GetInput())
		}, unknown},
		{"what becomes of a child", func(e *historypb.HistoryEvent) bool {
			a := e.GetStartChildWorkflowExecutionInitiatedEventAttributes()
			if a != nil {
				a.ParentClosePolicy, a.WorkflowIdReusePolicy = enums.PARENT_CLOSE_POLICY_ABANDON, enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY
			}
			return a != nil
		}, `.when_parent_ends was "Abandon"`},
		{"the input of a signal", func(e *historypb.HistoryEvent) bool {
			return spoil(e.GetSignalExternalWorkflowExecutionInitiatedEventAttributes().GetInput())
		}, unknown},
		{"the length of a timer", func(e *historypb.HistoryEvent) bool {
			a := e.GetTimerStartedEventAttributes()
			if a != nil {
				a.StartToFireTimeout = durationpb.New(77 * time.Second)
			}
			return a != nil
		}, ".length was 77"},
		{"a search attribute", func(e *historypb.HistoryEvent) bool {
			fields := e.GetUpsertWorkflowSearchAttributesEventAttributes().GetSearchAttributes().GetIndexedFields()
			if fields["TemporalChangeVersion"] != nil {
				return false // the SDK's own, for GetVersion
			}
			return spoilAny(fields)
		}, `was "spoiled"`},
		{"a field of the memo", func(e *historypb.HistoryEvent) bool {
			return spoilAny(e.GetWorkflowPropertiesModifiedEventAttributes().GetUpsertedMemo().GetFields())
		}, `was "spoiled"`},
		{"the answer of an update", func(e *historypb.HistoryEvent) bool {
			return spoil(e.GetWorkflowExecutionUpdateCompletedEventAttributes().GetOutcome().GetSuccess())
		}, unknown},
		{"the result", func(e *historypb.HistoryEvent) bool {
			return spoil(e.GetWorkflowExecutionCompletedEventAttributes().GetResult())
		}, unknown},
		{"the error at the end", func(e *historypb.HistoryEvent) bool {
			f := e.GetWorkflowExecutionFailedEventAttributes().GetFailure()
			if f != nil {
				f.Message = "spoiled"
			}
			return f != nil
		}, `was "spoiled"`},
		{"the type of a continue-as-new", func(e *historypb.HistoryEvent) bool {
			a := e.GetWorkflowExecutionContinuedAsNewEventAttributes()
			if a != nil {
				a.WorkflowType.Name = "Run"
			}
			return a != nil
		}, `.type was "Run"`},
		{"the input of a continue-as-new", func(e *historypb.HistoryEvent) bool {
			return spoil(e.GetWorkflowExecutionContinuedAsNewEventAttributes().GetInput())
		}, unknown},
	}
	all, err := releases(histories)
	if err != nil || len(all) == 0 {
		t.Fatalf("there are no histories (%v)", err)
	}
	recorded := readHistories(t, all[len(all)-1])
	files := slices.Sorted(maps.Keys(recorded))
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			for _, file := range files {
				h := proto.Clone(recorded[file]).(*historypb.History)
				if !slices.ContainsFunc(h.Events, c.spoil) {
					continue
				}
				every := recordedWith(file)
				if err := replayed(h, every, exact); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s is changed in %s, and the replay says %v, want %q", c.what, file, err, c.want)
				}
				if err := replayed(h, every, mayGrow); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s is changed in %s of an older release, and the replay says %v, want %q", c.what, file, err, c.want)
				}
				return
			}
			t.Errorf("no history has %s", c.what)
		})
	}
}

// Today a payload may have more fields than in an older release, but not fewer.
func TestPayloadsOfAnOlderReleaseMayGrow(t *testing.T) {
	was := decoded([]byte(`{"a":1,"list":[{"b":true}]}`))
	grown := decoded([]byte(`{"a":1,"list":[{"b":true,"c":2}],"d":null}`))
	for how, want := range map[strictness]string{
		exact:   `.list[0].c was not there, is 2; .d was not there, is null`,
		mayGrow: "",
	} {
		if got := strings.Join(differ("", was, grown, how), "; "); got != want {
			t.Errorf("what has grown differs by %q, want %q", got, want)
		}
		if got := differ("", grown, was, how); len(got) != 2 {
			t.Errorf("what has shrunk differs by %q", got)
		}
	}
}

// A step may be missing from the history only if its context was cancelled.
func TestStepsAreComparedInTheirOrder(t *testing.T) {
	sent, unsent := func() bool { return false }, func() bool { return true }
	of := func(name string, unsent func() bool) step {
		return step{kind: stepActivity, name: name, unsent: unsent}
	}
	a, b := step{kind: stepActivity, name: "A"}, step{kind: stepActivity, name: "B"}
	for what, c := range map[string]struct {
		recorded, replayed []step
		want               string
	}{
		"the same":             {[]step{a, b}, []step{of("A", sent), of("B", sent)}, ""},
		"one was never sent":   {[]step{a, b}, []step{of("A", sent), of("C", unsent), of("B", sent), of("D", unsent)}, ""},
		"all may be unsent":    {[]step{a, b}, []step{of("A", unsent), of("B", unsent)}, ""},
		"another order":        {[]step{a, b}, []step{of("B", sent), of("A", sent)}, "activity A (number 1 of its kind)"},
		"one is missing":       {[]step{a, b}, []step{of("A", unsent)}, "activity B (number 2 of its kind) is on record, and does not come"},
		"one is sent too much": {[]step{a}, []step{of("A", sent), of("B", sent)}, "activity B comes in the replay, and is not on record"},
		"another one is sent":  {[]step{a}, []step{of("B", sent)}, "it is activity B in the replay"},
	} {
		err := errors.Join(unlike(c.recorded, c.replayed, exact)...)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: it says %v, want %q", what, err, c.want)
		}
	}
}
