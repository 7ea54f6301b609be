package site

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/activities/codexpkg"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// HostPool returns the host of a spec; *hostexec.Pool is one.
type HostPool interface {
	Host(protocol.HostSpec) (hostexec.Host, error)
}

// Deps are what activities depend on. Pool and Store are required.
type Deps struct {
	Pool  HostPool
	Store *store.Store
	// Chunks is the chunk store on top of Store. A process must have only one; nil
	// opens it.
	Chunks *chunks.Store
	// Live may be nil: then nobody watches.
	Live records.Live
	// Codex has the codex packages that the worker can copy to hosts; nil means none.
	Codex *codexpkg.CodexSource
	// APIAddress is the address of this worker's HTTP API. It goes into the heartbeats
	// of pumps, so that viewers find the worker that is attached.
	APIAddress string
	// MaxLine is the length in bytes of the longest line of codex that is read whole; 0
	// means conversation.DefaultMaxLine. All workers need the same value, because the
	// transcript records which lines were skipped.
	MaxLine int
	// Unprotected is UnprotectedAllow if a session with a seed may use a host where
	// codex cannot keep its commands from the credential. With any other value, such a
	// session is refused.
	Unprotected string
	// AnyVersion lets sessions use a codex whose version is outside of the range that
	// conversation allows.
	AnyVersion bool
	// Temporal is used by Engine, and by WatchHost to signal sessions. It may be nil
	// if neither is used.
	Temporal client.Client
	// Namespace is the id of Temporal's namespace: see NamespaceID.
	Namespace string
	// TokenEndpoint is the URL at which we and codex on hosts refresh logins. Issuer is
	// the URL at which people log in on a host. Empty means codex's own.
	TokenEndpoint, Issuer string
	// Snapshots are the limits of snapshots.
	Snapshots SnapshotLimits
	// Deliver limits the files that codex may deliver.
	Deliver DeliverLimits
	// WatchEvery is the pause between looks at the processes of waiting sessions; 0
	// means the constant WatchEvery.
	WatchEvery time.Duration
	Logger     *slog.Logger
	// Lag, if set, is called with the age of each event of codex when a pump reads the
	// event. The age is wrong by the difference between the clocks of host and worker.
	Lag func(time.Duration)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// NewSite completes the dependencies, and makes the site of a worker.
func NewSite(d Deps) *Site {
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Chunks == nil && d.Store != nil {
		d.Chunks = chunks.Open(d.Store, chunks.Options{Logger: d.Logger})
	}
	s := &Site{
		Deps:     d,
		Tokens:   inquiry.TemporalTokens{Client: d.Temporal},
		Confined: map[string]bool{},
		busy:     map[string]chan struct{}{},
		Takes:    kit.NewGate(kit.MovesPerWorker, kit.MovesPerHost, kit.MovesWaiting),
		Brings:   kit.NewGate(kit.MovesPerWorker, kit.MovesPerHost, kit.MovesWaiting),
	}
	s.Ask = func(ctx context.Context, name string) (inquiry.SeedNow, bool, error) {
		return inquiry.AskSeedIfAny(ctx, d.Temporal, name)
	}
	s.AskSession = func(ctx context.Context, session string) (inquiry.SessionNow, error) {
		return inquiry.AskSession(ctx, d.Temporal, session)
	}
	s.AskLeft = func(ctx context.Context) ([]inquiry.LeftThere, error) { return inquiry.AskPools(ctx, d.Temporal) }
	if d.Temporal != nil {
		s.Desk, s.Left = inquiry.TemporalDesk{Client: d.Temporal}, inquiry.TemporalLeft{Client: d.Temporal}
	}
	return s
}

// A Site is shared by the activities of a worker. No state in it must survive a
// restart.
type Site struct {
	Deps

	Recall   recall
	policies policies
	Tokens   inquiry.TokenDesk
	// Desk calls the workflows of seeds; nil without Temporal.
	Desk inquiry.SeedDesk
	Left inquiry.LeftDesk // asks pools what is left on hosts; nil without Temporal
	// SaveEvery replaces saveBackEvery, if it is set.
	SaveEvery time.Duration

	// Ask asks the workflow that owns a seed. The session need not hold the seed.
	Ask inquiry.SeedAnswer
	// AskSession asks a session from which snapshot it goes on.
	AskSession func(ctx context.Context, session string) (inquiry.SessionNow, error)
	// AskLeft returns what sessions may have left on hosts.
	AskLeft func(ctx context.Context) ([]inquiry.LeftThere, error)
	// Takes limits concurrent snapshots, and Brings limits concurrent restores. They
	// are separate because somebody waits for a restore.
	Takes, Brings *kit.Gate
	Reach         reach
	// Delivered is set by tests only. It is called after a file was stored and before
	// the reply.
	Delivered func()

	Mu       sync.Mutex
	Confined map[string]bool          // hosts that were seen to protect a credential
	busy     map[string]chan struct{} // see Alone
}

// Host returns the host of a spec.
func (s *Site) Host(spec protocol.HostSpec) (hostexec.Host, error) {
	h, err := s.Pool.Host(spec)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", spec.Name, err)
	}
	return h, nil
}

// Bundle reads a seed from the store; nil if ref is nil.
func (s *Site) Bundle(ctx context.Context, ref *protocol.SeedRef) (*seeds.Bundle, error) {
	if ref == nil {
		return nil, nil
	}
	b, err := seeds.Load(ctx, s.Store, ref.Blob)
	if err != nil {
		return nil, &kit.SeedError{Name: ref.Name, Err: err}
	}
	if got := b.Manifest().Digest(); ref.Digest != "" && got != ref.Digest {
		return nil, &kit.SeedError{Name: ref.Name, Err: fmt.Errorf("generation %d is not the one that was asked for (its files differ)", ref.Generation)}
	}
	return b, nil
}

// Alone waits until nobody else on this worker holds key. done releases it.
func (s *Site) Alone(ctx context.Context, key string) (done func(), err error) {
	for {
		s.Mu.Lock()
		other, taken := s.busy[key]
		if !taken {
			mine := make(chan struct{})
			s.busy[key] = mine
			s.Mu.Unlock()
			return func() {
				s.Mu.Lock()
				delete(s.busy, key)
				s.Mu.Unlock()
				close(mine)
			}, nil
		}
		s.Mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
