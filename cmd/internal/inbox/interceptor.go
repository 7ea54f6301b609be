package inbox

import (
	"strings"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
)

// Interceptor returns the interceptor of a worker. It tells the Inbox of each session that changes
// what lists show of it. It does nothing in a replay, and workflows do not notice it.
func (b *Inbox) Interceptor() interceptor.WorkerInterceptor { return &stirs{inbox: b} }

type stirs struct {
	interceptor.WorkerInterceptorBase
	inbox *Inbox
}

func (i *stirs) InterceptWorkflow(ctx workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	if workflow.GetInfo(ctx).WorkflowType.Name != protocol.TypeSession {
		return next
	}
	return &inbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, i.inbox}
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	inbox *Inbox
}

func (i *inbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&outbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}, i.inbox})
}

type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	inbox *Inbox
}

func (o *outbound) UpsertTypedSearchAttributes(ctx workflow.Context, attributes ...temporal.SearchAttributeUpdate) error {
	err := o.Next.UpsertTypedSearchAttributes(ctx, attributes...)
	if err == nil && !workflow.IsReplaying(ctx) {
		o.inbox.Stir(strings.TrimPrefix(workflow.GetInfo(ctx).WorkflowExecution.ID, protocol.SessionID("")))
	}
	return err
}
