package workflows

import "go.temporal.io/sdk/workflow"

// A rollover decides when a run's history is long enough. Temporal refuses to end a run
// while a signal comes in, and repeats that workflow task. An update that came within the
// task is then answered with an error (measured). So no run ends in a task that took an
// update, unless updates never stop.
type rollover struct {
	ctx   workflow.Context
	taken int // the history's length when an update was last taken
}

// tooLong is the history length from which on the run waits for nothing, neither
// updates nor activities. Temporal ends a workflow at 51,200 events.
const tooLong = 20_000

// overdue reports whether the run must end soon, whatever goes on.
func (r *rollover) overdue() bool {
	return workflow.GetInfo(r.ctx).GetCurrentHistoryLength() > tooLong
}

func newRollover(ctx workflow.Context) *rollover { return &rollover{ctx: ctx, taken: -1} }

// took must be called by every update handler.
func (r *rollover) took() { r.taken = workflow.GetInfo(r.ctx).GetCurrentHistoryLength() }

func (r *rollover) due() bool {
	info := workflow.GetInfo(r.ctx)
	n := info.GetCurrentHistoryLength()
	return info.GetContinueAsNewSuggested() && (n != r.taken || r.overdue())
}
