package flows

import (
	"errors"

	temporalsdk "go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// codeOf returns the exit code for a reported failure.
func codeOf(kind string) int {
	switch kind {
	case protocol.ErrTypeBadInput:
		return errkind.ExitUsage
	case "host_not_found", "seed_not_found", protocol.RefusedNotFound:
		return errkind.ExitNotFound
	case protocol.ErrTypeUnreachable, protocol.ErrTypeAuth, protocol.ErrTypeHostKey,
		protocol.ErrTypeStore, protocol.ErrTypeWireLost, protocol.ErrTypeRootMissing, protocol.ErrTypeNewer, "no_pool", "timeout":
		return errkind.ExitUnreachable
	case protocol.ErrTypeFenced, protocol.ErrTypeOldIdentity, protocol.ErrTypeBounds, protocol.RefusedState, protocol.RefusedForbidden, protocol.RefusedPasskey:
		return errkind.ExitRefused
	}
	return errkind.ExitFailed
}

// FailureExit returns ctl's error for the failure of a session or turn.
func FailureExit(doing string, f *protocol.Failure) *errkind.Error {
	if f == nil {
		return errkind.Failed("%s: it failed", doing)
	}
	return errkind.New(codeOf(f.Kind), f.Kind, "%s: %s", doing, f.Message).Hinted("%s", f.Hint)
}

// TaskFailure replaces a host task's error by the failure that its activity reported.
func (t *Conn) TaskFailure(doing string, err error) error {
	var app *temporalsdk.ApplicationError
	if err == nil || !errors.As(err, &app) {
		return err
	}
	f := &protocol.Failure{Kind: app.Type(), Message: app.Message()}
	var p protocol.Problem
	if app.HasDetails() && app.Details(&p) == nil && p.Kind != "" {
		f.Kind, f.Message, f.Hint = p.Kind, p.Message, p.Hint
	}
	return FailureExit(doing, f).Because(err)
}
