package hostexec

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// A Pool holds one Host per Spec for a whole worker: connections are shared.
// It is safe for concurrent use.
type Pool struct {
	opts PoolOptions

	mu     sync.Mutex
	closed bool            // guarded by mu
	hosts  map[string]Host // guarded by mu, by the spec as JSON
}

// PoolOptions tune a Pool; the zero value is right for most.
type PoolOptions struct {
	Logger *slog.Logger
	// Agent is the path of an SSH agent's socket; empty means none.
	Agent string
}

// NewPool returns an empty pool. Close it to give back every connection.
func NewPool(opts PoolOptions) *Pool {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Pool{opts: opts, hosts: make(map[string]Host)}
}

// Host returns the host of a spec, dialling at its first use, not here. Specs
// that are equal share a Host; it stays the pool's to close.
func (p *Pool) Host(spec Spec) (Host, error) {
	key, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", spec.Name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("host %s: pool is closed", spec.Name)
	}
	if h, ok := p.hosts[string(key)]; ok {
		return h, nil
	}
	h, err := p.newHost(spec)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", spec.Name, err)
	}
	p.hosts[string(key)] = h
	return h, nil
}

func (p *Pool) newHost(spec Spec) (Host, error) {
	if spec.Name == Local && spec.Address == "" {
		return newLocalHost(spec.Name), nil
	}
	return nil, errors.New("SSH hosts follow")
}

// Close closes every host of the pool.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	hosts := p.hosts
	p.hosts = nil
	p.mu.Unlock()
	var errs []error
	for _, h := range hosts {
		errs = append(errs, h.Close())
	}
	return errors.Join(errs...)
}
