package kit

import (
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
)

// A Rollover decides when a run's history is long enough. Temporal refuses to end a run
// while a signal comes in, and repeats that workflow task. An update of that task is then
// answered with an error (measured). So no run ends in a task that took an update, unless
// it is overdue.
type Rollover struct {
	ctx   workflow.Context
	taken int // history length at the last update
	renew workflow.ReceiveChannel
}

// TooLong is the history length from which on the run waits for nothing. Temporal ends a
// workflow at 51,200 events.
const TooLong = 20_000

// Overdue reports whether the run must end whatever goes on.
func (r *Rollover) Overdue() bool {
	return workflow.GetInfo(r.ctx).GetCurrentHistoryLength() > TooLong
}

// NewRollover returns the rollover of ctx's run.
func NewRollover(ctx workflow.Context) *Rollover {
	return &Rollover{ctx: ctx, taken: -1, renew: workflow.GetSignalChannel(ctx, protocol.SignalRenew)}
}

// Took must be called by every update handler.
func (r *Rollover) Took() { r.taken = workflow.GetInfo(r.ctx).GetCurrentHistoryLength() }

// Due reports whether the run is to end, because its history is long or a worker asks it to
// go on under the rules of new runs. The signal stays unread: it ends with the run.
func (r *Rollover) Due() bool {
	info := workflow.GetInfo(r.ctx)
	n := info.GetCurrentHistoryLength()
	return (info.GetContinueAsNewSuggested() || r.renew.Len() > 0) && (n != r.taken || r.Overdue())
}
