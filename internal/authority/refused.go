package authority

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/audit"
)

type refusedKey struct{}

// Refused puts a refused update on record. It is for validators: a refused update changes
// no workflow, so the record is the worker's. who is its principal, or "" if not known.
func Refused(ctx workflow.Context, name, verb string, raw []byte, who string, err error) {
	f, _ := ctx.Value(refusedKey{}).(func(audit.Record))
	refusedTo(f, Of(ctx), workflow.GetInfo(ctx).WorkflowExecution.ID, name, verb, raw, who, err)
}

func refusedTo(f func(audit.Record), k *Keeper, workflowID, name, verb string, raw []byte, who string, err error) {
	if f == nil {
		return
	}
	r := audit.OfCommand(workflowID, name, verb, raw, time.Time{}) // f knows the time
	if r.Principal = who; k == nil {
		r.Principal, r.Source = "", audit.Unix // f knows the user
	}
	r.Outcome, r.Reason = audit.Refused, err.Error()
	f(r)
}
