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
func Interceptor(k *Keeper) interceptor.WorkerInterceptor { return &gate{keeper: k} }

type gate struct {
	interceptor.WorkerInterceptorBase
	keeper *Keeper
}

func (g *gate) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &gated{interceptor.WorkflowInboundInterceptorBase{Next: next}, g.keeper}
}

type gated struct {
	interceptor.WorkflowInboundInterceptorBase
	keeper *Keeper
}

func (g *gated) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	ctx = workflow.WithValue(ctx, keeperKey{}, g.keeper)
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
		in.Args = grouped(named(in.Args), v.Groups)
	}
	return g.Next.ExecuteWorkflow(ctx, in)
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

// grouped returns the arguments of a start with the groups of its principal in the field
// Groups, whatever was there.
func grouped(args []any, groups []string) []any {
	if len(args) != 1 || args[0] == nil || reflect.TypeOf(args[0]).Kind() != reflect.Struct {
		return args
	}
	v := reflect.New(reflect.TypeOf(args[0])).Elem()
	v.Set(reflect.ValueOf(args[0]))
	to := v.FieldByName("Groups")
	if !to.IsValid() || to.Type() != reflect.TypeFor[[]string]() {
		return args
	}
	to.Set(reflect.ValueOf(groups))
	return []any{v.Interface()}
}
