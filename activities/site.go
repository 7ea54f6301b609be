package activities

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

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
	Live Live
	// Codex has the codex packages that the worker can copy to hosts; nil means none.
	Codex *CodexSource
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

// newSite completes the dependencies, and makes the site of a worker.
func newSite(d Deps) *site {
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Chunks == nil && d.Store != nil {
		d.Chunks = chunks.Open(d.Store, chunks.Options{Logger: d.Logger})
	}
	s := &site{
		Deps:     d,
		tokens:   temporalTokens{d.Temporal},
		confined: map[string]bool{},
		busy:     map[string]chan struct{}{},
		takes:    newGate(movesPerWorker, movesPerHost, movesWaiting),
		brings:   newGate(movesPerWorker, movesPerHost, movesWaiting),
	}
	s.ask = func(ctx context.Context, name string) (SeedNow, bool, error) {
		return askSeedIfAny(ctx, d.Temporal, name)
	}
	s.askSession = func(ctx context.Context, session string) (SessionNow, error) {
		return AskSession(ctx, d.Temporal, session)
	}
	s.askLeft = func(ctx context.Context) ([]LeftThere, error) { return askPools(ctx, d.Temporal) }
	if d.Temporal != nil {
		s.desk, s.left = temporalDesk{d.Temporal}, temporalLeft{d.Temporal}
	}
	return s
}

// A site is shared by the activities of a worker. No state in it must survive a
// restart.
type site struct {
	Deps

	recall   recall
	policies policies
	tokens   tokenDesk
	// desk calls the workflows of seeds; nil without Temporal.
	desk seedDesk
	left leftDesk // asks pools what is left on hosts; nil without Temporal
	// saveEvery replaces saveBackEvery, if it is set.
	saveEvery time.Duration

	// ask asks the workflow that owns a seed. The session need not hold the seed.
	ask seedAnswer
	// askSession asks a session from which snapshot it goes on.
	askSession func(ctx context.Context, session string) (SessionNow, error)
	// askLeft asks what sessions may have left on hosts.
	askLeft func(ctx context.Context) ([]LeftThere, error)
	// takes limits concurrent snapshots, and brings limits concurrent restores. They
	// are separate because somebody waits for a restore.
	takes, brings *gate
	reach         reach
	// delivered is set by tests only. It is called after a file was stored and before
	// the reply.
	delivered func()

	mu       sync.Mutex
	confined map[string]bool          // hosts that were seen to protect a credential
	busy     map[string]chan struct{} // see alone
}

func (s *site) host(spec protocol.HostSpec) (hostexec.Host, error) {
	h, err := s.Pool.Host(spec)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", spec.Name, err)
	}
	return h, nil
}

// bundle reads a seed from the store; nil if ref is nil.
func (s *site) bundle(ctx context.Context, ref *protocol.SeedRef) (*seeds.Bundle, error) {
	if ref == nil {
		return nil, nil
	}
	b, err := seeds.Load(ctx, s.Store, ref.Blob)
	if err != nil {
		return nil, &seedError{ref.Name, err}
	}
	if got := b.Manifest().Digest(); ref.Digest != "" && got != ref.Digest {
		return nil, &seedError{ref.Name, fmt.Errorf("generation %d is not the one that was asked for (its files differ)", ref.Generation)}
	}
	return b, nil
}

// alone waits until nobody else on this worker holds key. done releases it.
func (s *site) alone(ctx context.Context, key string) (done func(), err error) {
	for {
		s.mu.Lock()
		other, taken := s.busy[key]
		if !taken {
			mine := make(chan struct{})
			s.busy[key] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.busy, key)
				s.mu.Unlock()
				close(mine)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
