package hostexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/internal/protocol"
)

// A Pool holds one Host per spec for a whole worker. It is safe for concurrent use.
type Pool struct {
	opts PoolOptions

	timings

	admission

	open atomic.Int64 // connections to all hosts

	mu     sync.Mutex
	closed bool                  // guarded by mu, like all below
	hosts  map[string]Host       // key: the spec as JSON
	strays map[*sshHost]struct{} // forgotten hosts that are used again, while hosts has another host for their key
	swept  time.Time
}

// timings are delays and timeouts, which tests shorten.
type timings struct {
	idleControl, idleBulk         time.Duration // before an idle connection is closed
	idleSurplus                   time.Duration // the same, beyond keptConns
	keepaliveEvery, keepaliveWait time.Duration
	farAway                       time.Duration // trees are compressed from this round trip on
	dialSlice                     time.Duration // after which a dial leaves its lane
	forgetAfter                   time.Duration // before an unused host is forgotten
}

// PoolOptions configure a Pool. The zero value suits most callers.
type PoolOptions struct {
	Logger *slog.Logger
	// Agent is the path of an SSH agent's socket, if any.
	Agent string
	// MaxConnsPerHost bounds the connections of each kind (for commands, for bulk data) to
	// one host; 0 means 512. A connection carries eight channels, or the number that the
	// host's MaxSessions allows.
	MaxConnsPerHost int
	// Dialed is told of each attempt to connect to a host: how long it took, and how it failed.
	// It may be nil.
	Dialed func(took time.Duration, err error)
	// Began is told when a script is about to run on a host ("run") or to begin with open streams
	// ("start"), for traces. The function that it returns is called with the error. It may be nil.
	Began func(ctx context.Context, what, host string) (end func(error))
}

// began tells of a script.
func (o *PoolOptions) began(ctx context.Context, what, host string) (end func(error)) {
	if o.Began == nil {
		return func(error) {}
	}
	return o.Began(ctx, what, host)
}

const defaultMaxConns = 512

// NewPool returns an empty pool, which must be closed.
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
			farAway: 10 * time.Millisecond, dialSlice: 2 * time.Second, forgetAfter: time.Hour,
		},
		admission: newAdmission(),
		hosts:     make(map[string]Host),
		strays:    make(map[*sshHost]struct{}),
	}
}

// Connections returns how many SSH connections are open.
func (p *Pool) Connections() int { return int(p.open.Load()) }

// Host returns the host of a spec, which is dialed at its first use. Equal specs share a
// Host, which the pool closes.
func (p *Pool) Host(spec protocol.HostSpec) (Host, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, err := p.host(spec)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", spec.Name, err)
	}
	return h, nil
}

func (p *Pool) host(spec protocol.HostSpec) (Host, error) {
	if p.closed {
		return nil, errors.New("the pool is closed")
	}
	key, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	if h, ok := p.hosts[string(key)]; ok {
		if h, ok := h.(*sshHost); ok {
			h.asked = time.Now()
		}
		return h, nil
	}
	p.forget()
	h, err := p.newHost(spec)
	if err != nil {
		return nil, err
	}
	if h, ok := h.(*sshHost); ok {
		h.key, h.asked = string(key), time.Now()
	}
	p.hosts[string(key)] = h
	return h, nil
}

// forget drops hosts that have nothing open and that no caller asked for within
// forgetAfter. A caller may still use such a host; see adopt. The caller holds mu.
func (p *Pool) forget() {
	now := time.Now()
	if now.Sub(p.swept) < p.forgetAfter/4 {
		return
	}
	p.swept = now
	jumps := map[*sshHost]bool{}
	var unused []*sshHost
	look := func(h *sshHost) {
		if now.Sub(h.asked) >= p.forgetAfter && h.unused() {
			unused = append(unused, h)
			return
		}
		for j := h.jump; j != nil; j = j.jump {
			jumps[j] = true
		}
	}
	for _, h := range p.hosts {
		if h, ok := h.(*sshHost); ok {
			look(h)
		}
	}
	for h := range p.strays {
		look(h)
	}
	for _, h := range unused {
		if jumps[h] {
			continue
		}
		delete(p.strays, h)
		if p.hosts[h.key] == Host(h) {
			delete(p.hosts, h.key)
		}
	}
}

// adopt adds a host that is about to be dialed to the pool if the pool has forgotten it, so
// that Close closes it.
func (p *Pool) adopt(h *sshHost) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errHostClosed
	}
	h.asked = time.Now()
	switch known, ok := p.hosts[h.key]; {
	case !ok:
		delete(p.strays, h)
		p.hosts[h.key] = h
	case known != Host(h):
		p.strays[h] = struct{}{}
	}
	return nil
}

func (p *Pool) newHost(spec protocol.HostSpec) (Host, error) {
	if isThisMachine(spec) {
		return newLocalHost(spec.Name), nil
	}
	if err := checkSpec(spec); err != nil {
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

func isThisMachine(s protocol.HostSpec) bool { return s.Name == protocol.LocalHost && s.Address == "" }

func checkSpec(s protocol.HostSpec) error {
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

// Close closes every host of the pool and waits for all goroutines.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	hosts, strays := p.hosts, p.strays
	p.hosts, p.strays = nil, nil
	p.mu.Unlock()
	var all errgroup.Group
	for _, h := range hosts {
		all.Go(h.Close)
	}
	for h := range strays {
		all.Go(h.Close)
	}
	return all.Wait()
}
