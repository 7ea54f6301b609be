package apiflows

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"
	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
	gate "fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/passkey"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// Store keeps and reads what is too large for workflows; *[api.Records] implements it.
type Store interface {
	Whole(ctx context.Context, session, digest string) (protocol.Request, error)
	KeepPage(ctx context.Context, owner owned.Owner, request string, page protocol.BatchPage) (blob string, err error)
	KeepText(ctx context.Context, owner owned.Owner, request, text string) (blob string, err error)
	// KeepToken keeps a token for the server of a session's repository.
	KeepToken(ctx context.Context, session, repo, token string) (blob string, err error)
	BatchResults(ctx context.Context, blob string) ([]byte, error)
	Snapshot(ctx context.Context, id string) (snapshots.Manifest, error)
	Snapshots(ctx context.Context, session string) ([]snapshots.Manifest, error)
	AuditLines(ctx context.Context, workflow string) iter.Seq2[string, error]
	AuditHead() *protocol.AuditHead
	Access() *access.Access
}

// Options configure a Backend.
type Options struct {
	// Key is the worker's, which signs for the caller; nil with authority: local.
	Key ssh.Signer
	// Keeper judges commands that Temporal keeps and no worker has judged; it may return nil.
	Keeper func() *gate.Keeper
	// Owner gives the commands with authority: local.
	Owner string
	// Passkeys verifies what people's passkeys sign; nil means that there are none.
	Passkeys *passkey.Book
	// Zone is where keys of requests are kept.
	Zone string
	// Workers asks the workers of a zone for their status. silent are the identities of those
	// that do not answer. It may be nil.
	Workers func(ctx context.Context, c client.Client, zone string) (statuses []api.Status, silent []string, err error)
	// Asking returns sessions that have open approvals even if Temporal's list lacks them for a
	// moment. It may be nil.
	Asking func() []string
	Logger *slog.Logger
}

// A Backend implements httpapi.Backend.
type Backend struct {
	changes
	opts     Options
	store    Store
	temporal atomic.Pointer[temporal]
}

type temporal struct {
	client.Client
	codec              *payload.Codec
	address, namespace string
}

var (
	_ httpapi.Backend = (*Backend)(nil)
	_ flows.Asks      = (*side)(nil)
)

// New returns a Backend, which answers once it is connected.
func New(opts Options) *Backend {
	b := &Backend{opts: opts}
	b.changes = changes{b}
	return b
}

// Keep sets where long texts go.
func (b *Backend) Keep(s Store) { b.store = s }

// Connect sets the client of Temporal, which has no keys of a worker.
func (b *Backend) Connect(c client.Client, codec *payload.Codec, address, namespace string) {
	b.temporal.Store(&temporal{c, codec, address, namespace})
}

// conn returns a connection for one request.
func (b *Backend) conn() (*flows.Conn, error) {
	t := b.temporal.Load()
	if t == nil {
		return nil, errkind.Unreachable("this worker is not connected to Temporal yet").Hinted("try again in a moment")
	}
	return &flows.Conn{Client: t.Client, Codec: t.codec, Address: t.address, Namespace: t.namespace, Side: &side{b: b}}, nil
}

// in is conn for a request about a zone.
func (b *Backend) in(zone string) (*flows.Conn, error) {
	if zone != "" {
		if err := errkind.CheckName("zone", zone); err != nil {
			return nil, err
		}
	}
	return b.conn()
}

// by returns who gives the commands of a request.
func (b *Backend) by(ctx context.Context) string {
	if who, _, known := api.Principal(ctx); known {
		return who
	}
	return b.opts.Owner
}

// side is what the API decides about a connection for one request.
type side struct {
	b      *Backend
	begins bool
}

// longestWait bounds the wait for a worker, so that a client hears in time that none answers.
const longestWait = 10 * time.Second

func (s *side) Wait(def time.Duration) time.Duration { return min(def, longestWait) }
func (s *side) Begins() bool                         { return s.begins }
func (s *side) Begin()                               { s.begins = true }

func (s *side) Note(format string, args ...any) {
	s.b.opts.Logger.Debug("api", "note", fmt.Sprintf(format, args...))
}

func (s *side) Keeper() *gate.Keeper {
	if s.b.opts.Keeper == nil {
		return nil
	}
	return s.b.opts.Keeper()
}

// Understood refuses a session that a worker of its zone would run without some of its options.
func (s *side) Understood(ctx context.Context, zone string, requires []string) error {
	t := s.b.temporal.Load()
	if len(requires) == 0 || s.b.opts.Workers == nil || t == nil {
		return nil
	}
	statuses, silent, err := s.b.opts.Workers(ctx, t.Client, zone)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		s.Note("not known whether the workers of zone %s know %s: %v", zone, strings.Join(requires, ", "), err)
		return nil
	}
	note, err := flows.Understood(zone, requires, statuses, silent)
	if note != "" {
		s.Note("%s", note)
	}
	return err
}

// Sign signs for the principal of the request.
func (s *side) Sign(ctx context.Context, doing string, kind command.Kind, workflow, name string, args []any) ([]any, error) {
	if s.b.opts.Key == nil || len(args) != 1 {
		return args, nil
	}
	who, groups, known := api.Principal(ctx)
	if !known || who == "" {
		return nil, errkind.New(errkind.ExitRefused, protocol.RefusedForbidden, "%s: the request does not prove its principal", doing)
	}
	raw, err := command.Marshal(args[0])
	if err != nil {
		return nil, errkind.Failed("%s: %v", doing, err).Because(err)
	}
	out, err := command.SignAs(kind, s.b.opts.Key, who, groups, workflow, name, raw, time.Now())
	if err != nil {
		return nil, errkind.Failed("%s: %v", doing, err).Because(err)
	}
	return []any{out}, nil
}
