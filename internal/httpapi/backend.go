package httpapi

import (
	"context"
	"io"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// Sessions asks and commands workflows for the caller of the context. Its errors are those of
// package errkind. A key makes a command repeatable; it is empty, or unique to caller and
// Idempotency-Key. The views are JSON as ctl prints it.
type Sessions interface {
	Start(ctx context.Context, key string, in StartSession) (Started, error)
	// List returns at most limit sessions, newest first, and where to go on.
	List(ctx context.Context, in Filter, limit int, after []byte) (list []Listed, next []byte, err error)
	// Show returns a protocol.SessionView; what is not known is null.
	Show(ctx context.Context, id string) (any, error)
	Send(ctx context.Context, key, id string, in NewMessage) (protocol.MessageAccepted, error)
	Turn(ctx context.Context, id string, n int) (protocol.TurnView, error)
	// Tell tells a session one thing, such as protocol.Interrupt, and returns its view.
	Tell(ctx context.Context, key, id string, msg any) (any, error)
	TakeSnapshot(ctx context.Context, key, id string) (protocol.SnapshotAccepted, error)
	// Approvals lists those of one session, or of all that may allows.
	Approvals(ctx context.Context, session string, all bool, may func(session string) bool) ([]protocol.Approval, error)
	Approval(ctx context.Context, id string) (protocol.Approval, error)
	Decide(ctx context.Context, key string, d protocol.Decide) (protocol.Approval, error)
}

// A Listed session has its id beside its view.
type Listed struct {
	ID   string
	View any
}

// Records reads what the store and this worker keep; *[api.Records] implements it.
type Records interface {
	MayRead(ctx context.Context, session string) bool
	Known(ctx context.Context, session string) error
	Follow(ctx context.Context, session string, from int64, emit func(api.Event) error, flush func() error) error
	Entries(ctx context.Context, session string, from int64, limit int) ([]protocol.Entry, error)
	Deliverables(ctx context.Context, session string) ([]protocol.Deliverable, error)
	Deliverable(ctx context.Context, session, call string) (protocol.Deliverable, io.ReadCloser, error)
	Snapshots(ctx context.Context, session string) ([]snapshots.Manifest, error)
	Snapshot(ctx context.Context, id string) (snapshots.Manifest, error)
}

var _ Records = (*api.Records)(nil)
