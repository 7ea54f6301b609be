package authority

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/audit"
)

type refusedKey struct{}

// Refused puts a refused update on record. It is for validators: a refused update changes
// no workflow, so the record is the worker's. v is the verdict on the update, which need not be
// why it is refused.
func Refused(ctx workflow.Context, name, verb string, raw []byte, v Verdict, err error) {
	f, _ := ctx.Value(refusedKey{}).(func(audit.Record))
	refusedTo(f, Of(ctx), workflow.GetInfo(ctx).WorkflowExecution.ID, name, verb, raw, v, err)
}

func refusedTo(f func(audit.Record), k *Keeper, workflowID, name, verb string, raw []byte, v Verdict, err error) {
	if f == nil {
		return
	}
	r := audit.OfCommand(workflowID, name, verb, raw, time.Time{}) // f knows the time
	if r.Principal, r.Access = v.Principal, v.Access; k == nil {
		r.Principal, r.Source = "", audit.Unix // f knows the user
	}
	r.Outcome, r.Reason = audit.Refused, err.Error()
	f(r)
}
