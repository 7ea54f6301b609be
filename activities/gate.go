package activities

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// ErrTypeBusy: this worker moves as many snapshots as it can, and others wait
// already; the activity is tried again by itself.
const ErrTypeBusy = "busy"

// Bounds of what one worker moves at once. Each holds some tens of megabytes,
// a connection's bulk channels and, before all, one of the activity slots that
// pumps need as well: only few may wait for their turn in theirs.
const (
	movesPerWorker = 4
	movesPerHost   = 2
	movesWaiting   = 16
)

// busyPause is how long somebody stays away for whom there is no place to wait:
// long, since each attempt is one in his history, and not as long as the next one's.
func busyPause() time.Duration { return 10*time.Second + rand.N(30*time.Second) }

// A gate lets only so many pass at once, in all and to one host.
type gate struct {
	all     chan struct{}
	perHost int
	waiting int

	mu    sync.Mutex
	wait  int                      // guarded by mu
	hosts map[string]chan struct{} // guarded by mu
}

func newGate(all, perHost, waiting int) *gate {
	return &gate{all: make(chan struct{}, all), perHost: perHost, waiting: waiting, hosts: map[string]chan struct{}{}}
}

// enter waits for its turn. Where too many wait it says busy instead.
func (g *gate) enter(ctx context.Context, host HostSpec) (done func(), err error) {
	key := keyOfHost(host)
	g.mu.Lock()
	h := g.hosts[key]
	if h == nil {
		h = make(chan struct{}, g.perHost)
		g.hosts[key] = h
	}
	if g.wait >= g.waiting {
		g.mu.Unlock()
		return nil, busy(host.Name)
	}
	g.wait++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.wait--
		g.mu.Unlock()
	}()
	select {
	case h <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case g.all <- struct{}{}:
		return func() { <-g.all; <-h }, nil
	case <-ctx.Done():
		<-h
		return nil, ctx.Err()
	}
}

// busy gives the slot back for a while: whoever waits without one costs nothing.
func busy(host string) error {
	return &typedError{kind: ErrTypeBusy, retry: true, delay: busyPause(),
		err: fmt.Errorf("this worker moves as many snapshots as it can; that of host %s waits", host)}
}

// isBusy says that nothing was tried for want of room: that is no reason to give
// anything up.
func isBusy(err error) bool {
	var typed *typedError
	return errors.As(err, &typed) && typed.kind == ErrTypeBusy
}

// inTurn does something when the gate lets it pass.
func (g *gate) inTurn(ctx context.Context, host HostSpec, do func() error) error {
	done, err := g.enter(ctx, host)
	if err != nil {
		return err
	}
	defer done()
	return do()
}
