package flows

import (
	"context"
	"errors"
	"time"

	gate "fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/errkind"
)

// quiet is the side of a test: it signs nothing and tells nobody.
type quiet struct{}

func (quiet) Wait(def time.Duration) time.Duration { return def }
func (quiet) Note(string, ...any)                  {}
func (quiet) Begins() bool                         { return false }
func (quiet) Begin()                               {}
func (quiet) Keeper() *gate.Keeper                 { return nil }

func (quiet) Sign(_ context.Context, _ string, _ command.Kind, _, _ string, args []any) ([]any, error) {
	return args, nil
}

func asError(err error) *errkind.Error {
	var e *errkind.Error
	errors.As(err, &e)
	return e
}
