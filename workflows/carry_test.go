package workflows

import (
	"testing"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/workflows/session"
)

type temporalContinue = workflow.ContinueAsNewError

func carried(t *testing.T, err *temporalContinue) session.Input {
	t.Helper()
	return carriedAs[session.Input](t, err)
}

func carriedAs[T any](t *testing.T, err *temporalContinue) T {
	t.Helper()
	var in T
	if e := converter.GetDefaultDataConverter().FromPayloads(err.Input, &in); e != nil {
		t.Fatal(e)
	}
	return in
}
