package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxConns is how many connections a tunnel has at a time. A client lets more wait.
	MaxConns = 64

	defaultIdle = time.Hour
	// A peer that answers nothing for pingEvery is asked whether it lives, and is given up after
	// pingWait more.
	pingEvery = 30 * time.Second
	pingWait  = time.Minute

	// beginWait bounds the wait for a peer that begins.
	beginWait = 30 * time.Second

	// serverStream is what a server keeps of what a client sends on a connection, until the far
	// end takes it. What all connections may keep together is no less than MaxConns times that:
	// otherwise a few that stall would leave nothing to the others. net/http permits less than
	// 4 MiB for all. A client may send 64 KiB - 1 before it knows what the server permits, so
	// serverStream must not be less.
	serverStream = 64<<10 - 1
	serverAll    = MaxConns * serverStream
	// clientStream is the same for a client, which does not bound the sum any further: without a
	// setting, net/http's clients have room for all.
	clientStream = 256 << 10
)

// ErrIdle ends a connection that carried nothing for too long.
var ErrIdle = errors.New("nothing was sent on the connection for too long")

// Options say where the connections of a tunnel go.
type Options struct {
	// Dial connects to the far end. The connection must have CloseWrite.
	Dial func(context.Context) (net.Conn, error)
	// Explain turns an error of Dial, or one of its connections, into what the client is told.
	Explain func(error) *Failure
	// Idle is after how long without data a connection is ended; default an hour.
	Idle time.Duration
	// Unused is after how long without a connection the tunnel is ended; default an hour.
	Unused time.Duration
	Logger *slog.Logger
}

// A Use says what a tunnel has carried.
type Use struct {
	Conns    int64 // connections that were made
	Failed   int64 // connections that could not be made
	Sent     int64 // bytes to the far end
	Received int64 // bytes from it
}

// Serve carries the connections that the peer of conn opens, until conn is closed, ctx ends, or
// there was no connection for Options.Unused.
// It closes conn, and returns once all connections are closed.
func Serve(ctx context.Context, conn net.Conn, o Options) Use {
	if o.Idle <= 0 {
		o.Idle = defaultIdle
	}
	if o.Unused <= 0 {
		o.Unused = defaultIdle
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &server{opts: o, ended: make(chan struct{})}
	only := &onlyConn{Conn: conn, closed: make(chan struct{}), taken: make(chan struct{}, 1)}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{
		Handler: s, Protocols: &protocols, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: beginWait, IdleTimeout: o.Unused,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: MaxConns, MaxReceiveBufferPerStream: serverStream, MaxReceiveBufferPerConnection: serverAll,
			SendPingTimeout: pingEvery, PingTimeout: pingWait},
	}
	defer context.AfterFunc(ctx, func() { only.Close() })()
	_ = srv.Serve(only) // which returns when the connection is closed
	s.end()
	return Use{Conns: s.conns.Load(), Failed: s.failed.Load(), Sent: s.sent.Load(), Received: s.received.Load()}
}

// An onlyConn is a connection, and the listener that returns it once.
type onlyConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
	taken  chan struct{}
}

func (c *onlyConn) Accept() (net.Conn, error) {
	select {
	case c.taken <- struct{}{}:
		return c, nil
	case <-c.closed:
		return nil, net.ErrClosed
	}
}

func (c *onlyConn) Addr() net.Addr { return c.LocalAddr() }

func (c *onlyConn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		close(c.closed)
		err = c.Conn.Close()
	})
	return err
}

type server struct {
	opts                          Options
	conns, failed, sent, received atomic.Int64

	mu    sync.Mutex
	runs  int           // guarded by mu, as over is
	over  bool          // no more may begin
	ended chan struct{} // closed when over and runs is 0
}

func (s *server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.runs++
	}
	return !s.over
}

func (s *server) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs--
	if s.over && s.runs == 0 {
		close(s.ended)
	}
}

// end waits until no connection is open.
func (s *server) end() {
	s.mu.Lock()
	s.over = true
	if s.runs == 0 {
		close(s.ended)
	}
	s.mu.Unlock()
	<-s.ended
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		panic(http.ErrAbortHandler)
	}
	defer s.done()
	if r.Method != http.MethodPost || r.URL.Path != connectPath {
		http.NotFound(w, r)
		return
	}
	far, err := s.opts.Dial(r.Context())
	if err != nil {
		s.failed.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write(s.opts.Explain(err).marshal()) // or the peer is gone
		return
	}
	defer far.Close()
	s.conns.Add(1)
	c := &carried{server: s, far: far, body: r.Body, w: w, flush: http.NewResponseController(w)}
	w.WriteHeader(http.StatusOK)
	if err := c.flush.Flush(); err != nil {
		return
	}
	c.run(r.Context())
}

// A carried is one connection.
type carried struct {
	server *server
	far    net.Conn
	body   io.ReadCloser
	w      http.ResponseWriter
	flush  *http.ResponseController
	moved  atomic.Int64 // bytes in both directions
}

// run returns when both directions have ended, or the connection is lost.
func (c *carried) run(ctx context.Context) {
	up, down := make(chan bool, 1), make(chan bool, 1)
	over := make(chan error, 1)
	go func() { up <- c.toFar() }()
	go func() { down <- c.fromFar(over) }()
	tick := time.NewTicker(max(c.server.opts.Idle/8, time.Millisecond))
	defer tick.Stop()
	last, since := int64(-1), time.Now()
	gone := ctx.Done()
	upRuns, downRuns := true, true
	for upRuns || downRuns {
		end := false
		select {
		case ok := <-up:
			upRuns = false
			end = !ok && !downRuns
		case ok := <-down:
			downRuns = false
			end = !ok
		case <-gone:
			gone, end = nil, true
		case <-tick.C:
			if now := c.moved.Load(); now != last {
				last, since = now, time.Now()
			} else if time.Since(since) >= c.server.opts.Idle {
				select {
				case over <- fmt.Errorf("%w (%v)", ErrIdle, c.server.opts.Idle):
				default:
				}
				end = true
			}
		}
		if end {
			c.far.Close()
			c.body.Close()
			_ = c.flush.SetWriteDeadline(time.Now().Add(10 * time.Second)) // for the reason, if the peer reads
		}
	}
}

// toFar copies what the client sends. It returns false if the far end takes no more; what the
// client still sends is dropped then, because the far end may have an answer.
func (c *carried) toFar() bool {
	buf := make([]byte, maxPiece)
	for {
		n, err := c.body.Read(buf)
		if n > 0 {
			m, werr := c.far.Write(buf[:n])
			c.server.sent.Add(int64(m))
			c.moved.Add(int64(m))
			if werr != nil {
				_, _ = io.Copy(io.Discard, c.body)
				return false
			}
		}
		if err == io.EOF {
			half, ok := c.far.(interface{ CloseWrite() error })
			return ok && half.CloseWrite() == nil
		}
		if err != nil {
			return false // the client is gone, and the context ends
		}
	}
}

// fromFar copies what the far end sends, and returns whether it ended in good order. over has
// the reason why the connection was closed here.
func (c *carried) fromFar(over <-chan error) bool {
	buf := make([]byte, headSize+maxPiece)
	for {
		n, err := c.far.Read(buf[headSize:])
		if n > 0 {
			c.server.received.Add(int64(n))
			appendHead(buf[:0], frameData, n)
			if !c.send(buf[:headSize+n]) {
				return false
			}
			c.moved.Add(int64(n))
		}
		switch {
		case err == io.EOF:
			return c.send(appendHead(nil, frameEnd, 0))
		case err != nil:
			select {
			case err = <-over:
			default:
			}
			text := c.server.opts.Explain(err).marshal()
			c.send(append(appendHead(nil, frameOver, len(text)), text...))
			return false
		}
	}
}

func (c *carried) send(b []byte) bool {
	_, err := c.w.Write(b)
	if err == nil {
		err = c.flush.Flush()
	}
	return err == nil
}
