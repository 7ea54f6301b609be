package main

import (
	"errors"
	"testing"

	"go.temporal.io/api/serviceerror"
)

// A query may be handed to a worker while a workflow task ends: that says
// nothing of the workflow, and a person is not bothered with it.
func TestAQueryThatMetAWorkflowTaskIsAskedAgain(t *testing.T) {
	met := serviceerror.NewQueryFailed("[TMPRL1100] invalid state transition: attempt to handleInitiatedEvent, CommandType: Activity, ID: 25, state=Created")
	tries := 0
	err := whenReady(t.Context(), func() error {
		if tries++; tries < 3 {
			return met
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("after %d tries: %v", tries, err)
	}
	tries = 0
	if err := whenReady(t.Context(), func() error { tries++; return met }); !errors.Is(err, met) || tries != maxMet+1 {
		t.Errorf("one that always fails: after %d tries: %v", tries, err)
	}
	tries = 0
	other := serviceerror.NewQueryFailed("unknown queryType wrong")
	if err := whenReady(t.Context(), func() error { tries++; return other }); !errors.Is(err, other) || tries != 1 {
		t.Errorf("another failure: after %d tries: %v", tries, err)
	}
}
