package hostexec

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// channelsPerConn is below sshd's MaxSessions (10 by default), because sshd goes on
	// counting a closed channel for a moment.
	channelsPerConn = 8
	// keptConns idle connections of a group are kept for the whole idle time. Others are
	// closed after idleSurplus.
	keptConns = 2
	maxDials  = 4 // at a time, to one sshd and in one group
	// learnedFor is how long the field learned limits new connections. learned may be too
	// low, because the host may have been slow to forget closed sessions.
	learnedFor = 5 * time.Minute
)

var errTooLong = fmt.Errorf("no connection in %v", reachDeadline)

// kind says what a connection is for. Bulk data would delay everything else on its
// connection by tens of milliseconds.
type kind int

const (
	control kind = iota
	bulk
)

func (k kind) String() string { return [...]string{"control", "bulk"}[k] }

// A connGroup holds the connections of one kind to one host.
type connGroup struct {
	host *sshHost
	kind kind
	idle time.Duration

	mu        sync.Mutex
	closed    bool       // guarded by mu, like all below
	conns     []*sshConn // alive
	dialing   int
	waiting   int // callers without a connection
	failures  int
	failure   error
	failed    bool
	connected time.Time
	learned   int // sessions that the host allowed on a connection
	learnedAt time.Time
	changed   chan struct{} // closed and replaced when any of these changes
	sweeper   *time.Timer   // closes idle connections; nil while none is open
}

func newConnGroup(h *sshHost, k kind, idle time.Duration) *connGroup {
	return &connGroup{host: h, kind: k, idle: idle, changed: make(chan struct{})}
}

// wake wakes every waiter. The caller holds mu.
func (g *connGroup) wake() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// perConn returns the session limit of a new connection. The caller holds mu.
func (g *connGroup) perConn() int {
	if g.learned > 0 && time.Since(g.learnedAt) < learnedFor {
		return g.learned
	}
	return channelsPerConn
}

// acquire returns a live connection that take, called with mu held, accepted. It gives up
// if no dial has succeeded for reachDeadline.
func (g *connGroup) acquire(ctx context.Context, take func(*sshConn) bool) (*sshConn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	since, seen := time.Now(), g.failures
	g.waiting++
	defer func() { g.waiting-- }()
	patience := time.NewTimer(reachDeadline)
	defer patience.Stop()
	for {
		if g.closed {
			return nil, errHostClosed
		}
		for _, c := range g.conns {
			if !c.isDead() && take(c) {
				return c, nil
			}
		}
		if g.failures > seen && (g.dialing == 0 || len(g.conns) == 0 || !worthARetry(g.failure)) {
			return nil, g.failure
		}
		full := len(g.conns)+g.dialing >= g.host.pool.opts.MaxConnsPerHost
		if g.dialing < maxDials && g.dialing*g.perConn() < g.waiting && !full {
			g.dialing++
			if !g.host.tasks.Go(g.dial) {
				g.dialing--
				return nil, errHostClosed
			}
		}
		changed := g.changed
		g.mu.Unlock()
		expired := false
		select {
		case <-changed:
		case <-ctx.Done():
		case <-patience.C:
			expired = true
		}
		g.mu.Lock()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !expired {
			continue
		}
		if g.connected.After(since) {
			since = g.connected
		}
		left := reachDeadline - time.Since(since)
		switch {
		case left > 0:
			patience.Reset(left)
		case full:
			return nil, fmt.Errorf("no free connection: all %d %s connections to the host are in use", len(g.conns), g.kind)
		case g.failures > seen:
			return nil, g.failure
		default:
			return nil, errTooLong
		}
	}
}

func worthARetry(err error) bool {
	return !errors.Is(err, ErrAuth) && !errors.Is(err, ErrHostKeyChanged) && !errors.Is(err, ErrHostKeyUnknown) && !errors.Is(err, ErrFlood)
}

// dial opens one more connection. Any waiting caller may use it, so the context is not that
// of the caller that started it.
func (g *connGroup) dial() {
	began := time.Now()
	client, conn, err := g.host.login(g.host.ctx, g.kind)
	err = SentBy(g.host, err) // before several callers get it
	if told := g.host.pool.opts.Dialed; told != nil {
		told(time.Since(began), err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.wake()
	g.dialing--
	if err != nil {
		g.failures++
		g.failure, g.failed = err, true
		g.host.pool.opts.Logger.Info("connection failed", "host", g.host.name, "kind", g.kind, "error", err)
		return
	}
	g.host.pool.opts.Logger.Debug("connected", "host", g.host.name, "kind", g.kind)
	now := time.Now()
	g.connected, g.failed = now, false
	c := &sshConn{group: g, client: client, net: conn, dead: make(chan struct{}), limit: g.perConn(), lastUsed: now}
	if g.closed {
		g.host.tasks.Go(func() { conn.Close() })
	}
	g.conns = append(g.conns, c)
	g.host.pool.open.Add(1)
	c.watch()
	if g.sweeper == nil && !g.closed {
		g.sweeper = time.AfterFunc(g.sweepEvery(), g.sweep)
	}
}

func (g *connGroup) lastFailed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed
}

func (g *connGroup) unused() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.conns) == 0 && g.dialing == 0 && g.waiting == 0
}

// session returns a channel with a fresh shell. If it fails, nothing began.
func (g *connGroup) session(ctx context.Context) (*sshChannel, error) {
	return g.sessionFor(ctx, shellRequest)
}

// sessionFor returns a channel on which the requested program runs. If it fails, nothing
// began. Errors are typed, except errRefused.
func (g *connGroup) sessionFor(ctx context.Context, what sessionRequest) (*sshChannel, error) {
	for tries := 1; ; tries++ {
		c, err := g.acquire(ctx, func(c *sshConn) bool {
			if c.channels >= c.limit {
				return false
			}
			c.channels++
			return true
		})
		if err != nil {
			return nil, unreachable(err)
		}
		ch, err := c.openInTime(ctx, what)
		if err == nil {
			g.mu.Lock()
			c.refusals = 0
			g.mu.Unlock()
			return ch, nil
		}
		var rejected *ssh.OpenChannelError
		switch {
		case ctx.Err() != nil:
			return nil, unreachable(context.Cause(ctx))
		case errors.Is(err, errRefused):
			return nil, err
		case errors.As(err, &rejected):
			if tries >= 20 {
				return nil, unreachable(fmt.Errorf("the host opens no session: %s", rejected.Message))
			}
			if wait := g.refused(c); wait > 0 {
				t := time.NewTimer(wait)
				select {
				case <-t.C:
				case <-ctx.Done():
					t.Stop()
				}
			}
		default:
			// Nothing was sent.
			c.net.Close()
			if tries >= 3 {
				return nil, unreachable(err)
			}
		}
	}
}

// refused handles a channel that the host rejected (MaxSessions) and returns how long to
// wait before the next try. At the first rejection the host may only be slow to forget a
// closed channel. At a later one, the current number of channels becomes the limit of this
// connection and of new ones.
func (g *connGroup) refused(c *sshConn) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.refusals++
	if c.refusals > 1 && c.channels > 0 && c.limit > c.channels {
		c.limit = c.channels
		g.learned, g.learnedAt = c.limit, time.Now()
		return 0
	}
	return 100*time.Millisecond + rand.N(100*time.Millisecond*time.Duration(min(c.refusals, 7)))
}

// forward returns a connection that can carry one to a host behind this host.
func (g *connGroup) forward(ctx context.Context) (*sshConn, error) {
	return g.acquire(ctx, func(c *sshConn) bool {
		if c.limit == 0 {
			return false // it is being closed
		}
		c.forwards++
		return true
	})
}

func (g *connGroup) release(c *sshConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.channels--
	c.lastUsed = time.Now()
	g.wake()
}

func (g *connGroup) releaseForward(c *sshConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.forwards--
	c.lastUsed = time.Now()
}

func (g *connGroup) remove(c *sshConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := len(g.conns)
	g.conns = slices.DeleteFunc(g.conns, func(o *sshConn) bool { return o == c })
	g.host.pool.open.Add(int64(len(g.conns) - was))
	g.wake()
}

func (g *connGroup) sweepEvery() time.Duration {
	return max(min(g.idle, g.host.pool.idleSurplus)/4, 10*time.Millisecond)
}

func (g *connGroup) sweep() {
	g.host.closeIdleShells(g)
	for _, c := range g.idleConns() {
		c.net.Close()
	}
}

func (g *connGroup) mayIdle(c *sshConn) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mayIdleAt(slices.Index(g.conns, c))
}

func (g *connGroup) mayIdleAt(i int) time.Duration {
	if i >= keptConns {
		return min(g.idle, g.host.pool.idleSurplus)
	}
	return g.idle
}

func (g *connGroup) idleConns() []*sshConn {
	g.mu.Lock()
	defer g.mu.Unlock()
	var idle []*sshConn
	for i, c := range g.conns {
		if c.channels == 0 && c.forwards == 0 && time.Since(c.lastUsed) >= g.mayIdleAt(i) {
			c.limit = 0 // keeps acquire from returning it
			idle = append(idle, c)
		}
	}
	switch {
	case g.closed:
	case len(g.conns) == 0 && g.dialing == 0:
		g.sweeper = nil
	default:
		g.sweeper.Reset(g.sweepEvery())
	}
	return idle
}

// close closes every connection. Commands on them fail with ErrOutcomeUnknown.
func (g *connGroup) close() {
	g.mu.Lock()
	g.closed = true
	if g.sweeper != nil {
		g.sweeper.Stop()
	}
	conns := slices.Clone(g.conns)
	g.wake()
	g.mu.Unlock()
	for _, c := range conns {
		c.net.Close() // without mu, because Close may write to a jump host
	}
}

// unreachable marks an error from before anything was sent.
func unreachable(err error) error {
	for _, typed := range []error{ErrUnreachable, ErrAuth, ErrHostKeyChanged, ErrHostKeyUnknown, ErrFlood} {
		if errors.Is(err, typed) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}
