package newer

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/version"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// Metric counts the tasks that were left to newer workers, with the label kind: workflow or
// activity.
const Metric = "fairlead_left_to_newer"

// header names what the session of an activity requires: a JSON list.
const header = "fairlead-requires"

// pause is before the next attempt at an activity, which any worker of the queue may get.
const pause = 2 * time.Second

// An Input of a workflow may have been written by a newer program.
type Input interface {
	// Required returns the names of features that the workflow uses.
	Required() []string
	// Unknown returns the fields that this program does not know.
	Unknown() []string
}

// JudgedWithin is an Input whose workflow itself judges who starts it, and then calls kit.Leave.
type JudgedWithin interface {
	Input
	JudgedWithin()
}

// Options are of an Interceptor.
type Options struct {
	Features []string // that this worker knows
	Logger   *slog.Logger
	Metrics  client.MetricsHandler // may be nil
}

// Interceptor returns the interceptor of a worker. An interceptor that judges starts comes before
// it: whoever may not start a workflow is refused, and does not wait for a newer worker. The judge
// calls Leave for what it accepts, before it does anything else for it.
func Interceptor(opts Options) *Guard { return &Guard{Options: opts} }

// A Guard is the interceptor of a worker.
type Guard struct {
	interceptor.WorkerInterceptorBase
	Options
}

func (g *Guard) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &inbound{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, guard: g}
}

func (g *Guard) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &activities{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, guard: g}
}

// left logs and counts a task that is left to newer workers. It does not use the workflow's
// logger and metrics, because these are silent in replays, and a worker mostly meets such a
// workflow in a replay.
func (g *Guard) left(kind, what string, lacks []string) {
	g.Logger.Error("left to a newer worker, because this worker lacks features or fields that it needs", "kind", kind, "of", what, "lacks", strings.Join(lacks, ", "), "version", version.String())
	if g.Metrics != nil {
		g.Metrics.WithTags(map[string]string{"kind": kind}).Counter(Metric).Inc(1)
	}
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	guard    *Guard
	requires []string
}

func (i *inbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&outbound{WorkflowOutboundInterceptorBase: interceptor.WorkflowOutboundInterceptorBase{Next: next}, of: i})
}

// ExecuteWorkflow fails the task of a workflow whose input this worker does not know
// completely.
func (i *inbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	requires, lacks := i.guard.look(in.Args)
	if len(lacks) == 0 {
		i.requires = requires
	} else {
		leave := func() { i.guard.leave(ctx, lacks, in.Args) }
		if !slices.ContainsFunc(in.Args, func(arg any) bool { _, ok := arg.(JudgedWithin); return ok }) {
			leave()
		}
		ctx = kit.Leaving(ctx, leave)
	}
	return i.Next.ExecuteWorkflow(ctx, in)
}

// Leave fails the task of a workflow whose input this worker does not know completely: it
// panics.
func (g *Guard) Leave(ctx workflow.Context, args []any) {
	if _, lacks := g.look(args); len(lacks) > 0 {
		g.leave(ctx, lacks, args)
	}
}

func (g *Guard) look(args []any) (requires, lacks []string) {
	for _, arg := range args {
		if of, ok := arg.(Input); ok {
			requires = append(requires, of.Required()...)
			lacks = append(lacks, of.Unknown()...)
		}
	}
	return requires, append(protocol.Lacking(requires, g.Features), lacks...)
}

func (g *Guard) leave(ctx workflow.Context, lacks []string, args []any) {
	id := workflow.GetInfo(ctx).WorkflowExecution.ID
	//workflowcheck:ignore // it logs and counts, and the task fails
	g.left("workflow", id, lacks)
	panic(fmt.Errorf("%s"+needs+"version %s) does not know: %s"+waits+": bring all workers of its zone up to date%s",
		id, version.String(), strings.Join(lacks, ", "), until(ctx, args)))
}

// until says how long a signed start waits. A worker that judges starts refuses it afterwards, as any
// start that is too old. A start by an earlier run, by another workflow of
// ours or by a schedule waits without a limit.
func until(ctx workflow.Context, args []any) string {
	if info := workflow.GetInfo(ctx); info.ContinuedExecutionRunID != "" || info.ParentWorkflowExecution != nil {
		return ""
	}
	for _, arg := range args {
		of, signed := arg.(interface{ CommandAuth() *protocol.Auth })
		if !signed || of.CommandAuth() == nil {
			continue
		}
		if s, stands := arg.(authority.StandingCommand); stands {
			if schedule, _, _ := s.Stands(); schedule != "" {
				continue
			}
		}
		//workflowcheck:ignore // a pure function
		at, err := time.Parse(time.RFC3339Nano, of.CommandAuth().At)
		if err == nil {
			return fmt.Sprintf(" by %s. It was signed at %s, and a signed start counts for %s", at.Add(command.KeptFor+command.MaxSkew).UTC().Format(time.RFC3339), of.CommandAuth().At, command.KeptFor+command.MaxSkew)
		}
	}
	return ""
}

type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	of *inbound
}

// ExecuteActivity says in the activity's header what its worker must know.
func (o *outbound) ExecuteActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	if h := interceptor.WorkflowHeader(ctx); len(o.of.requires) > 0 && h != nil {
		//workflowcheck:ignore // JSON is a pure function
		if data, err := json.Marshal(o.of.requires); err == nil {
			h[header] = &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)}, Data: data}
		}
	}
	return o.Next.ExecuteActivity(ctx, activityType, args...)
}

type activities struct {
	interceptor.ActivityInboundInterceptorBase
	guard *Guard
}

func (a *activities) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	var requires []string
	if p := interceptor.Header(ctx)[header]; p != nil {
		if err := json.Unmarshal(p.GetData(), &requires); err != nil {
			return nil, temporal.NewApplicationErrorWithOptions("read what the activity requires: "+err.Error(), protocol.ErrTypeNewer, temporal.ApplicationErrorOptions{NextRetryDelay: pause})
		}
	}
	lacks := protocol.Lacking(requires, a.guard.Features)
	if len(lacks) == 0 {
		return a.Next.ExecuteActivity(ctx, in)
	}
	info := activity.GetInfo(ctx)
	a.guard.left("activity", info.WorkflowExecution.ID+" "+info.ActivityType.Name, lacks)
	p := protocol.Problem{
		Kind: protocol.ErrTypeNewer, Passing: true, Hint: "bring all workers of the zone up to date",
		Message: fmt.Sprintf("the session needs what this worker (version %s) does not know: %s; another worker may do it", version.String(), strings.Join(lacks, ", ")),
	}
	return nil, temporal.NewApplicationErrorWithOptions(p.Message, p.Kind, temporal.ApplicationErrorOptions{NextRetryDelay: pause, Details: []any{p}})
}
