package dial

import (
	"context"
	"errors"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/payload"
)

// recent is in events.
const recent = 100

// Readable checks whether our keys can read the oldest and newest events of a workflow, and
// whether the form of its input is accepted. If not, the error wraps a payload.Error. Other
// errors mean that the check failed. A missing workflow is no error. Newer events may hold
// payloads that are refused: anybody who may write to Temporal can send them.
func Readable(ctx context.Context, c client.Client, namespace string, codec *payload.Codec, workflowID string) error {
	which := &commonpb.WorkflowExecution{WorkflowId: workflowID}
	first, err := c.WorkflowService().GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: namespace, Execution: which, MaximumPageSize: 1,
	})
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return nil
	}
	if err != nil {
		return err
	}
	last, err := c.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
		Namespace: namespace, Execution: which, MaximumPageSize: recent,
	})
	if err != nil {
		return err
	}
	err = proxy.VisitPayloads(ctx, last.GetHistory(), proxy.VisitPayloadsOptions{
		Visitor: func(_ *proxy.VisitPayloadsContext, in []*commonpb.Payload) ([]*commonpb.Payload, error) {
			for _, p := range in {
				if _, err := codec.Decode([]*commonpb.Payload{p}); errors.Is(err, payload.ErrNoKey) {
					return nil, err
				}
			}
			return in, nil
		},
		SkipSearchAttributes: true,
	})
	if err != nil {
		return err
	}
	for _, ev := range first.GetHistory().GetEvents() {
		input := ev.GetWorkflowExecutionStartedEventAttributes().GetInput()
		for _, p := range input.GetPayloads() {
			if err := codec.Accepts(workflowID, ev.GetEventTime().AsTime(), p); err != nil {
				return err
			}
		}
	}
	return nil
}
