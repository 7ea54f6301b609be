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

// recent is how many of a workflow's newest events Readable looks at.
const recent = 100

// Readable looks whether what is on record of a workflow, at its beginning and
// of late, can be read with our keys: nil, or an error that wraps
// payload.ErrNoKey or payload.ErrTorn, or why it cannot be looked at. A workflow
// that is not there can be read.
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
