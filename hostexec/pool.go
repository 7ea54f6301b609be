package hostexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A Pool holds one Host per Spec for a whole worker: connections are shared.
// It is safe for concurrent use.
type Pool struct {
	opts PoolOptions

	timings

	dials chan struct{} // a place for each dial under way

	mu      sync.Mutex
	closed  bool                     // guarded by mu
	hosts   map[string]Host          // guarded by mu, by the spec as JSON
	servers map[string]chan struct{} // guarded by mu: places for dials, by address
}

const dialsAtATime = 32

// timings are how long things may take; tests shorten them.
type timings struct {
	idleControl, idleBulk         time.Duration // before an unused connection is closed
	idleSurplus                   time.Duration // and one beyond the first of its kind
	keepaliveEvery, keepaliveWait time.Duration
	farAway                       time.Duration // a round trip from which on trees are compressed on their way
}

// PoolOptions tune a Pool; the zero value is right for most.
type PoolOptions struct {
	Logger *slog.Logger
	// Agent is the path of an SSH agent's socket; empty means none.
	Agent string
	// MaxConnsPerHost bounds the connections of each kind (for commands, for
	// bulk data) to one host; 0 means 512. There are as few as will carry what
	// is open: eight channels each, or what the host's MaxSessions lets them have.
	MaxConnsPerHost int
}

const defaultMaxConns = 512

// NewPool returns an empty pool. Close it to give back every connection.
func NewPool(opts PoolOptions) *Pool {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.MaxConnsPerHost <= 0 {
		opts.MaxConnsPerHost = defaultMaxConns
	}
	return &Pool{
		opts: opts,
		timings: timings{
			idleControl: 10 * time.Minute, idleBulk: 10 * time.Minute, idleSurplus: time.Minute,
			keepaliveEvery: 15 * time.Second, keepaliveWait: 10 * time.Second,
			farAway: 10 * time.Millisecond,
		},
		dials:   make(chan struct{}, dialsAtATime),
		hosts:   make(map[string]Host),
		servers: make(map[string]chan struct{}),
	}
}

// Host returns the host of a spec, dialling at its first use, not here. Specs
// that are equal share a Host; it stays the pool's to close.
func (p *Pool) Host(spec Spec) (Host, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, err := p.host(spec)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", spec.Name, err)
	}
	return h, nil
}

// host is Host with mu held.
func (p *Pool) host(spec Spec) (Host, error) {
	if p.closed {
		return nil, errors.New("the pool is closed")
	}
	key, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	if h, ok := p.hosts[string(key)]; ok {
		return h, nil
	}
	h, err := p.newHost(spec)
	if err != nil {
		return nil, err
	}
	p.hosts[string(key)] = h
	return h, nil
}

func (p *Pool) newHost(spec Spec) (Host, error) {
	if spec.isLocal() {
		return newLocalHost(spec.Name), nil
	}
	if err := spec.check(); err != nil {
		return nil, err
	}
	var jump *sshHost
	if spec.Jump != nil {
		j, err := p.host(*spec.Jump)
		if err != nil {
			return nil, fmt.Errorf("jump host %s: %w", spec.Jump.Name, err)
		}
		var ok bool
		if jump, ok = j.(*sshHost); !ok {
			return nil, errors.New("the local host is no jump host")
		}
	}
	return newSSHHost(p, spec, jump), nil
}

func (s Spec) isLocal() bool { return s.Name == Local && s.Address == "" }

// check reports everything that is wrong with the spec of an SSH host.
func (s Spec) check() error {
	var errs []error
	if s.Address == "" {
		errs = append(errs, errors.New("no address"))
	}
	if strings.ContainsAny(s.Address, "[]/@ \n\x00") {
		errs = append(errs, fmt.Errorf("address %q is not a DNS name or an IP address", s.Address))
	}
	if s.Port < 0 || s.Port > 65535 {
		errs = append(errs, fmt.Errorf("port %d is not between 1 and 65535", s.Port))
	}
	for _, k := range s.HostKeys {
		if err := new(pins).add(k); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// dialSlot waits for a place to dial an sshd: it refuses logins when too many
// are under way.
func (p *Pool) dialSlot(ctx context.Context, address string) (release func(), err error) {
	server := p.serverSlots(address)
	select {
	case server <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case p.dials <- struct{}{}:
	case <-ctx.Done():
		<-server
		return nil, context.Cause(ctx)
	}
	return func() { <-p.dials; <-server }, nil
}

// dialSlotBehind is dialSlot for addresses behind a jump host. They take no
// place among all dials: the jump host's own dial may be waiting for one.
func (p *Pool) dialSlotBehind(jump Spec) func(context.Context, string) (func(), error) {
	return func(ctx context.Context, address string) (func(), error) {
		server := p.serverSlots(jump.address() + " > " + address)
		select {
		case server <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		return func() { <-server }, nil
	}
}

func (p *Pool) serverSlots(address string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	slots, ok := p.servers[address]
	if !ok {
		slots = make(chan struct{}, maxDials)
		p.servers[address] = slots
	}
	return slots
}

// Close closes every host of the pool and waits until nothing of ours runs.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	hosts := p.hosts
	p.hosts = nil
	p.mu.Unlock()
	var all errgroup.Group
	for _, h := range hosts {
		all.Go(h.Close)
	}
	return all.Wait()
}
