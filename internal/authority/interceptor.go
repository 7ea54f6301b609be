package authority

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
)

// keptFor is how old the start of a workflow may be, if no worker was up.
const keptFor = 24 * time.Hour

// updates and starts are the commands that the interceptor admits, and the verbs that they
// need. Sessions and batches admit their own.
var (
	updates = map[string]access.Verb{
		protocol.UpdatePutHost:    access.HostWrite,
		protocol.UpdatePutHosts:   access.HostWrite,
		protocol.UpdateRemoveHost: access.HostWrite,
		protocol.UpdateSetHost:    access.HostWrite,
		protocol.UpdateSetPool:    access.HostWrite,
		protocol.UpdatePausePool:  access.HostWrite,
		protocol.UpdatePutSeed:    access.SeedWrite,
		protocol.UpdateSetSeed:    access.SeedWrite,
		protocol.UpdateReviveSeed: access.SeedWrite,
		protocol.UpdateDeleteSeed: access.SeedWrite,
		protocol.UpdateVerifySeed: access.SeedWrite,
		protocol.UpdateExportSeed: access.SeedExport,
	}
	starts = map[string]access.Verb{
		protocol.TypeProvision:      access.HostWrite,
		protocol.TypeCheck:          access.HostWrite,
		protocol.TypeScan:           access.HostWrite,
		protocol.TypeExec:           access.HostExec,
		protocol.TypeCapture:        access.SeedWrite,
		protocol.TypeLogin:          access.SeedWrite,
		protocol.TypeRotate:         access.SeedWrite,
		protocol.TypePrune:          access.SnapshotWrite,
		protocol.TypeCheckSnapshots: access.SnapshotWrite,
		protocol.TypeBatch:          access.BatchRun,
		protocol.TypeFire:           access.ScheduleWrite,
	}
)

// Interceptor gives workflows the keeper of their worker, and refuses updates and starts
// that nobody may give. Every worker has it, also one whose keeper is nil, since it records
// what it decides: two events in the history of each workflow that a person starts.
//
// refused, if given, gets the records of updates that were refused. It is called from
// validators, never in a replay.
func Interceptor(k *Keeper, refused ...func(audit.Record)) interceptor.WorkerInterceptor {
	g := &gate{keeper: k}
	for _, f := range refused {
		g.refused = f
	}
	return g
}

type gate struct {
	interceptor.WorkerInterceptorBase
	keeper  *Keeper
	refused func(audit.Record)
}

func (g *gate) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &gated{interceptor.WorkflowInboundInterceptorBase{Next: next}, g.keeper, g.refused}
}

type gated struct {
	interceptor.WorkflowInboundInterceptorBase
	keeper  *Keeper
	refused func(audit.Record)
}

func (g *gated) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	ctx = workflow.WithValue(ctx, keeperKey{}, g.keeper)
	ctx = workflow.WithValue(ctx, refusedKey{}, g.refused)
	info := workflow.GetInfo(ctx)
	verb, given := starts[info.WorkflowType.Name]
	if given && info.ParentWorkflowExecution == nil && info.ContinuedExecutionRunID == "" &&
		workflow.GetVersion(ctx, "authority", workflow.DefaultVersion, 1) >= 1 {
		var v Verdict
		err := workflow.SideEffect(ctx, func(workflow.Context) any {
			return g.judge(info.WorkflowExecution.ID, info.WorkflowType.Name, verb, in.Args, keptFor)
		}).Get(&v)
		if err == nil {
			err = refusal(info.WorkflowType.Name, v)
		}
		if err != nil {
			return nil, err
		}
		in.Args = named(in.Args)
	}
	return g.Next.ExecuteWorkflow(ctx, in)
}

func (g *gated) ValidateUpdate(ctx workflow.Context, in *interceptor.UpdateInput) error {
	if verb, given := updates[in.Name]; given {
		v, args := g.judge(workflow.GetInfo(ctx).WorkflowExecution.ID, in.Name, verb, in.Args, 0), in.Args
		err := refusal(in.Name, v)
		if err == nil {
			in.Args = named(in.Args)
			err = g.Next.ValidateUpdate(ctx, in)
		}
		if err != nil && len(args) == 1 {
			if raw, merr := command.Marshal(args[0]); merr == nil {
				refusedTo(g.refused, g.keeper, workflow.GetInfo(ctx).WorkflowExecution.ID, in.Name, string(verb), raw, v.Principal, err)
			}
		}
		return err
	}
	return g.Next.ValidateUpdate(ctx, in)
}

func (g *gated) ExecuteUpdate(ctx workflow.Context, in *interceptor.UpdateInput) (any, error) {
	if _, given := updates[in.Name]; given {
		in.Args = named(in.Args)
	}
	return g.Next.ExecuteUpdate(ctx, in)
}

func (g *gated) judge(workflowID, name string, verb access.Verb, args []any, waited time.Duration) Verdict {
	if g.keeper == nil {
		return Verdict{}
	}
	if len(args) != 1 {
		return Verdict{Refused: fmt.Sprintf("%s has %d arguments, and one can be signed", name, len(args))}
	}
	raw, err := command.Marshal(args[0])
	if err != nil {
		return Verdict{Refused: err.Error()}
	}
	return g.keeper.Judge(Command{Received: command.Received{Workflow: workflowID, Name: name, Raw: raw, Waited: waited}, Verb: verb, Object: objectOf(workflowID, args[0])})
}

func objectOf(workflowID string, arg any) (o access.Object) {
	if c, ok := arg.(interface{ Concerns() (host, seed string) }); ok {
		o.Host, o.Seed = c.Concerns()
	}
	if name, ok := strings.CutPrefix(workflowID, protocol.SeedID("")); ok {
		o.Seed = name
	}
	return o
}

func refusal(name string, v Verdict) error {
	if v.Refused == "" {
		return nil
	}
	return temporal.NewNonRetryableApplicationError(name+": "+v.Refused, protocol.RefusedForbidden, nil)
}

// named returns the arguments of a signed command with its principal in the field By.
func named(args []any) []any {
	if len(args) != 1 {
		return args
	}
	c, ok := args[0].(interface{ CommandAuth() *protocol.Auth })
	if !ok || c.CommandAuth() == nil {
		return args
	}
	v := reflect.New(reflect.TypeOf(args[0])).Elem()
	v.Set(reflect.ValueOf(args[0]))
	if by := v.FieldByName("By"); by.IsValid() && by.Kind() == reflect.String {
		by.SetString(c.CommandAuth().Principal)
	}
	return []any{v.Interface()}
}
