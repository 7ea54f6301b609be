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
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/egress"
	"fairlead.dev/fairlead/internal/gateway"
	"fairlead.dev/fairlead/internal/notify"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/spend"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/internal/teamtool"
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
	// Chunks is at most one in a process; nil opens it on Store.
	Chunks *chunks.Store
	// Live may be nil.
	Live records.Live
	// Codex has the packages for hosts; nil means none.
	Codex *codexpkg.CodexSource
	// APIAddress is this worker's HTTP API. Pumps' heartbeats carry it for viewers.
	APIAddress string
	// MaxLine is the longest line of codex that is read whole, in bytes; 0 means
	// conversation.DefaultMaxLine. All workers need the same value: the transcript records
	// skipped lines.
	MaxLine int
	// Unprotected, if UnprotectedAllow, lets a session with a seed use a host where codex
	// cannot keep its commands from the credential.
	Unprotected string
	// Credentials is how sessions get the credential of a seed if neither they nor the seed say
	// it: empty or planted, or gateway wherever the model gateway can serve the session.
	Credentials string
	// Private are the worker's own absolute paths that commands must not read, on each host
	// where they exist. A path that begins with ~/ is below the home folder of the host's
	// user.
	Private []string
	// AnyVersion allows codex versions outside of conversation's range.
	AnyVersion bool
	// Temporal is for Engine and signals; it may be nil without them.
	Temporal client.Client
	// Zone is the worker's, whose pool has its hosts.
	Zone string
	// Namespace is an id: see NamespaceID.
	Namespace string
	// TokenEndpoint is for refreshing logins, here and on hosts. Issuer is for logging in
	// on a host. Empty means codex's own.
	TokenEndpoint, Issuer string
	// UsageEndpoint tells how much of a login is used. Empty means codex's own.
	UsageEndpoint string
	Snapshots     SnapshotLimits
	Deliver       DeliverLimits
	// WatchEvery is the pause between looks at waiting processes; 0 means pumps.WatchEvery.
	WatchEvery time.Duration
	// MayRead says why a principal may not read what a session, batch or schedule has, or returns
	// "". blind means that nothing is known of it, so that no condition holds. It is nil if the
	// worker has no access file.
	MayRead func(ctx context.Context, principal string, groups []string, of owned.Owner, blind bool) (why string, err error)
	// Judge says why the access file does not allow something, or returns "". It is nil with
	// authority: local.
	Judge func(Question) (refused string)
	// Instructions is the file with the organisation's instructions for codex; empty means
	// none.
	Instructions string
	// ToolTargets are the webhooks that tools of teams may call.
	ToolTargets []teamtool.Target
	// ToolActivities are the activities of teams' own workers that tools of teams may call.
	ToolActivities []teamtool.ActivityTarget
	// Notify has the rules by which people are told of events; nil means none.
	Notify *notify.Keeper
	// Looks says whether a person has the console's inbox open; nil means that nobody has.
	Looks func(ctx context.Context, person string) bool
	// Posted is told of each message in Slack by which people can decide; nil means nobody.
	Posted func(ctx context.Context, card notify.Card)
	// Bounds are the organisation's: no session exceeds them.
	Bounds Bounds
	Logger *slog.Logger
	// Lag, if set, gets the age of each event of codex. The difference between the clocks
	// of host and worker is part of it.
	Lag func(time.Duration)
	// Asked, if set, gets each request that a model gateway has served.
	Asked func(ModelRequest)
	// Egress bounds what sessions may ask to reach; the zero value permits nothing.
	Egress Egress
	// Carried, if set, gets each connection that programs of sessions asked for, once it has ended.
	Carried func(egress.Outcome)
	// Stranger puts on record that a model gateway refused requests without a valid token, or of
	// programs that are none of the session's. It may wait for the store; nil means no record.
	Stranger func(audit.Record)
	// Unreported does so for what programs of a session reached after its last pump had reported.
	Unreported func(audit.Record)
	// Bodies bounds the request and answer bodies of model gateways that are kept. Keep 0 means none.
	Bodies BodyLimits
	// Spending counts what model gateways use; nil means that nothing is counted and bounded.
	Spending *spend.Ledger
	// Tariff returns what models cost and what bounds their use now. nil means that they cost nothing.
	Tariff func() spend.Tariff
	// Now defaults to time.Now.
	Now func() time.Time
}

// A ModelRequest is a request that a model gateway has served.
type ModelRequest struct {
	gateway.Outcome
	Seed, Tenant string
	Money        protocol.Money // what it cost by the prices of this worker
}

// NewSite makes the site of a worker.
func NewSite(d Deps) *Site {
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Tariff == nil {
		d.Tariff = func() spend.Tariff { return spend.Tariff{} }
	}
	if d.Chunks == nil && d.Store != nil {
		d.Chunks = chunks.Open(d.Store, chunks.Options{Logger: d.Logger})
	}
	s := &Site{
		Deps:     d,
		Tokens:   inquiry.TemporalTokens{Client: d.Temporal},
		Confined: map[string]bool{}, CodexSeen: map[string]string{}, CodexRepaired: map[string]bool{},
		busy:   map[string]chan struct{}{},
		Takes:  kit.NewGate(kit.MovesPerWorker, kit.MovesPerHost, kit.MovesWaiting),
		Brings: kit.NewGate(kit.MovesPerWorker, kit.MovesPerHost, kit.MovesWaiting),
	}
	s.Ask = func(ctx context.Context, name string) (inquiry.SeedNow, bool, error) {
		return inquiry.AskSeedIfAny(ctx, d.Temporal, name)
	}
	s.AskSession = func(ctx context.Context, session string) (inquiry.SessionNow, error) {
		return inquiry.AskSession(ctx, d.Temporal, session)
	}
	s.AskAsks = func(ctx context.Context, session string) (protocol.SessionAsks, error) {
		return inquiry.AskAsks(ctx, d.Temporal, session)
	}
	s.AskHosts = func(ctx context.Context) ([]inquiry.HostNow, error) {
		return inquiry.HostsOfZone(ctx, d.Temporal, d.Bounds.Zone)
	}
	s.AskLeft = func(ctx context.Context) ([]inquiry.LeftThere, error) { return inquiry.AskPools(ctx, d.Temporal) }
	if d.Temporal != nil {
		s.Desk, s.Left = inquiry.TemporalDesk{Client: d.Temporal}, inquiry.TemporalLeft{Client: d.Temporal}
		s.Restored = inquiry.TemporalDesk{Client: d.Temporal}
	}
	return s
}

// A Site is shared by a worker's activities. No state in it must survive a restart.
type Site struct {
	Deps

	Recall   recall
	policies policies
	Tokens   inquiry.TokenDesk
	// Desk is nil without Temporal.
	Desk inquiry.SeedDesk
	Left inquiry.LeftDesk // nil without Temporal
	// Restored is nil without Temporal.
	Restored inquiry.RestoreDesk
	// SaveEvery, if set, replaces saveBackEvery.
	SaveEvery time.Duration

	// Ask asks a seed's workflow. The session need not hold the seed.
	Ask        inquiry.SeedAnswer
	AskSession func(ctx context.Context, session string) (inquiry.SessionNow, error)
	AskAsks    func(ctx context.Context, session string) (protocol.SessionAsks, error)
	AskHosts   func(ctx context.Context) ([]inquiry.HostNow, error) // of Bounds.Zone
	AskLeft    func(ctx context.Context) ([]inquiry.LeftThere, error)
	// Takes limits concurrent snapshots. Somebody waits for a restore, so Brings has its
	// own limit.
	Takes, Brings *kit.Gate
	Reach         reach
	// Delivered is for tests: it runs after a file was stored, before the reply.
	Delivered func()

	// Gates are model gateways that pumps have left open: see package gateways.
	Gates sync.Map
	// Standings are of the upstreams of model gateways: what has failed there, by seed.
	Standings sync.Map

	toolOnce   sync.Once
	toolCaller *teamtool.Caller
	seedTools  seedTools

	Mu       sync.Mutex
	Confined map[string]bool          // hosts seen to protect a credential
	busy     map[string]chan struct{} // see Alone
	// CodexSeen is what stat said of codex packages when they were last verified.
	CodexSeen map[string]string
	// CodexRepaired are hosts whose codex was changed and put back.
	CodexRepaired map[string]bool
}

// Host returns the host of a spec.
func (s *Site) Host(spec protocol.HostSpec) (hostexec.Host, error) {
	h, err := s.Pool.Host(spec)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", spec.Name, err)
	}
	return h, nil
}

// Bundle reads a seed; nil if ref is nil.
func (s *Site) Bundle(ctx context.Context, ref *protocol.SeedRef) (*seeds.Bundle, error) {
	if ref == nil {
		return nil, nil
	}
	if !seeds.Owns(ref.Name, ref.Blob) {
		return nil, &kit.SeedError{Name: ref.Name, Err: fmt.Errorf("generation %d is kept under a key that is not one of the seed: import the login again", ref.Generation)}
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
