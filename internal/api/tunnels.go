package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/tunnel"
)

const (
	// tunnelProtocol names what a connection speaks after a tunnel was opened on it.
	tunnelProtocol = "fairlead-tunnel"
	// maxTunnels bounds the open tunnels of a worker, and maxTunnelsOf those of a principal.
	maxTunnels   = 64
	maxTunnelsOf = 16
	// maxTunneled bounds the connections of all tunnels of a worker. Each may need the 2 MiB of
	// an SSH channel while nobody reads.
	maxTunneled = 256
	// tunnelReach bounds the attempt to reach the host before a tunnel is opened.
	tunnelReach = 45 * time.Second
)

// ErrNotAnswered is the kind of an error: the host was reached, and nobody listens at its port.
const ErrNotAnswered = "not_answered"

// ErrUnreachableHost is the kind of an error: the worker does not reach the host.
const ErrUnreachableHost = "host_unreachable"

// Kinds of errors of a worker that opens no tunnel now, where another worker or a later request may
// have it.
const (
	ErrElsewhere = "elsewhere" // it reaches other hosts
	ErrBusy      = "busy"      // it has as many as it may have
)

// Hosts are the hosts of this worker's zone.
type Hosts interface {
	// Zone returns the zone.
	Zone() string
	// Open returns a host of the zone; an *Error of kind ErrNotFound if there is none, and one of
	// kind ErrStore if that is not known now. It returns the same for as long as the host's entry
	// in the inventory says the same about how to reach it.
	Open(ctx context.Context, name string) (hostexec.Host, error)
}

// tunnels bounds the tunnels of a worker.
type tunnels struct {
	open  chan struct{} // a place for each
	conns chan struct{} // a place for each of their connections

	mu sync.Mutex
	of map[string]int // open ones by principal; guarded by mu
}

func newTunnels() *tunnels {
	return &tunnels{open: make(chan struct{}, maxTunnels), conns: make(chan struct{}, maxTunneled), of: map[string]int{}}
}

// enter takes a place for a tunnel of a principal. Without authority, all are the owner's.
func (t *tunnels) enter(c *caller) (leave func(), err error) {
	if c != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.of[c.principal] >= maxTunnelsOf {
			return nil, problem(http.StatusServiceUnavailable, ErrBusy, "%s has %d tunnels open at this worker, which is the limit for each principal", c.principal, maxTunnelsOf).hinted("end one")
		}
	}
	select {
	case t.open <- struct{}{}:
	default:
		return nil, problem(http.StatusServiceUnavailable, ErrBusy, "this worker has %d tunnels open, which is its limit", maxTunnels).hinted("end one, or ask another worker")
	}
	if c == nil {
		return func() { <-t.open }, nil
	}
	t.of[c.principal]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.of[c.principal]--; t.of[c.principal] == 0 {
			delete(t.of, c.principal)
		}
		<-t.open
	}, nil
}

// wait returns when no tunnel is open any more, and none opens.
func (t *tunnels) wait(ctx context.Context) {
	for range cap(t.open) {
		select {
		case t.open <- struct{}{}:
		case <-ctx.Done():
		}
	}
}

// ofTunnel is about a host. Conditions see its labels.
func ofTunnel(r *http.Request) (need, error) {
	name, err := named(r, "host name", "host")
	return need{verb: access.HostTunnel, object: access.Object{Host: name}, host: true}, err
}

// tunnelObject is the object of the records about tunnels to a host.
func tunnelObject(host string) string { return protocol.HostTaskID(host, "tunnel") }

// tunnel opens a tunnel to a port of a host's loopback address. The connection of the request
// then carries the connections to the port.
func (s *Server) tunnel(w http.ResponseWriter, r *http.Request) {
	name, err := named(r, "host name", "host")
	if err != nil {
		s.fail(w, err)
		return
	}
	port, err := strconv.Atoi(r.PathValue("port"))
	zone := r.URL.Query().Get("zone")
	switch {
	case err != nil || port < 1 || port > 65535:
		s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "%.40q is not a port: a number from 1 to 65535", r.PathValue("port")))
		return
	case r.Header.Get("Upgrade") != tunnelProtocol || r.ProtoMajor != 1:
		s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "a tunnel needs HTTP/1.1 and the header Upgrade: %s", tunnelProtocol))
		return
	case s.opts.Hosts == nil:
		s.fail(w, problem(http.StatusServiceUnavailable, ErrElsewhere, "this worker opens no tunnels").hinted("ask a worker that runs sessions"))
		return
	case protocol.TaskQueueOf(zone) != protocol.TaskQueueOf(s.opts.Hosts.Zone()):
		s.fail(w, problem(http.StatusServiceUnavailable, ErrElsewhere, "this worker reaches the hosts of another zone").hinted("ask a worker of the host's zone: `ctl status` shows the workers, and --zone names the zone"))
		return
	case name == protocol.LocalHost:
		s.fail(w, problem(http.StatusForbidden, ErrRefused, "host %s is the worker's own machine: there is no SSH connection for a tunnel", name).hinted("connect to the port on that machine"))
		return
	}
	c := callerOf(r.Context())
	leave, err := s.tunnels.enter(c)
	if err != nil {
		s.fail(w, err)
		return
	}
	defer leave()
	host, err := reach(r.Context(), s.opts.Hosts, name)
	if err != nil {
		s.fail(w, err)
		return
	}
	conn, err := switched(w)
	if err != nil {
		s.fail(w, err)
		return
	}
	where := fmt.Sprintf("tunnel to port %d of host %s", port, name)
	accepted(&s.opts, c, access.HostTunnel, tunnelObject(name), where+" opened")
	began := time.Now()
	ctx, cancel := context.WithCancel(r.Context())
	var watched sync.WaitGroup
	defer watched.Wait()
	defer cancel()
	watched.Go(func() { s.whileSame(ctx, cancel, name, host) })
	use := tunnel.Serve(ctx, conn, tunnel.Options{
		Dial:    func(ctx context.Context) (net.Conn, error) { return s.tunnels.dial(ctx, host, port) },
		Explain: func(err error) *tunnel.Failure { return explainTunnel(name, port, err) },
		Idle:    s.opts.TunnelIdle, Logger: s.log,
	})
	accepted(&s.opts, c, access.HostTunnel, tunnelObject(name), fmt.Sprintf("%s ended, opened at %s: %d connections, %d that could not be made, %d bytes to the host, %d bytes from it",
		where, began.UTC().Format(time.RFC3339), use.Conns, use.Failed, use.Sent, use.Received))
}

// whileSame cancels once a host is removed, or is reached in another way.
func (s *Server) whileSame(ctx context.Context, cancel context.CancelFunc, name string, host hostexec.Host) {
	t := time.NewTicker(s.opts.Recheck)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now, err := s.opts.Hosts.Open(ctx, name)
		var e *Error
		if err == nil && now != host || errors.As(err, &e) && e.Kind == ErrNotFound {
			cancel()
			return
		}
	}
}

var errTunneled = fmt.Errorf("the tunnels of this worker have %d connections, which is its limit", maxTunneled)

// dial connects to a port of a host's loopback address.
func (t *tunnels) dial(ctx context.Context, host hostexec.Host, port int) (net.Conn, error) {
	select {
	case t.conns <- struct{}{}:
	default:
		return nil, errTunneled
	}
	conn, err := hostexec.Dial(ctx, host, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, hostexec.ErrNotAnswered) {
		if other, oerr := hostexec.Dial(ctx, host, "tcp", net.JoinHostPort("::1", strconv.Itoa(port))); oerr == nil {
			conn, err = other, nil
		}
	}
	if err != nil {
		<-t.conns
		return nil, err
	}
	return &counted{Conn: conn, release: sync.OnceFunc(func() { <-t.conns })}, nil
}

// A counted is a connection that has a place until it is closed.
type counted struct {
	net.Conn
	release func()
}

func (c *counted) Close() error {
	defer c.release()
	return c.Conn.Close()
}

func (c *counted) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// reach connects to a host, so that a host that cannot be reached is told before a tunnel opens.
func reach(ctx context.Context, hosts Hosts, name string) (hostexec.Host, error) {
	host, err := hosts.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, tunnelReach)
	defer cancel()
	if _, err := host.Run(ctx, hostexec.Command{Script: ":"}); err != nil {
		return nil, problem(http.StatusServiceUnavailable, ErrUnreachableHost, "reach host %s: %v", name, err).hinted(fmt.Sprintf("`ctl host check %s` says more", name))
	}
	return host, nil
}

// switched answers a request and takes its connection over.
func switched(w http.ResponseWriter) (net.Conn, error) {
	id := w.Header().Get(command.WorkerHeader)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, problem(http.StatusBadRequest, ErrBadInput, "this connection cannot become a tunnel: %v", err)
	}
	text := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + tunnelProtocol + "\r\n" + command.WorkerHeader + ": " + id + "\r\n\r\n"
	_ = conn.SetWriteDeadline(time.Now().Add(writeWait))
	_, _ = io.WriteString(conn, text) // whoever uses the connection notices that the caller has gone
	_ = conn.SetWriteDeadline(time.Time{})
	return &afterUpgrade{Conn: conn, from: buffered.Reader}, nil
}

// An afterUpgrade first reads what came together with the request.
type afterUpgrade struct {
	net.Conn
	from *bufio.Reader
}

func (c *afterUpgrade) Read(p []byte) (int, error) { return c.from.Read(p) }

// explainTunnel turns an error of a connection into what the caller is told.
func explainTunnel(name string, port int, err error) *tunnel.Failure {
	f := &tunnel.Failure{Kind: ErrUnreachableHost, Message: err.Error(), Hint: fmt.Sprintf("`ctl host check %s` says more", name)}
	switch {
	case errors.Is(err, hostexec.ErrForwardRefused):
		f.Kind, f.Hint = ErrRefused, fmt.Sprintf("allow it in the host's sshd_config: AllowTcpForwarding yes or local, and a PermitOpen that names 127.0.0.1:%d; `ctl host check %s` tries it", port, name)
	case errors.Is(err, hostexec.ErrNotAnswered):
		f.Kind, f.Hint = ErrNotAnswered, fmt.Sprintf("see on the host whether a program listens at port %d of 127.0.0.1", port)
	case errors.Is(err, errTunneled):
		f.Kind, f.Hint = ErrBusy, "connect again when others have ended"
	case errors.Is(err, tunnel.ErrIdle):
		f.Kind, f.Hint = "idle", "connect again"
	}
	return f
}

// OpenTunnel opens a tunnel to a port of a host. What is returned carries it: see
// [tunnel.Client].
func (c *Client) OpenTunnel(ctx context.Context, zone, host string, port int) (net.Conn, error) {
	path := fmt.Sprintf("/v1/tunnels/%s/%d?%s", url.PathEscape(host), port, url.Values{"zone": {zone}}.Encode())
	var last error
	for range maxOther {
		req, err := c.request(ctx, http.MethodPost, path, http.NoBody, 0, command.BodyDigest(nil), false)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", tunnelProtocol)
		resp, err := c.do(ctx, req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusSwitchingProtocols {
			both, ok := resp.Body.(io.ReadWriteCloser)
			if !ok {
				return nil, errors.New("the connection of a tunnel cannot be written: this is a bug in Fairlead")
			}
			return upgraded{both}, nil
		}
		last = c.refusal(resp)
		var e *Error
		if !errors.As(last, &e) || e.Kind != ErrOtherWorker {
			break
		}
	}
	return nil, last
}

// An upgraded is a connection after an Upgrade. It has no deadlines.
type upgraded struct{ io.ReadWriteCloser }

func (upgraded) LocalAddr() net.Addr              { return &net.UnixAddr{Net: "tunnel"} }
func (upgraded) RemoteAddr() net.Addr             { return &net.UnixAddr{Net: "tunnel"} }
func (upgraded) SetDeadline(time.Time) error      { return nil }
func (upgraded) SetReadDeadline(time.Time) error  { return nil }
func (upgraded) SetWriteDeadline(time.Time) error { return nil }
