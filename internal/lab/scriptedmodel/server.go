package scriptedmodel

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// maxBody allows for megabytes of conversation and pictures.
const maxBody = 64 << 20

// Server answers as the script says. Its methods are safe for concurrent use at
// any time.
type Server struct {
	log      *slog.Logger
	program  atomic.Pointer[program]
	record   record
	gates    *gates
	failures failures
	mux      *http.ServeMux

	ctx  context.Context // ends with Close and frees everything that is held
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu   sync.Mutex
	http *http.Server
	url  string
}

// New returns a server for a script. A nil logger discards.
func New(script Script, log *slog.Logger) (*Server, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Server{log: log, gates: newGates(), failures: failures{taken: map[failureKey]int{}}}
	if err := s.SetScript(script); err != nil {
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.routes()
	return s, nil
}

// SetScript replaces the script. Responses that have begun keep the old one. A
// script with problems changes nothing.
func (s *Server) SetScript(script Script) error {
	p, err := compile(script)
	if err != nil {
		return fmt.Errorf("check script: %w", err)
	}
	s.program.Store(p)
	return nil
}

// Start listens on a TCP address, such as 127.0.0.1:0, and serves until Close.
func (s *Server) Start(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("scripted model: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil || s.ctx.Err() != nil {
		_ = l.Close()
		return errors.New("scripted model: it is started once only")
	}
	s.http = &http.Server{Handler: s, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	s.url = "http://" + l.Addr().String()
	s.wg.Go(func() { _ = s.http.Serve(l) }) // always an error; after Close the expected one
	return nil
}

// Restart cuts all connections, listens to nobody while away runs, and then listens at the same
// address again. Gates, failures and the record stay.
func (s *Server) Restart(away func()) error {
	s.mu.Lock()
	old, url := s.http, s.url
	s.http = nil
	s.mu.Unlock()
	if old == nil {
		return errors.New("scripted model: restarted before it was started")
	}
	err := old.Close()
	away()
	return errors.Join(err, s.Start(strings.TrimPrefix(url, "http://")))
}

// URL returns the address of a started server, without a path.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url
}

// BaseURL returns the base_url for codex's configuration.
func (s *Server) BaseURL() string { return s.URL() + "/v1" }

// Close cuts all connections and returns when every response has ended.
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

// Requests returns the recorded requests, oldest first. Beyond 20,000 requests
// or 256 MB of bodies the oldest are dropped.
func (s *Server) Requests() []Request { return s.record.list("") }

// RequestsOf returns the requests of one conversation.
func (s *Server) RequestsOf(conversation string) []Request { return s.record.list(conversation) }

// UserMessages returns what people said in a conversation (codex's thread id),
// according to its newest request.
func (s *Server) UserMessages(conversation string) []string {
	return s.record.userMessages(conversation)
}

// Surprises returns the requests that the script did not foresee.
func (s *Server) Surprises() []Surprise { return s.record.listSurprises() }

// Release opens a gate for current and future waiters.
func (s *Server) Release(gate string) { s.gates.release(gate) }

// Hold closes a gate again.
func (s *Server) Hold(gate string) { s.gates.hold(gate) }

// Waiting returns the responses that are held at gates.
func (s *Server) Waiting() []Waiter { return s.gates.list() }

// AwaitWaiting returns as soon as a response is held at the gate. Everything
// before the gate has then been written to the client.
func (s *Server) AwaitWaiting(ctx context.Context, gate string) (Waiter, error) {
	w, err := s.gates.await(ctx, gate)
	if err != nil {
		return w, fmt.Errorf("nothing waits at gate %q: %w", gate, err)
	}
	return w, nil
}

// Reset clears requests, surprises and the failure counts, and closes all
// gates. The script stays.
func (s *Server) Reset() {
	s.record.reset()
	s.failures.reset()
	s.gates.reset()
}

// ServeHTTP serves the Responses API below /v1 and the control paths.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		http.Error(w, "scripted model: closed", http.StatusServiceUnavailable)
		return
	}
	defer s.wg.Done()
	s.mux.ServeHTTP(w, r)
}

// enter counts a request, for which Close waits. It returns false after Close.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.wg.Add(1)
	return true
}

// responses serves POST /v1/responses.
func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()

	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	entry := s.record.add(r, body)
	if err != nil {
		s.surprise(w, entry, fmt.Sprintf("read the request: %v", err))
		return
	}
	req, err := parseRequest(body)
	if err != nil {
		s.surprise(w, entry, err.Error())
		return
	}
	conversation, response := conversationID(r.Header, req.CacheKey), newID()
	p, err := s.program.Load().decide(req, conversation, response, len(body))
	s.record.update(func() {
		entry.Conversation, entry.Model, entry.UserMessages = conversation, req.Model, req.userMessages()
		entry.Rule, entry.Step = p.rule, p.step
	})
	if err != nil {
		s.surprise(w, entry, err.Error())
		return
	}

	err = s.answer(ctx, w, p, entry, response)
	switch {
	case errors.Is(err, errCut):
		// The only way in net/http to close a connection in mid-answer.
		panic(http.ErrAbortHandler)
	case errors.Is(err, errOver), err == nil:
	default:
		s.log.Debug("response ended early", "conversation", conversation, "err", err)
	}
}

func (s *Server) surprise(w http.ResponseWriter, entry *Request, problem string) {
	s.record.surprise(entry, problem)
	s.log.Warn("surprise", "conversation", entry.Conversation, "path", entry.Path, "problem", problem)
	writeError(w, http.StatusBadRequest, apiError{
		Type: "invalid_request_error", Code: "surprise", Message: "scripted model: " + problem,
	})
}

func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// failures counts how often each failure of a script has happened.
type failures struct {
	mu    sync.Mutex
	taken map[failureKey]int
}

type failureKey struct {
	conversation string
	turn         int
	rule         string
	step, action int
}

// take reports whether the failure is to happen once more, and counts it.
func (f *failures) take(key failureKey, times int) bool {
	if times == -1 {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.taken[key] >= max(times, 1) {
		return false
	}
	f.taken[key]++
	return true
}

func (f *failures) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.taken)
}
