package workflows

import "go.temporal.io/sdk/workflow"

// A rollover says when a run's history is long enough. Temporal refuses to end
// a run while a signal comes in, and does that workflow task again: what came
// as an update within the task is then answered with an error (measured). So
// no run ends in a task that took an update, unless that goes on for ever.
type rollover struct {
	ctx   workflow.Context
	taken int // the history's length when an update was taken last
}

// tooLong is the history length from which on updates are no reason to wait;
// Temporal ends a workflow at 51,200 events.
const tooLong = 20_000

func newRollover(ctx workflow.Context) *rollover { return &rollover{ctx: ctx, taken: -1} }

// took is called by every handler of an update.
func (r *rollover) took() { r.taken = workflow.GetInfo(r.ctx).GetCurrentHistoryLength() }

func (r *rollover) due() bool {
	info := workflow.GetInfo(r.ctx)
	n := info.GetCurrentHistoryLength()
	return info.GetContinueAsNewSuggested() && (n != r.taken || n > tooLong)
}
