package workflows

import (
	"testing"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
)

type temporalContinue = workflow.ContinueAsNewError

// carried reads the input that a rollover hands on.
func carried(t *testing.T, err *temporalContinue) SessionInput {
	t.Helper()
	var in SessionInput
	if e := converter.GetDefaultDataConverter().FromPayloads(err.Input, &in); e != nil {
		t.Fatal(e)
	}
	return in
}
