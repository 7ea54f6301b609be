package flows

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"

	gate "fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/payload"
)

// AnswerWait bounds the wait for a worker's answer.
const AnswerWait = 10 * time.Second

// A Conn is a connection to Temporal that returns errors of package errkind.
type Conn struct {
	client.Client
	Address   string
	Namespace string
	Codec     *payload.Codec
	Side      Side
	Silence   Silence

	left left
}

// A Side is what our program decides about a Conn.
type Side interface {
	// Wait returns how long to wait, which is def if nobody chose a time.
	Wait(def time.Duration) time.Duration
	// Note tells the user something.
	Note(format string, args ...any)
	// Begins reports whether requests may wait in Temporal until a worker handles them.
	Begins() bool
	// Begin makes Begins true.
	Begin()
	// Sign returns the arguments of a command with a signature, if workers require one.
	Sign(ctx context.Context, doing string, kind command.Kind, workflow, name string, args []any) ([]any, error)
	// Keeper returns the access file that judges commands which no worker has judged yet, or
	// nil.
	Keeper() *gate.Keeper
}

// Bounded returns a context that ends after the Side's Wait(def).
func (t *Conn) Bounded(ctx context.Context, def time.Duration) (context.Context, context.CancelFunc) {
	d := t.Side.Wait(def)
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("no answer within %s: %w", d, context.DeadlineExceeded))
}
