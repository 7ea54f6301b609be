package main

import (
	"errors"
	"fmt"

	temporalsdk "go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/workflows"
)

// codeOf returns the exit code for a failure that a workflow or a host reported.
func codeOf(kind string) int {
	switch kind {
	case activities.ErrTypeBadInput:
		return exitUsage
	case "host_not_found", "seed_not_found", workflows.RefusedNotFound:
		return exitNotFound
	case activities.ErrTypeUnreachable, activities.ErrTypeAuth, activities.ErrTypeHostKey,
		activities.ErrTypeStore, activities.ErrTypeWireLost, activities.ErrTypeRootMissing, "no_pool", "timeout":
		return exitUnreachable
	case activities.ErrTypeFenced, activities.ErrTypeOldIdentity, workflows.RefusedState:
		return exitRefused
	}
	return exitFailed
}

// failureExit returns ctl's error for the failure of a session or turn.
func failureExit(doing string, f *workflows.Failure) *exitError {
	if f == nil {
		return failed("%s: it failed", doing)
	}
	return newExit(codeOf(f.Kind), f.Kind, "%s: %s", doing, f.Message).hinted("%s", f.Hint)
}

// taskFailure replaces the error of a host task by the failure that its activity reported.
func (t *temporal) taskFailure(doing string, err error) error {
	var app *temporalsdk.ApplicationError
	if err == nil || !errors.As(err, &app) {
		return err
	}
	f := &workflows.Failure{Kind: app.Type(), Message: app.Message()}
	var p activities.Problem
	if app.HasDetails() && app.Details(&p) == nil && p.Kind != "" {
		f.Kind, f.Message, f.Hint = p.Kind, p.Message, p.Hint
	}
	return failureExit(doing, f).because(err)
}

// person names the user for the record, as user@machine. Nothing verifies it.
func person() string {
	return fmt.Sprintf("%s@%s", userName(), hostname())
}
