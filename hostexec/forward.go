package hostexec

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"sync"
	"time"

	"fairlead.dev/fairlead/hostexec/internal/script"
)

// Reasons why there is no forward.
var (
	// ErrForwardRefused means that the host's sshd forbids the forward.
	ErrForwardRefused = errors.New("sshd forbids the forward")
	// ErrForwardOpen means that sshd would let other machines connect to the forward.
	ErrForwardOpen = errors.New("sshd opens the forward to other machines")
	// ErrPortTaken means that another program has the port on the host.
	ErrPortTaken = errors.New("the port on the host is taken")
)

const (
	defaultForwardConns = 64
	maxForwardConns     = 1024
	firstForwardRetry   = 100 * time.Millisecond
	lastForwardRetry    = 5 * time.Second
	maxSocketName       = 107 // bytes of a socket's path that every kernel takes
)

// A ForwardSpec describes a port or a socket on a host whose connections come to this
// program.
type ForwardSpec struct {
	// Name tells the forwards of a session apart.
	Name string
	// Port is the port on the host's loopback address; 0 lets the host choose.
	Port int
	// Socket is, instead of a port, the path of a Unix socket on the host, which the
	// host's user alone can use. A file at that path is removed.
	Socket string
	// Fence is the session's. Who opens the forward with a higher epoch ends this one.
	Fence Fence
	// MaxConns bounds the open connections; 0 means 64. More are refused.
	MaxConns int
	// OnChange, if set, is called after each change of the state, one call at a time. It
	// must not block, nor end the forward.
	OnChange func(ForwardState)
}

var forwardName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,30}$`)

func (s ForwardSpec) check() error {
	switch {
	case !forwardName.MatchString(s.Name):
		return fmt.Errorf("the name %q is not one of small letters, digits and hyphens", s.Name)
	case s.Port < 0 || s.Port > 65535:
		return fmt.Errorf("port %d is not between 0 and 65535", s.Port)
	case s.Socket != "" && s.Port != 0:
		return errors.New("a port and a socket: give one of them")
	case len(s.Socket) > maxSocketName:
		return fmt.Errorf("the path of the socket has %d bytes, at most %d can be used", len(s.Socket), maxSocketName)
	case s.MaxConns < 0 || s.MaxConns > maxForwardConns:
		return fmt.Errorf("%d connections: at least 1, at most %d", s.MaxConns, maxForwardConns)
	}
	if s.Socket != "" {
		if err := script.CheckPath(s.Socket); err != nil {
			return err
		}
	}
	return s.Fence.Check()
}

// A ForwardState says whether a forward works.
type ForwardState struct {
	Up bool
	// Times counts how often it was established.
	Times int
	// Port is the port on the host.
	Port int
	// Err is why it is down. The forward is tried again unless Over.
	Err  error
	Over bool
}

// A Forward is a listener on a host: Accept returns the connections that programs on the
// host make to its port or socket.
//
// A forward has an SSH connection of its own, so that ending one ends no other, and a slow
// peer delays nobody else. After a loss it is established again, on the same port. If
// another program has taken the port meanwhile, the forward stays down, says so in its
// state (ErrPortTaken), and takes the port as soon as it is free: the programs on the host
// know no other port. What these programs sent in the meantime went to that program, so
// that a secret that a connection begins with should be replaced once the forward is up.
//
// Any user of the host can connect to a port.
type Forward struct {
	host *sshHost
	spec ForwardSpec
	free chan struct{} // a place for each connection

	incoming chan net.Conn
	done     chan struct{}
	cancel   context.CancelFunc
	ctx      context.Context

	mu     sync.Mutex
	state  ForwardState       // guarded by mu, like all below
	fence  Fence              // spec.Fence, or what Raise put in its place
	conn   *sshConn           // carries the forward while it is up
	groups map[*connGroup]any // of the connection that carries the forward
	tell   sync.Mutex         // orders calls of OnChange
}

var _ net.Listener = (*Forward)(nil)

// OpenForward establishes a forward on a host of the pool. Close ends it, and so does the
// end of the pool.
//
// It returns ErrForwardRefused if sshd forbids it, ErrPortTaken if another program has the
// port, and ErrFenced if a holder with a higher epoch has it. This machine (local) has no
// forwards (ErrUnsupported): programs here reach this program itself.
func (p *Pool) OpenForward(ctx context.Context, h Host, spec ForwardSpec) (*Forward, error) {
	fail := func(err error) (*Forward, error) {
		return nil, fmt.Errorf("forward %s of %s: %w", spec.Name, h.Name(), SentBy(h, err))
	}
	if err := spec.check(); err != nil {
		return fail(err)
	}
	remote, ok := h.(*sshHost)
	if !ok {
		return fail(fmt.Errorf("%w: it is this machine, which has no sshd between", ErrUnsupported))
	}
	if spec.MaxConns == 0 {
		spec.MaxConns = defaultForwardConns
	}
	f := &Forward{
		host: remote, spec: spec, free: make(chan struct{}, spec.MaxConns),
		incoming: make(chan net.Conn, spec.MaxConns), done: make(chan struct{}),
		groups: map[*connGroup]any{},
	}
	f.state.Port, f.fence = spec.Port, spec.Fence
	f.ctx, f.cancel = context.WithCancel(remote.ctx)
	if !remote.addForward(f) {
		f.cancel()
		return fail(unreachable(errHostClosed))
	}
	both, stop := context.WithCancelCause(f.ctx)
	defer stop(nil)
	defer context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })()
	c, err := f.establish(both)
	if err == nil && !remote.tasks.Go(func() { f.keep(c) }) {
		err = unreachable(errHostClosed)
	}
	if err != nil {
		f.end(err)
		return fail(err)
	}
	return f, nil
}

// keep establishes the forward again whenever its connection is lost.
func (f *Forward) keep(c *sshConn) {
	for {
		select {
		case <-c.dead:
		case <-f.ctx.Done():
			f.end(net.ErrClosed)
			return
		}
		f.drop(c.group)
		err := errLost
		for wait := firstForwardRetry; ; wait = min(2*wait, lastForwardRetry) {
			f.change(func(s *ForwardState) { s.Up, s.Err = false, err })
			t := time.NewTimer(wait/2 + rand.N(wait/2))
			select {
			case <-t.C:
			case <-f.ctx.Done():
				t.Stop()
				f.end(net.ErrClosed)
				return
			}
			if c, err = f.establish(f.ctx); err == nil {
				break
			}
			if errors.Is(err, ErrFenced) || !worthARetry(err) {
				f.host.pool.opts.Logger.Warn("a forward ended", "host", f.host.name, "forward", f.spec.Name, "error", err)
				f.end(err)
				return
			}
		}
	}
}

func (f *Forward) change(set func(*ForwardState)) {
	f.tell.Lock()
	defer f.tell.Unlock()
	f.mu.Lock()
	if f.state.Over {
		f.mu.Unlock()
		return
	}
	set(&f.state)
	now := f.state
	f.mu.Unlock()
	if f.spec.OnChange != nil {
		f.spec.OnChange(now)
	}
}

// end ends the forward and its connections for good. Accept returns err.
func (f *Forward) end(err error) {
	first := false
	f.change(func(s *ForwardState) { first, s.Up, s.Over, s.Err = true, false, true, err })
	if !first {
		return
	}
	f.cancel()
	close(f.done)
	f.mu.Lock()
	groups := f.groups
	f.groups = nil
	f.mu.Unlock()
	for g := range groups {
		g.close()
	}
	f.refuseWaiting()
	f.host.removeForward(f)
}

// refuseWaiting closes the connections that nobody has accepted when the forward ends.
func (f *Forward) refuseWaiting() {
	for f.ctx.Err() != nil {
		select {
		case c := <-f.incoming:
			c.Close()
		default:
			return
		}
	}
}

// hold remembers the connections of an attempt, so that the end of the forward closes them.
func (f *Forward) hold(g *connGroup) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.groups == nil {
		return false
	}
	f.groups[g] = nil
	return true
}

func (f *Forward) drop(g *connGroup) {
	f.mu.Lock()
	delete(f.groups, g)
	f.mu.Unlock()
	g.close()
}

// State returns the current state.
func (f *Forward) State() ForwardState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// Accept waits for the next connection, also while the forward is down. After the end of
// the forward it returns why it ended.
func (f *Forward) Accept() (net.Conn, error) {
	select {
	case <-f.done:
	case c := <-f.incoming:
		return c, nil
	}
	return nil, f.State().Err
}

// Port is the port on the host, 0 for a socket.
func (f *Forward) Port() int { return f.State().Port }

// Addr is the address on the host.
func (f *Forward) Addr() net.Addr {
	if f.spec.Socket != "" {
		return &net.UnixAddr{Name: f.spec.Socket, Net: "unix"}
	}
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: f.Port()}
}

// Close ends the forward and its connections. The host notices a moment later; see Release.
func (f *Forward) Close() error {
	f.end(net.ErrClosed)
	return nil
}

// Release ends the forward, and returns nil only when nothing listens on the host any more.
func (f *Forward) Release(ctx context.Context) error {
	f.end(net.ErrClosed)
	return EndForward(ctx, f.host, f.held(), f.spec.Name, f.spec.Socket)
}

// Raise puts a forward that is up under a higher epoch. Its connections stay open. After
// an error the forward stays under the former epoch.
func (f *Forward) Raise(ctx context.Context, fence Fence) error {
	err := fence.Check()
	f.mu.Lock()
	c, up := f.conn, f.state.Up
	f.mu.Unlock()
	switch {
	case err != nil:
	case !up || c == nil:
		err = unreachable(errLost)
	default:
		err = forwardError(c.once(ctx, f.holding(fence, ""), nil)) // the socket stays
	}
	if err != nil {
		return fmt.Errorf("hold forward %s of %s under another epoch: %w", f.spec.Name, f.host.Name(), err)
	}
	f.mu.Lock()
	f.fence = fence
	f.mu.Unlock()
	return nil
}

func (f *Forward) held() Fence {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fence
}

// holding is the command that makes a connection the holder of the forward.
func (f *Forward) holding(fence Fence, socket string) Command {
	return Command{Script: forwardScript, Args: []string{fence.Dir, f.spec.Name, "take", socket}, Fence: &fence}
}

//go:embed forward.sh
var forwardScript string

// EndForward ends a forward of a session by its name, whoever holds it with an epoch that
// is not higher. socket is empty for a port. A forward that nobody holds is no error.
func EndForward(ctx context.Context, h Host, fence Fence, name, socket string) error {
	err := ForwardSpec{Name: name, Socket: socket, Fence: fence}.check()
	if err == nil {
		_, err = h.Run(ctx, Command{Script: forwardScript, Args: []string{fence.Dir, name, "end", socket}, Fence: &fence})
	}
	if err != nil {
		return fmt.Errorf("end forward %s of %s: %w", name, h.Name(), forwardError(err))
	}
	return nil
}

// forwardLacks is the exit status of forward.sh if the host lacks something.
const forwardLacks = 81

func forwardError(err error) error {
	var exit *ExitError
	if errors.As(err, &exit) && exit.Code == forwardLacks {
		return fmt.Errorf("%w%s", ErrUnsupported, script.FirstLine(exit.Stderr))
	}
	return err
}

func (h *sshHost) addForward(f *Forward) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	if h.forwards == nil {
		h.forwards = map[*Forward]struct{}{}
	}
	h.forwards[f] = struct{}{}
	return true
}

func (h *sshHost) removeForward(f *Forward) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.forwards, f)
}

// endForwards ends all forwards of a host that is being closed.
func (h *sshHost) endForwards() {
	h.mu.Lock()
	var all []*Forward
	for f := range h.forwards {
		all = append(all, f)
	}
	h.mu.Unlock()
	for _, f := range all {
		f.end(errHostClosed)
	}
}
