package hostexec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/protocol"
)

const (
	// maxShells bounds the kept shells of a host. While all are busy, a small command gets
	// its own channel.
	maxShells = 4
	// maxShellLine bounds the lines sent to a kept shell, in bytes. Shells read a line byte
	// by byte: about 0.4 ms per kilobyte.
	maxShellLine = 48 << 10
	// maxShellAge is when a kept shell is replaced, so that changes of the environment take
	// effect.
	maxShellAge = 30 * time.Minute
)

// An sshHost is a machine reached over SSH. Small commands run in shells kept on its
// control connections: they take one round trip and run no rc files. A shell serves one
// command at a time, so that a command cannot delay others or kill their shell.
type sshHost struct {
	gate
	name   string
	spec   protocol.HostSpec
	pool   *Pool
	jump   *sshHost
	ctx    context.Context
	cancel context.CancelFunc
	tasks  tasks
	groups [2]*connGroup

	key   string
	asked time.Time // guarded by the pool's mu: when a caller last got the host

	mu        sync.Mutex
	closed    bool // guarded by mu, like all below
	idle      []*keptShell
	shells    int // idle or not
	spare     *spare
	refilling bool
	noSFTP    time.Time // SFTP is not tried before
	forwards  map[*Forward]struct{}
}

type keptShell struct {
	*shell
	ch   *sshChannel
	born time.Time
	used time.Time
}

var _ Host = (*sshHost)(nil)

func newSSHHost(p *Pool, spec protocol.HostSpec, jump *sshHost) *sshHost {
	h := &sshHost{gate: newGate(), name: spec.Name, spec: spec, pool: p, jump: jump}
	if h.name == "" {
		h.name = spec.Address
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.groups[control] = newConnGroup(h, control, p.idleControl)
	h.groups[bulk] = newConnGroup(h, bulk, p.idleBulk)
	return h
}

func (h *sshHost) Name() string { return h.name }

func (h *sshHost) Run(ctx context.Context, c Command) (Result, error) {
	if err := c.check(); err != nil {
		return Result{}, fmt.Errorf("run on %s: %w", h.name, err)
	}
	end := h.pool.opts.began(ctx, "run", h.name)
	res, err := h.run(ctx, c)
	if errors.Is(err, errNotSent) {
		err = unreachable(err)
	}
	end(err)
	if err != nil {
		err = fmt.Errorf("run on %s: %w", h.name, SentBy(h, err))
	}
	return res, err
}

func (h *sshHost) run(ctx context.Context, c Command) (Result, error) {
	for try := 1; c.small(); try++ {
		sh, err := h.takeShell(ctx)
		if err != nil {
			return Result{}, err
		}
		if sh == nil {
			break
		}
		res, usable, err := sh.run(ctx, c)
		h.putShell(sh, usable)
		if errors.Is(err, errNoBase64) {
			break
		}
		// The shell died while idle: the command never reached it.
		if errors.Is(err, errNotSent) && try < 3 && ctx.Err() == nil {
			continue
		}
		return res, err
	}
	for try := 1; ; try++ {
		ch, err := h.session(ctx, c.kind())
		if err != nil {
			return Result{}, err
		}
		res, _, err := newShell(ch, false, &h.tasks).run(ctx, c)
		ch.Close()
		if errors.Is(err, errNotSent) && try < 3 && ctx.Err() == nil {
			continue
		}
		return res, err
	}
}

func (c Command) withEnv(name, value string) Command {
	env := maps.Clone(c.Env)
	if env == nil {
		env = map[string]string{}
	}
	env[name] = value
	c.Env = env
	return c
}

func (c Command) kind() kind {
	if c.Bulk {
		return bulk
	}
	return control
}

func (c Command) small() bool {
	n := len(c.Script) + len(c.Stdin)*4/3
	for _, a := range c.Args {
		n += len(a)
	}
	for k, v := range c.Env {
		n += len(k) + len(v)
	}
	return !c.Bulk && n <= maxShellLine
}

func (h *sshHost) Start(ctx context.Context, c Command) (s Stream, err error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("start on %s: %w", h.name, err)
	}
	end := h.pool.opts.began(ctx, "start", h.name)
	defer func() { end(err) }()
	for try := 1; ; try++ {
		ch, err := h.session(ctx, c.kind())
		if err != nil {
			return nil, fmt.Errorf("start on %s: %w", h.name, SentBy(h, err))
		}
		if c.TellFar && ch.conn.net.roundTrip() >= h.pool.farAway {
			c = c.withEnv("FAIRLEAD_FAR", "1")
		}
		s, err := newStream(ctx, ch, c, &h.tasks, h.name)
		switch {
		case err == nil:
			return s, nil
		case !errors.Is(err, errNotSent):
			return nil, fmt.Errorf("start on %s: %w", h.name, err)
		case try >= 3 || ctx.Err() != nil:
			return nil, fmt.Errorf("start on %s: %w", h.name, unreachable(err))
		}
	}
}

// takeShell returns a shell for one command, or nil if all are busy.
func (h *sshHost) takeShell(ctx context.Context) (*keptShell, error) {
	h.mu.Lock()
	for len(h.idle) > 0 {
		sh := h.idle[len(h.idle)-1]
		h.idle = h.idle[:len(h.idle)-1]
		if sh.ch.fit(sh.born) {
			h.mu.Unlock()
			return sh, nil
		}
		h.shells--
		sh.ch.Close()
	}
	if h.shells >= maxShells {
		h.mu.Unlock()
		return nil, nil
	}
	h.shells++
	h.mu.Unlock()

	ch, err := h.groups[control].session(ctx)
	if err != nil {
		h.mu.Lock()
		h.shells--
		h.mu.Unlock()
		return nil, err
	}
	return &keptShell{shell: newShell(ch, true, &h.tasks), ch: ch, born: time.Now()}, nil
}

func (h *sshHost) putShell(sh *keptShell, usable bool) {
	sh.used = time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if usable && !h.closed {
		h.idle = append(h.idle, sh)
		return
	}
	h.shells--
	sh.ch.Close()
}

func (h *sshHost) closeIdleShells(g *connGroup) {
	if g.kind != control {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.spare; s != nil && time.Since(s.since) >= g.mayIdle(s.ch.conn) {
		s.ch.Close()
		h.spare = nil
	}
	h.idle = slices.DeleteFunc(h.idle, func(s *keptShell) bool {
		if time.Since(s.used) < g.mayIdle(s.ch.conn) {
			return false
		}
		h.shells--
		s.ch.Close()
		return true
	})
}

func (h *sshHost) login(ctx context.Context, k kind) (*ssh.Client, *link, error) {
	if _, err := newPins(h.spec); err != nil {
		return nil, nil, err // before any connection is made
	}
	if err := h.pool.adopt(h); err != nil {
		return nil, nil, err
	}
	open, admit := dialTCP(addressOf(h.spec)), h.pool.admit
	if h.jump != nil {
		open, admit = h.jump.through(addressOf(h.spec), k), h.pool.admitBehind(h.jump.spec)
	}
	// The deadline begins after the wait for other dials.
	release, err := admit(ctx, addressOf(h.spec), h.groups[control].lastFailed() || h.groups[bulk].lastFailed())
	if err != nil {
		return nil, nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeoutCause(ctx, reachDeadline, errTooLong)
	defer cancel()
	return login(ctx, h.spec, h.pool.opts.Agent, open)
}

// through returns a transport to address from this host.
func (h *sshHost) through(address string, k kind) transport {
	return func(ctx context.Context) (net.Conn, error) {
		for try := 1; ; try++ {
			c, err := h.groups[k].forward(ctx)
			if err != nil {
				return nil, fmt.Errorf("jump host %s: %w", h.name, err)
			}
			conn, err := c.through(ctx, address)
			var rejected *ssh.OpenChannelError
			switch {
			case err == nil:
				return conn, nil
			case errors.As(err, &rejected):
				return nil, fmt.Errorf("jump host %s cannot reach %s: %s", h.name, address, rejected.Message)
			case ctx.Err() != nil || try >= 3:
				return nil, fmt.Errorf("jump host %s: %w", h.name, err)
			}
			// The connection was already lost.
			c.net.Close()
		}
	}
}

func (h *sshHost) unused() bool {
	h.mu.Lock()
	forwards := len(h.forwards)
	h.mu.Unlock()
	return forwards == 0 && h.groups[control].unused() && h.groups[bulk].unused()
}

// Close closes every connection and waits for all goroutines. The outcome of running
// commands is unknown.
func (h *sshHost) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.endForwards()
	h.cancel()
	for _, g := range h.groups {
		g.close()
	}
	h.tasks.Wait()
	return nil
}
