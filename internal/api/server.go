package api

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/localsocket"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// Options configure a Server.
type Options struct {
	// Listen is unix:///path or host:port; port 0 means any.
	Listen string
	// TLS is required beyond unix sockets and loopback.
	TLS *tls.Config
	// Token is the callers' bearer token; empty means none. It is required whenever TLS is.
	// With neither a token nor an Authority, only our own user and root are answered.
	Token string
	// ReadToken is another one, with which callers may only read; empty means none.
	ReadToken string
	// Bearers, if set, has these two tokens, which may be renewed.
	Bearers *Bearers

	Store *store.Store
	// Chunks is the process's only chunk store; Serve opens it if nil.
	Chunks     *chunks.Store
	Hub        *Hub
	Sessions   Sessions
	Seeds      Seeds
	Workspaces Workspaces
	// Hosts are those that tunnels lead to; nil means that there are no tunnels.
	Hosts Hosts
	// TunnelIdle is after how long without data a connection through a tunnel is ended; default an hour.
	TunnelIdle time.Duration
	// Authority says whose requests count, and Objects what they are about; nil lets in
	// everybody with the token.
	Authority Authority
	Objects   Objects
	// Tokens are the API tokens of programs, and Certify signs a certificate for the key of one
	// (a line as in a .pub file). Either may be nil.
	Tokens  Tokens
	Certify func(principal, key string, lifetime time.Duration) (certificate string, err error)
	// Programs makes the routes for programs, which package httpapi has; nil means none.
	Programs func(*Records) Programs
	// Slack links accounts of Slack to principals; nil means that nobody decides there.
	Slack Slack
	// Login gives certificates to people; nil means that nobody logs in here.
	Login Logins
	// Access returns the access file in force; nil means that there is none.
	Access func() *access.Access
	// Status is called at every request for it.
	Status func() Status
	Logger *slog.Logger
	// Record writes the audit record of a refused request, or of an act that no workflow records.
	// It bounds how many refusals are kept, and sets the time. It may be nil.
	Record func(audit.Record)
	// RecordStranger does the same for refused requests of callers who are not known. Anybody who
	// reaches the API can make them, so its bound is to be another one. Default Record.
	RecordStranger func(audit.Record)
	// Alive is the interval of alive lines; default 15 s.
	Alive time.Duration
	// Recheck is how often a request that goes on is judged again; default 15 s. A feed ends
	// within this time after its caller was revoked.
	Recheck time.Duration
}

// A viewer that has not read for writeWait is dropped.
const writeWait = 30 * time.Second

// A Server is the API of one worker.
type Server struct {
	opts   Options
	log    *slog.Logger
	local  bool // unix socket
	secure bool // nobody can eavesdrop
	http   *http.Server
	ln     net.Listener
	socket string
	lock   *os.File
	cancel context.CancelFunc
	served chan struct{}
	once   sync.Once
	id     string // of this process, for [command.WorkerHeader]

	bearers *Bearers
	callers *callers

	archives archives
	tunnels  *tunnels
	mux      *http.ServeMux
	programs Programs
}

var errClosing = errors.New("the worker stops")

// Serve listens and serves until Close.
func Serve(opts Options) (*Server, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Alive <= 0 {
		opts.Alive = 15 * time.Second
	}
	if opts.Recheck <= 0 {
		opts.Recheck = 15 * time.Second
	}
	if opts.RecordStranger == nil {
		opts.RecordStranger = opts.Record
	}
	if opts.Chunks == nil {
		opts.Chunks = chunks.Open(opts.Store, chunks.Options{Logger: opts.Logger})
	}
	s := &Server{opts: opts, log: opts.Logger, served: make(chan struct{}), id: rand.Text(), tunnels: newTunnels()}
	if s.bearers = opts.Bearers; s.bearers == nil {
		s.bearers = NewBearers(opts.Token, opts.ReadToken)
	}
	if err := s.listen(); err != nil {
		return nil, fmt.Errorf("serve the API on %s: %w", opts.Listen, err)
	}
	s.callers = &callers{authority: opts.Authority, objects: opts.Objects, tokens: opts.Tokens, store: opts.Store, recheck: opts.Recheck, secure: s.secure, id: s.id}
	ctx, cancel := context.WithCancelCause(context.Background())
	s.cancel = func() { cancel(errClosing) }
	s.http = &http.Server{
		Handler:           s.guard(s.routes()),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ConnContext:       s.withPeer,
		ErrorLog:          slog.NewLogLogger(opts.Logger.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(s.served)
		if err := s.http.Serve(s.ln); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("api stopped", "err", err)
		}
	}()
	return s, nil
}

func (s *Server) listen() error {
	if path, ok := strings.CutPrefix(s.opts.Listen, "unix://"); ok {
		s.local, s.secure = true, true
		return s.listenUnix(path)
	}
	host, _, err := net.SplitHostPort(s.opts.Listen)
	if err != nil {
		return err
	}
	ip := net.ParseIP(host)
	loopback := host == "localhost" || ip != nil && ip.IsLoopback()
	if !loopback && (s.opts.TLS == nil || s.opts.Token == "") {
		return errors.New("not a loopback address: it needs a certificate and a token (api.tls, api.token_file)")
	}
	ln, err := net.Listen("tcp", s.opts.Listen)
	if err != nil {
		return err
	}
	if s.opts.TLS != nil {
		s.secure = true
		ln = tls.NewListener(ln, s.opts.TLS)
	}
	s.ln = ln
	return nil
}

// listenUnix replaces the socket of a dead worker, but not of a living one, which holds a
// lock.
func (s *Server) listenUnix(path string) error {
	if err := localsocket.MakeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		lock.Close()
		return err
	}
	// The socket gets its name after its mode, so that nobody else can connect before.
	fresh := path + ".new"
	_ = os.Remove(fresh) // of a dead worker
	ln, err := localsocket.Listen(fresh, func(err error) { s.log.Warn("api connection refused", "err", err) })
	if err != nil {
		lock.Close()
		return err
	}
	ln.SetUnlinkOnClose(false)
	err = os.Chmod(fresh, 0o600)
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		ln.Close()
		lock.Close()
		return err
	}
	s.ln, s.socket, s.lock = ln, path, lock
	return nil
}

// Address returns unix:///path, http://… or https://….
func (s *Server) Address() string {
	switch {
	case s.local:
		return "unix://" + s.socket
	case s.opts.TLS != nil:
		return "https://" + s.ln.Addr().String()
	}
	return "http://" + s.ln.Addr().String()
}

// Close ends every feed, so that viewers reconnect to the next worker.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		s.cancel()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err = s.http.Shutdown(ctx); err != nil {
			err = s.http.Close()
		}
		<-s.served
		s.tunnels.wait(ctx)
		if s.socket != "" {
			err = errors.Join(err, os.Remove(s.socket), s.lock.Close())
		}
	})
	return err
}

func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(command.WorkerHeader, s.id)
		if s.opts.Token != "" && !s.needsNoToken(r) {
			if err := s.bearers.now.Load().check(r); err != nil {
				w.Header().Set("WWW-Authenticate", "Bearer")
				if !isOpen(r) {
					refusedFor(&s.opts, nil, audit.APIRequest, pathOf(r), err)
				}
				failAt(s, w, r, err)
				return
			}
		}
		if err := s.peerRefused(r); err != nil {
			refusedFor(&s.opts, nil, audit.APIRequest, pathOf(r), err)
			failAt(s, w, r, err)
			return
		}
		// A web page in a local browser can reach loopback, but cannot hide its origin.
		if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" || !s.local && s.opts.TLS == nil && !loopbackName(r.Host) {
			failAt(s, w, r, problem(http.StatusForbidden, ErrRefused, "this API is not for browsers"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func loopbackName(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (s *Server) fail(w http.ResponseWriter, err error) {
	var e *Error
	if !errors.As(err, &e) {
		e = problem(http.StatusInternalServerError, ErrInternal, "%v", err)
		s.log.Error("api request failed", "err", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(map[string]*Error{"error": e})
}

func (s *Server) reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
