package httpapi

import (
	"context"
	"io"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/owned"
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
	SetSession(ctx context.Context, key, id string, in SessionSettings) (any, error)
	// Act has codex do something as a turn of its own.
	Act(ctx context.Context, key, id string, act protocol.Act, review *protocol.Review) (protocol.MessageAccepted, error)
	Models(ctx context.Context, id string) (protocol.ModelsView, error)
	Push(ctx context.Context, key, id string, in Pushing) (Pushed, error)
	TakeSnapshot(ctx context.Context, key, id string) (protocol.SnapshotAccepted, error)
	// Restore starts a session that goes on from a snapshot.
	Restore(ctx context.Context, key, snapshot string, in StartSession) (Started, error)
	// Fork starts a session that goes on from where another one is.
	Fork(ctx context.Context, key, id string, in StartSession) (Started, error)
	// Approvals lists those of one session, or of all that may allows.
	Approvals(ctx context.Context, session string, all bool, may func(session string) bool) ([]protocol.Approval, error)
	Approval(ctx context.Context, id string) (protocol.Approval, error)
	Decide(ctx context.Context, key string, d protocol.Decide) (protocol.Approval, error)
}

// Fleet asks and commands what sessions run on.
type Fleet interface {
	Hosts(ctx context.Context, zone string) ([]protocol.HostView, error)
	Host(ctx context.Context, zone, name string) (protocol.HostView, error)
	// CheckHost finds out whether sessions can run on a host.
	CheckHost(ctx context.Context, zone, name string) (protocol.CheckHostResult, error)
	// SetHost drains a host, or lets new sessions onto it.
	SetHost(ctx context.Context, key, zone string, in protocol.SetHost) (protocol.DrainView, error)
	PutHost(ctx context.Context, key, zone, name string, in NewHost) (protocol.HostView, error)
	RemoveHost(ctx context.Context, zone string, in protocol.RemoveHost) (protocol.HostView, error)
	Pools(ctx context.Context) ([]protocol.PoolView, error)
	Pool(ctx context.Context, zone string) (protocol.PoolView, error)
	SetPool(ctx context.Context, key, zone string, in protocol.SetPool) (protocol.PoolView, error)
	PausePool(ctx context.Context, key, zone string, in protocol.PausePool) (protocol.PoolView, error)
	// ChangeSeed tells a seed one thing, such as protocol.SetSeed.
	ChangeSeed(ctx context.Context, key, name string, msg any) (protocol.SeedView, error)
	// Seeds lists those that may allows, of a pool or all.
	Seeds(ctx context.Context, pool string, may func(seed string) bool) ([]protocol.SeedView, error)
	Seed(ctx context.Context, name string) (protocol.SeedView, error)
}

// Batches asks and commands batches and schedules.
type Batches interface {
	// ListBatches returns at most limit batches, newest first, and where to go on.
	ListBatches(ctx context.Context, schedule string, limit int, after []byte) (list []protocol.BatchView, next []byte, err error)
	Batch(ctx context.Context, id string) (protocol.BatchShown, error)
	// BatchResults returns at most limit results from the number from on.
	BatchResults(ctx context.Context, id string, from, limit int) ([]protocol.BatchResult, error)
	StartBatch(ctx context.Context, key, id string, in StartBatch) (StartedBatch, error)
	CancelBatch(ctx context.Context, key, id string, in Closing) (protocol.BatchView, error)
	SetBatch(ctx context.Context, key, id string, in BatchSettings) (protocol.BatchView, error)
	RetryBatch(ctx context.Context, key, id string, in RetryingBatch) (protocol.BatchView, error)
	// Schedules lists those that may allows, which gets who made them.
	Schedules(ctx context.Context, may func(by string) bool) ([]protocol.ScheduleView, error)
	Schedule(ctx context.Context, name string) (protocol.ScheduleView, error)
	CreateSchedule(ctx context.Context, key, name string, in NewSchedule) (protocol.ScheduleView, error)
	PauseSchedule(ctx context.Context, key, name, reason string) error
	ResumeSchedule(ctx context.Context, key, name string) error
	// TriggerSchedule returns the id of what began, or "" if it waits.
	TriggerSchedule(ctx context.Context, key, name, overlap string) (string, error)
	BackfillSchedule(ctx context.Context, key, name string, in Backfill) (Backfilled, error)
	DeleteSchedule(ctx context.Context, name string, stop bool) (protocol.ScheduleDeleted, error)
}

// Auditor reads audit records.
type Auditor interface {
	// AuditRecords returns the wanted records, chain by chain, each with its exact line.
	AuditRecords(ctx context.Context, f audit.Filter) ([]audit.Log, error)
	// VerifyAudit verifies the chains with a wanted record. proofs also judges their evidence.
	VerifyAudit(ctx context.Context, f audit.Filter, proofs bool) (audit.Verified, error)
}

// A Backend has all that the API asks of workflows.
type Backend interface {
	Sessions
	Fleet
	Batches
	Auditor
}

// A Listed session has its id beside its view.
type Listed struct {
	ID   string
	View any
}

// Records reads what the store and this worker keep; *[api.Records] implements it.
type Records interface {
	MayRead(ctx context.Context, session string) bool
	MayReadBatch(ctx context.Context, id string) bool
	May(ctx context.Context, verb access.Verb, o access.Object) bool
	Known(ctx context.Context, session string) error
	Follow(ctx context.Context, session string, from int64, emit func(api.Event) error, flush func() error) error
	Entries(ctx context.Context, session string, from int64, limit int) ([]protocol.Entry, error)
	Deliverables(ctx context.Context, session string) ([]protocol.Deliverable, error)
	Deliverable(ctx context.Context, session, call string) (protocol.Deliverable, io.ReadCloser, error)
	// KeepInput and KeepTree keep an upload for a session that may not exist yet.
	KeepInput(ctx context.Context, owner owned.Owner, sent api.Sent, kind protocol.InputKind, name string) (protocol.Input, error)
	KeepTree(ctx context.Context, session string, sent api.Sent) (snapshots.Manifest, error)
	// Archive returns the size and the digest of what OpenArchive opens.
	Archive(ctx context.Context, snapshot string) (api.Exported, error)
	OpenArchive(ctx context.Context, snapshot string) (io.ReadCloser, error)
	// ForgetArchive says that what OpenArchive gave had another digest.
	ForgetArchive(snapshot string)
	// Files writes files of a work folder as a tar archive.
	Files(ctx context.Context, session string, paths []string, moving bool, to io.Writer) error
	WorkDiff(ctx context.Context, session string, moving bool) (protocol.WorkDiff, error)
	TurnDiff(ctx context.Context, session string, turn int) (protocol.TurnDiff, error)
	// Snapshots lists those of a session, or of all that the caller may read.
	Snapshots(ctx context.Context, session string) ([]snapshots.Manifest, error)
	Snapshot(ctx context.Context, id string) (snapshots.Manifest, error)
	DeleteSnapshot(ctx context.Context, id string) (snapshots.Manifest, error)
}

var _ Records = (*api.Records)(nil)
