package workflows

import (
	"testing"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
)

type temporalContinue = workflow.ContinueAsNewError

func carried(t *testing.T, err *temporalContinue) SessionInput {
	t.Helper()
	return carriedAs[SessionInput](t, err)
}

func carriedAs[T any](t *testing.T, err *temporalContinue) T {
	t.Helper()
	var in T
	if e := converter.GetDefaultDataConverter().FromPayloads(err.Input, &in); e != nil {
		t.Fatal(e)
	}
	return in
}
