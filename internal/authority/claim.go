package authority

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
)

// change names the versions of workflow code: with 1, starts and commands are judged; with
// 2, a signed start is claimed, too.
const change = "authority"

// Version returns the version under which a run began, or workflow.DefaultVersion. A worker
// with a keeper refuses runs of older versions, unless Keeper.AllowBefore allows them: whoever
// answers a task can leave out the record of the version.
func Version(ctx workflow.Context) workflow.Version {
	v := workflow.GetVersion(ctx, change, workflow.DefaultVersion, 2)
	info := workflow.GetInfo(ctx)
	if k := Of(ctx); k != nil && v < 2 && !info.WorkflowStartTime.Before(k.before) {
		panic(refusal(info.WorkflowType.Name, Verdict{Refused: "no worker that judges commands began this run (or only one of an older version), so workers with authority: required do not go on with it. If a worker of an older version began the run, set temporal.worker_payload_since of every worker to a time after the start of the run. Otherwise terminate the workflow"}))
	}
	return v
}

// claimed are the types of workflows that call Claim themselves, when they answer queries.
var claimed = map[string]bool{protocol.TypeSession: true, protocol.TypeBatch: true}

type verdictKey struct{}

// StartVerdict returns the verdict on the start of a workflow that the interceptor judged.
func StartVerdict(ctx workflow.Context) Verdict {
	v, _ := ctx.Value(verdictKey{}).(Verdict)
	return v
}

// Claim returns an error if a start that was signed was used before: anybody who may write
// to Temporal can start an ended workflow again with its own input. It waits for the store.
// It also returns an error if the activity refuses what the input asks about the start. The
// activity writes the records that wait in the workflow's ledger, too.
func Claim(ctx workflow.Context, name string, v Verdict, in protocol.ClaimStart) error {
	if v.Nonce == "" && in.Reads == nil && in.Owns == nil || Version(ctx) < 2 {
		return nil
	}
	info := workflow.GetInfo(ctx)
	in.Workflow, in.Run, in.Nonce, in.At = info.WorkflowExecution.ID, info.FirstRunID, v.Nonce, v.At
	var l *Ledger
	if g, ok := ctx.Value(gatedKey{}).(*gated); ok {
		l = g.ledger
	}
	in.Audit = l.batch()
	var out protocol.StartClaimed
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute, Summary: "has this start been used before?",
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
	}), protocol.ActivityClaimStart, in).Get(ctx, &out)
	if err == nil {
		v.Refused = out.Refused
		if v.Refused == "" && (out.Run != in.Run || out.Nonce != in.Nonce) {
			v.Refused = "the history has the answer to another start in this place, so this start does not count: start it again"
		}
		err = refusal(name, v)
	}
	l.claimed(out.Audited, err)
	return err
}
