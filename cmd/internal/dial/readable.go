package dial

import (
	"context"
	"errors"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/payload"
)

// recent is in events.
const recent = 100

// Readable checks whether our keys can read the oldest and newest events of a workflow. If
// not, the error wraps payload.ErrNoKey or payload.ErrTorn. Other errors mean that the
// check failed. A missing workflow is no error.
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
	for _, h := range []*historypb.History{first.GetHistory(), last.GetHistory()} {
		err := proxy.VisitPayloads(ctx, h, proxy.VisitPayloadsOptions{
			Visitor: func(_ *proxy.VisitPayloadsContext, in []*commonpb.Payload) ([]*commonpb.Payload, error) {
				_, err := codec.Decode(in)
				return in, err
			},
			SkipSearchAttributes: true,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
