package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/egress/rule"
)

// A Kind says how a connection ended.
type Kind string

// Kinds of ends. KindOpen tells that a connection has begun; another Outcome follows.
const (
	KindOpen      Kind = "open"
	KindDone      Kind = "done"
	KindIdle      Kind = "idle"       // cut: it carried nothing for too long
	KindClosed    Kind = "closed"     // cut: the proxy was closed
	KindLost      Kind = "lost"       // cut: the way to the host was lost
	KindUnreached Kind = "unreached"  // no name, or nobody answers
	KindNotListed Kind = "not_listed" // refused, like all below
	KindAddress   Kind = "address"
	KindStranger  Kind = "stranger"
	KindUnchecked Kind = "unchecked" // whether it belongs to the session was not found out
	KindBusy      Kind = "busy"
	KindRequest   Kind = "request" // it is no CONNECT request, or has no usable target
)

// Kinds returns those by which connections are counted.
func Kinds() (names []string) {
	for _, k := range []Kind{KindDone, KindIdle, KindClosed, KindLost, KindUnreached, KindNotListed, KindAddress, KindStranger, KindUnchecked, KindBusy, KindRequest} {
		names = append(names, string(k))
	}
	return names
}

// Refused reports whether the proxy did not try to connect.
func (k Kind) Refused() bool {
	switch k {
	case KindNotListed, KindAddress, KindStranger, KindUnchecked, KindBusy, KindRequest:
		return true
	}
	return false
}

// Cut reports whether a connection was ended by neither of its ends.
func (k Kind) Cut() bool { return k == KindIdle || k == KindClosed || k == KindLost }

// An Outcome is what became of a request.
type Outcome struct {
	Kind Kind
	// Host and Port are the target, if the request has one.
	Host string
	Port uint16
	// Sent and Received are the bytes that went to the target, and came from it.
	Sent, Received int64
	// Message says why the connection failed, was refused or was cut.
	Message string
	From    string // the address of the program on the host
}

// ErrStranger means that a connection does not belong to the session.
var ErrStranger = errors.New("the connection does not come from a program of the session")

// Limits bound a Proxy. Zero means the default.
type Limits struct {
	Conns int           // at once; 64
	Check time.Duration // for the answer of Options.Callers; 30 s
	Dial  time.Duration // from the request to the connection, without the check; 30 s
	Idle  time.Duration // of a connection in both directions; 5 min
}

func (l Limits) filled() Limits {
	l.Conns, l.Check = cmp.Or(l.Conns, 64), cmp.Or(l.Check, 30*time.Second)
	l.Dial, l.Idle = cmp.Or(l.Dial, 30*time.Second), cmp.Or(l.Idle, 5*time.Minute)
	return l
}

// mostAddresses bounds the addresses of a name that are tried.
const mostAddresses = 8

// Options configure a Proxy.
type Options struct {
	// Permits says whether a host, whose name is in small letters, may be reached at a port.
	Permits func(host string, port uint16) bool
	// Private has addresses that may be reached although they are not public.
	Private []netip.Prefix
	// Callers says of connections, which it gets by their addresses, whether they belong to the session. It
	// returns for each nil, an error that wraps ErrStranger, or another error if that cannot be found out.
	// Nil means that all belong to it.
	Callers func(ctx context.Context, from []string) []error
	// Lost says whether a read or a write of a connection to the host failed because the way there was lost.
	Lost   func(error) bool
	Limits Limits
	// Record gets each Outcome. It must not block.
	Record func(Outcome)
	Logger *slog.Logger

	// Resolve and Dial default to those of this machine.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, to netip.AddrPort) (net.Conn, error)

	own func() []netip.Addr
}

// A Proxy serves one session. It is an http.Handler.
type Proxy struct {
	opts    Options
	limit   Limits
	free    chan struct{}
	checker *checker
	ctx     context.Context
	cancel  context.CancelFunc

	mu     sync.Mutex
	open   sync.WaitGroup // Add only under mu, and not once closed
	closed bool
	busy   int
}

// New returns a Proxy, which Close must end.
func New(o Options) *Proxy {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Record == nil {
		o.Record = func(Outcome) {}
	}
	if o.Resolve == nil {
		o.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
		}
	}
	if o.own == nil {
		o.own = ownAddresses
	}
	if o.Lost == nil {
		o.Lost = func(error) bool { return false }
	}
	p := &Proxy{opts: o, limit: o.Limits.filled()}
	p.free = make(chan struct{}, p.limit.Conns)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.checker = &checker{ask: o.Callers, ctx: p.ctx, patience: p.limit.Check}
	return p
}

// Close ends all connections and waits for them. It does nothing if p is nil.
func (p *Proxy) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.open.Wait()
	p.checker.asking.Wait()
}

// Busy returns how many connections of the session are open; 0 if p is nil.
func (p *Proxy) Busy() int {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busy
}

// enter counts a request, unless the proxy is closed.
func (p *Proxy) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.open.Add(1)
	return true
}

func (p *Proxy) count(more int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy += more
}

// A refusal is why there is no connection.
type refusal struct {
	status int
	kind   Kind
	err    error
}

func refuse(status int, kind Kind, format string, args ...any) *refusal {
	return &refusal{status, kind, fmt.Errorf(format, args...)}
}

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.enter() {
		w.Header().Set("Connection", "close")
		http.Error(w, "the session's way out is closed", http.StatusServiceUnavailable)
		return
	}
	defer p.open.Done()
	out := Outcome{From: r.RemoteAddr}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	c, no := p.connect(ctx, r, &out)
	if no != nil {
		out.Kind, out.Message = no.kind, no.err.Error()
		p.opts.Record(out)
		w.Header().Set("Connection", "close")
		http.Error(w, "Fairlead's proxy: "+out.Message, no.status)
		return
	}
	defer func() { <-p.free }()
	p.count(1)
	defer p.count(-1)
	defer c.Close()
	near, early, err := http.NewResponseController(w).Hijack()
	if err != nil {
		p.opts.Logger.Error("a connection of a proxy cannot be taken over", "error", err)
		return
	}
	defer near.Close()
	out.Kind = KindOpen
	p.opts.Record(out)
	p.carry(near, early.Reader, c, &out)
	p.opts.Record(out)
}

// connect returns a connection to the target, and then holds a place in free.
func (p *Proxy) connect(ctx context.Context, r *http.Request, out *Outcome) (net.Conn, *refusal) {
	switch err := p.checker.check(ctx, r.RemoteAddr); {
	case errors.Is(err, ErrStranger):
		return nil, refuse(http.StatusForbidden, KindStranger, "%w", err)
	case err != nil:
		return nil, refuse(http.StatusServiceUnavailable, KindUnchecked, "%w", err)
	}
	host, port, err := target(r)
	if err != nil {
		return nil, refuse(http.StatusMethodNotAllowed, KindRequest, "%w", err)
	}
	out.Host, out.Port = host, port
	if !p.opts.Permits(host, port) {
		return nil, refuse(http.StatusForbidden, KindNotListed, "the session may not reach %s:%d (--egress, and egress.allow in the configuration of the workers)", host, port)
	}
	select {
	case p.free <- struct{}{}:
	default:
		return nil, refuse(http.StatusServiceUnavailable, KindBusy, "the session has %d connections open, which is the most", p.limit.Conns)
	}
	c, no := p.dial(ctx, host, port)
	if no != nil {
		<-p.free
	}
	return c, no
}

// target returns what a request asks for.
func target(r *http.Request) (string, uint16, error) {
	if r.Method != http.MethodConnect {
		return "", 0, errors.New("the method CONNECT alone is served: use an https address")
	}
	host, text, err := net.SplitHostPort(r.Host)
	port, perr := strconv.ParseUint(text, 10, 16)
	if err != nil || perr != nil || port == 0 {
		return "", 0, errors.New("the target is not HOST:PORT")
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if err := rule.CheckHostName(host); err != nil {
		return "", 0, err
	}
	return host, uint16(port), nil
}

// dial resolves a name once, and connects to an address that it has checked.
func (p *Proxy) dial(ctx context.Context, host string, port uint16) (net.Conn, *refusal) {
	ctx, cancel := context.WithTimeout(ctx, p.limit.Dial)
	defer cancel()
	unreached := func(err error) *refusal {
		return refuse(http.StatusBadGateway, KindUnreached, "the worker does not reach %s:%d: %w", host, port, err)
	}
	all, err := p.opts.Resolve(ctx, host)
	if err == nil && len(all) == 0 {
		err = errors.New("the name has no address")
	}
	if err != nil {
		return nil, unreached(err)
	}
	var may []netip.Addr
	for _, a := range all {
		if p.mayDial(a) && len(may) < mostAddresses {
			may = append(may, a.Unmap())
		}
	}
	if len(may) == 0 {
		return nil, refuse(http.StatusForbidden, KindAddress, "%s has no public address (egress.private in the configuration of the workers permits others)", host)
	}
	for i, a := range may {
		// One that does not answer leaves time for the others.
		until, _ := ctx.Deadline()
		one, done := context.WithTimeout(ctx, time.Until(until)/time.Duration(len(may)-i))
		var c net.Conn
		c, err = p.opts.Dial(one, netip.AddrPortFrom(a, port))
		done()
		if err == nil {
			return c, nil
		}
	}
	return nil, unreached(err)
}

// established is the answer to a CONNECT request that succeeded.
const established = "HTTP/1.1 200 Connection established\r\n\r\n"

// carry carries a connection until both directions have ended. early has what the program sent with its
// request.
func (p *Proxy) carry(near net.Conn, early io.Reader, far net.Conn, out *Outcome) {
	ends := newEnds(near, far, p.limit.Idle, p.opts.Lost)
	defer ends.stop()
	defer context.AfterFunc(p.ctx, func() { ends.cut(KindClosed) })()
	_ = near.SetDeadline(time.Time{}) // not every connection has one
	if _, err := io.WriteString(near, established); err != nil {
		out.Kind, out.Message = KindDone, "the program on the host is gone"
		return
	}
	both := make(chan int64, 1)
	go func() { both <- ends.copy(far, early) }()
	out.Received = ends.copy(near, far)
	out.Sent = <-both
	switch out.Kind = ends.kind(); out.Kind {
	case KindIdle:
		out.Message = fmt.Sprintf("it carried nothing for %s", p.limit.Idle)
	case KindClosed:
		out.Message = "the session's way out was closed"
	case KindLost:
		out.Message = "the worker's connection to the host was lost"
	}
}
