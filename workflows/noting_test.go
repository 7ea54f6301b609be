package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// noting notes the steps of the workflow that is replayed, and the messages that the
// workflow takes.
type noting struct {
	interceptor.WorkerInterceptorBase
	steps  []step
	served map[served]any // the handlers; a signal has none
	broken []error
}

// served is a message that a workflow takes.
type served struct {
	kind string // signal, update, query
	name string
}

func (n *noting) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &notingIn{noting: n}
	in.Next = next
	return in
}

//workflowcheck:ignore // what a replay does is noted, and changes nothing in it
func (n *noting) add(ctx workflow.Context, kind, name string, body map[string]any) {
	for field, v := range body {
		if v == "" && field == "summary" {
			delete(body, field)
		}
	}
	n.steps = append(n.steps, step{kind: kind, name: name, body: normal(body), unsent: func() bool { return ctx.Err() != nil }})
}

// payloads encodes values as the SDK does before it tells Temporal of them.
//
//workflowcheck:ignore // what a replay does is noted, and changes nothing in it
func (n *noting) payloads(values ...any) any {
	p, err := converter.GetDefaultDataConverter().ToPayloads(values...)
	if err != nil {
		n.broken = append(n.broken, err)
	}
	return fromPayloads(p)
}

//workflowcheck:ignore // what a replay does is noted, and changes nothing in it
func (n *noting) payload(value any) any {
	p, err := converter.GetDefaultDataConverter().ToPayload(value)
	if err != nil {
		n.broken = append(n.broken, err)
	}
	return fromPayload(p)
}

//workflowcheck:ignore // what a replay does is noted, and changes nothing in it
func (n *noting) fields(values map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range values {
		out[name] = n.payload(v)
	}
	return out
}

//workflowcheck:ignore // what a replay does is noted, and changes nothing in it
func (n *noting) attributes(sa temporal.SearchAttributes) map[string]any {
	out := map[string]any{}
	for key, v := range sa.GetUntypedValues() {
		out[key.GetName()] = n.payload(v)
	}
	return out
}

//workflowcheck:ignore // what a replay does is noted, and changes nothing in it
func (n *noting) ends(ctx workflow.Context, kind, name string, result any, err error) {
	if err != nil {
		n.add(ctx, kind, name, ending(nil, temporal.GetDefaultFailureConverter().ErrorToFailure(err)))
		return
	}
	body := ending(nil, nil)
	if result != nil || kind != stepEnd { // a workflow without a result has no payload
		body["result"] = n.payloads(result)
	}
	n.add(ctx, kind, name, body)
}

type notingIn struct {
	interceptor.WorkflowInboundInterceptorBase
	*noting
}

func (n *notingIn) Init(next interceptor.WorkflowOutboundInterceptor) error {
	out := &notingOut{noting: n.noting}
	out.Next = next
	return n.Next.Init(out)
}

func (n *notingIn) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	out, err := n.Next.ExecuteWorkflow(ctx, in)
	live, _ := workflow.NewDisconnectedContext(ctx) // the end of a workflow is always sent
	var anew *workflow.ContinueAsNewError
	var cancelled *temporal.CanceledError
	switch {
	case errors.As(err, &anew):
		n.add(live, stepEnd, "continued as new", map[string]any{"type": anew.WorkflowType.Name, "input": fromPayloads(anew.Input)})
	case errors.As(err, &cancelled):
		n.add(live, stepEnd, "cancelled", ending(nil, nil))
	case err != nil:
		n.ends(live, stepEnd, "failed", nil, err)
	default:
		n.ends(live, stepEnd, "completed", out, nil)
	}
	return out, err
}

func (n *notingIn) ExecuteUpdate(ctx workflow.Context, in *interceptor.UpdateInput) (any, error) {
	out, err := n.Next.ExecuteUpdate(ctx, in)
	live, _ := workflow.NewDisconnectedContext(ctx)
	n.ends(live, stepUpdate, updateName(in.Name, workflow.GetCurrentUpdateInfo(ctx).ID), out, err)
	return out, err
}

type notingOut struct {
	interceptor.WorkflowOutboundInterceptorBase
	*noting
}

func (n *notingOut) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	o := workflow.GetActivityOptions(ctx)
	retry := temporal.RetryPolicy{}
	if o.RetryPolicy != nil {
		retry = *o.RetryPolicy
	}
	once := o.StartToCloseTimeout
	if o.ScheduleToCloseTimeout > 0 {
		once = min(once, o.ScheduleToCloseTimeout) // the server does the same
	}
	n.add(ctx, stepActivity, name, map[string]any{
		"input": n.payloads(args...), "start_to_close": once.Seconds(), "schedule_to_close": o.ScheduleToCloseTimeout.Seconds(),
		"heartbeat": o.HeartbeatTimeout.Seconds(),
		"attempts":  retry.MaximumAttempts, "interval": retry.InitialInterval.Seconds(), "summary": o.Summary,
	})
	return n.Next.ExecuteActivity(ctx, name, args...)
}

func (n *notingOut) ExecuteChildWorkflow(ctx workflow.Context, name string, args ...any) workflow.ChildWorkflowFuture {
	o := workflow.GetChildWorkflowOptions(ctx)
	// The server sets what the workflow leaves out.
	if o.ParentClosePolicy == enums.PARENT_CLOSE_POLICY_UNSPECIFIED {
		o.ParentClosePolicy = enums.PARENT_CLOSE_POLICY_TERMINATE
	}
	if o.WorkflowIDReusePolicy == enums.WORKFLOW_ID_REUSE_POLICY_UNSPECIFIED {
		o.WorkflowIDReusePolicy = enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	n.add(ctx, stepChild, name, map[string]any{
		"id": o.WorkflowID, "input": n.payloads(args...), "memo": n.fields(o.Memo), "attributes": n.attributes(o.TypedSearchAttributes),
		"queue": cmp.Or(o.TaskQueue, workflow.GetInfo(ctx).TaskQueueName), "when_parent_ends": o.ParentClosePolicy.String(),
		"id_again": o.WorkflowIDReusePolicy.String(), "summary": o.StaticSummary,
	})
	return n.Next.ExecuteChildWorkflow(ctx, name, args...)
}

func (n *notingOut) SignalExternalWorkflow(ctx workflow.Context, id, run, name string, arg any) workflow.Future {
	n.add(ctx, stepSignal, name, map[string]any{"to": id, "run": run, "child": false, "input": n.payloads(arg)})
	return n.Next.SignalExternalWorkflow(ctx, id, run, name, arg)
}

func (n *notingOut) SignalChildWorkflow(ctx workflow.Context, id, name string, arg any) workflow.Future {
	n.add(ctx, stepSignal, name, map[string]any{"to": id, "run": "", "child": true, "input": n.payloads(arg)})
	return n.Next.SignalChildWorkflow(ctx, id, name, arg)
}

func (n *notingOut) RequestCancelExternalWorkflow(ctx workflow.Context, id, run string) workflow.Future {
	n.add(ctx, stepCancel, id, map[string]any{"run": run})
	return n.Next.RequestCancelExternalWorkflow(ctx, id, run)
}

func (n *notingOut) NewTimer(ctx workflow.Context, d time.Duration) workflow.Future {
	return n.NewTimerWithOptions(ctx, d, workflow.TimerOptions{})
}

// NewTimerWithOptions also sees the timers of workflow.Sleep and workflow.AwaitWithTimeout.
func (n *notingOut) NewTimerWithOptions(ctx workflow.Context, d time.Duration, o workflow.TimerOptions) workflow.Future {
	if d > 0 {
		n.add(ctx, stepTimer, "", map[string]any{"length": d.Seconds(), "summary": o.Summary})
	}
	return n.Next.NewTimerWithOptions(ctx, d, o)
}

// SideEffect notes no value: a replay takes it from the history.
func (n *notingOut) SideEffect(ctx workflow.Context, f func(workflow.Context) any) converter.EncodedValue {
	n.add(ctx, stepEffect, "", map[string]any{})
	return n.Next.SideEffect(ctx, f)
}

func (n *notingOut) UpsertTypedSearchAttributes(ctx workflow.Context, updates ...temporal.SearchAttributeUpdate) error {
	n.add(ctx, stepAttrs, "", n.attributes(temporal.NewSearchAttributes(updates...)))
	return n.Next.UpsertTypedSearchAttributes(ctx, updates...)
}

func (n *notingOut) UpsertMemo(ctx workflow.Context, memo map[string]any) error {
	n.add(ctx, stepMemo, "", n.fields(memo))
	return n.Next.UpsertMemo(ctx, memo)
}

func (n *notingOut) SetQueryHandler(ctx workflow.Context, name string, handler any) error {
	n.served[served{"query", name}] = handler
	return n.Next.SetQueryHandler(ctx, name, handler)
}

func (n *notingOut) SetUpdateHandler(ctx workflow.Context, name string, handler any, opts workflow.UpdateHandlerOptions) error {
	n.served[served{"update", name}] = handler
	return n.Next.SetUpdateHandler(ctx, name, handler, opts)
}

func (n *notingOut) GetSignalChannel(ctx workflow.Context, name string) workflow.ReceiveChannel {
	n.served[served{"signal", name}] = nil
	return n.Next.GetSignalChannel(ctx, name)
}

// The methods below note commands that no workflow uses yet. The replay does not compare
// them, so a test fails when a workflow uses one of them.

func (n *notingOut) unknown(what string) {
	n.broken = append(n.broken, fmt.Errorf("the workflow uses %s: noting_test.go does not compare those yet", what))
}

func (n *notingOut) ExecuteLocalActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	n.unknown("a local activity")
	return n.Next.ExecuteLocalActivity(ctx, name, args...)
}

func (n *notingOut) MutableSideEffect(ctx workflow.Context, id string, f func(workflow.Context) any, equals func(a, b any) bool) converter.EncodedValue {
	n.unknown("a mutable side effect")
	return n.Next.MutableSideEffect(ctx, id, f, equals)
}

func (n *notingOut) UpsertSearchAttributes(ctx workflow.Context, attributes map[string]any) error {
	n.unknown("untyped search attributes")
	return n.Next.UpsertSearchAttributes(ctx, attributes)
}
