// Package parked has workflows that tests leave in a database, to find them after the
// server has died or was replaced by a newer one.
package parked

import (
	"context"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Queue is the task queue.
const Queue = "parked"

// State is the search attribute that Notes sets.
var State = temporal.NewSearchAttributeKeyKeyword("FairleadState")

// Notes collects the texts of the signal "note", answers them to the query "notes", and
// ends with their number on the signal "finish".
func Notes(ctx workflow.Context) (int, error) {
	notes := []string{}
	if err := workflow.SetQueryHandler(ctx, "notes", func() ([]string, error) { return notes, nil }); err != nil {
		return 0, err
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, State.ValueSet("parked")); err != nil {
		return 0, err
	}
	finished := false
	s := workflow.NewSelector(ctx)
	s.AddReceive(workflow.GetSignalChannel(ctx, "note"), func(c workflow.ReceiveChannel, _ bool) {
		var text string
		c.Receive(ctx, &text)
		notes = append(notes, text)
	})
	s.AddReceive(workflow.GetSignalChannel(ctx, "finish"), func(c workflow.ReceiveChannel, _ bool) {
		c.Receive(ctx, nil)
		finished = true
	})
	for !finished || s.HasPending() {
		s.Select(ctx)
	}
	return len(notes), ctx.Err()
}

// Errand runs Work once and returns its answer.
func Errand(ctx workflow.Context) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	var answer string
	err := workflow.ExecuteActivity(ctx, Work).Get(ctx, &answer)
	return answer, err
}

// Work answers "done".
func Work(context.Context) (string, error) { return "done", nil }

// Register registers all of these with w.
func Register(w worker.Registry) {
	w.RegisterWorkflow(Notes)
	w.RegisterWorkflow(Errand)
	w.RegisterActivity(Work)
}
