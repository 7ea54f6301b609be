package main

import (
	"context"
	"fmt"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/workflows"
)

// wholeOutput reads the output of a turn whose final text was cut out of the
// transcript, which has it whole.
func (a *app) wholeOutput(ctx context.Context, t *temporal, session string, turn *workflows.TurnView) {
	if !turn.Structured || turn.OutputError == "" || !turn.FinalTruncated {
		return
	}
	c, err := a.workerFor(ctx, t, session)
	if err != nil {
		return // the error that is there says where the whole is
	}
	last := ""
	for e, err := range c.Transcript(ctx, session, 1) {
		if err != nil {
			return
		}
		if e.Turn == turn.N && e.Type == activities.EntryAssistant {
			last = e.Text
		}
	}
	if last != "" {
		turn.ParseOutput(last)
	}
}

// outputOf is what is printed of a turn's end: with an output schema its JSON.
func outputOf(turn workflows.TurnView) string {
	if len(turn.Output) > 0 {
		return string(turn.Output) // a valid JSON text has no control character outside of escapes
	}
	return clean(turn.FinalText)
}

// badOutput is of a turn that was to end with JSON and did not.
func badOutput(turn workflows.TurnView) error {
	if !turn.Structured || turn.OutputError == "" || turn.Status != "completed" {
		return nil
	}
	return newExit(exitFailed, "output", "turn %d: %s", turn.N, turn.OutputError).
		hinted("%s", fmt.Sprintf("`ctl transcript %s` has what it said; not every model keeps to an output schema", turn.Session))
}
