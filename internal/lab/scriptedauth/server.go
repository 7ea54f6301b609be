package scriptedauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// ClientID is codex's OAuth client id.
const ClientID = "app_EMoamEEZ73f0CkXaXp7hrann"

// Server is an issuer. Its methods are safe for concurrent use at any time.
type Server struct {
	log  *slog.Logger
	mux  *http.ServeMux
	stop context.CancelFunc
	ctx  context.Context // ends with Close and frees everything that is held
	wg   sync.WaitGroup

	mu        sync.Mutex
	http      *http.Server
	url       string
	families  []*family
	devices   []*device
	usages    map[string]Usage // by account
	faults    []*Fault
	requests  []Request
	surprises []string
	holding   int
	free      chan struct{} // closed by Release
	moved     chan struct{} // closed and replaced when anything changes
}

// New returns an issuer without logins. A nil logger discards.
func New(log *slog.Logger) *Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Server{log: log, free: make(chan struct{}), moved: make(chan struct{})}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.routes()
	return s
}

// Start listens on a TCP address, such as 127.0.0.1:0, and serves until Close.
func (s *Server) Start(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("scripted auth: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil || s.ctx.Err() != nil {
		_ = l.Close()
		return errors.New("scripted auth: it is started once only")
	}
	s.http = &http.Server{Handler: s, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	s.url = "http://" + l.Addr().String()
	s.wg.Go(func() { _ = s.http.Serve(l) }) // always an error; after Close the expected one
	return nil
}

// Issuer returns the value for seeds.issuer, which codex calls the issuer, too.
func (s *Server) Issuer() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url
}

// TokenEndpoint returns the value for seeds.token_endpoint.
func (s *Server) TokenEndpoint() string { return s.Issuer() + "/oauth/token" }

// Close cuts all connections and returns when every request has ended.
func (s *Server) Close() error {
	s.mu.Lock()
	s.stop()
	server := s.http
	s.mu.Unlock()
	var err error
	if server != nil {
		err = server.Close()
	}
	s.wg.Wait()
	return err
}

// ServeHTTP serves the issuer's endpoints and the control paths.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	over := s.ctx.Err() != nil
	if !over {
		s.wg.Add(1)
	}
	s.mu.Unlock()
	if over {
		http.Error(w, "scripted auth: closed", http.StatusServiceUnavailable)
		return
	}
	defer s.wg.Done()
	s.mux.ServeHTTP(w, r)
}

// changed wakes the callers of await. The caller must hold mu.
func (s *Server) changed() {
	close(s.moved)
	s.moved = make(chan struct{})
}

// await returns when holds, which is called under the lock, returns true.
func (s *Server) await(ctx context.Context, what string, holds func() bool) error {
	for {
		s.mu.Lock()
		ok, moved := holds(), s.moved
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("scripted auth: %s: %w", what, ctx.Err())
		}
	}
}

// AwaitHolding returns as soon as n requests hang or are held.
func (s *Server) AwaitHolding(ctx context.Context, n int) error {
	return s.await(ctx, fmt.Sprintf("fewer than %d requests are held", n), func() bool { return s.holding >= n })
}

// AwaitRequests returns as soon as n requests of an endpoint were answered or
// given up.
func (s *Server) AwaitRequests(ctx context.Context, endpoint string, n int) error {
	return s.await(ctx, fmt.Sprintf("fewer than %d requests of %s", n, endpoint), func() bool {
		have := 0
		for _, r := range s.requests {
			if r.Endpoint == endpoint && r.Answer != "" {
				have++
			}
		}
		return have >= n
	})
}

// Release frees all requests that hang or are held.
func (s *Server) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.free)
	s.free = make(chan struct{})
}

// Reset clears requests, surprises and faults. Logins and codes stay.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.surprises, s.faults = nil, nil, nil
	s.changed()
}

func now() time.Time { return time.Now().UTC() }
