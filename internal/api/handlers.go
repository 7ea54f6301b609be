package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"regexp"
	"strconv"
	"time"
	"unicode/utf8"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// Bounds on request bodies.
const (
	// MaxMessageChars is codex's own limit on a message.
	MaxMessageChars = 1 << 20
	maxMessage      = MaxMessageChars * utf8.UTFMax
	// MaxSeed bounds a packed seed, in bytes.
	MaxSeed = 64 << 20
)

var (
	namePattern   = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	digestPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// status tells strangers only what is needed to find a worker.
func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	st := s.opts.Status()
	if c := callerOf(r.Context()); c != nil && c.principal == "" {
		st = Status{Identity: st.Identity, PID: st.PID, Version: st.Version, Zone: st.Zone, TaskQueues: st.TaskQueues, API: st.API, Now: st.Now, Ready: st.Ready, Waits: st.Waits}
	}
	s.reply(w, st)
}

// number reads a query parameter of at least min, which is also the default.
func number(r *http.Request, name string, min int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return min, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < min {
		return 0, problem(http.StatusBadRequest, ErrBadInput, "%s=%q is not a whole number from %d on", name, text, min)
	}
	return n, nil
}

func named(r *http.Request, what, key string) (string, error) {
	name := r.PathValue(key)
	if !namePattern.MatchString(name) {
		return "", problem(http.StatusBadRequest, ErrBadInput, "%q is not a %s", name, what)
	}
	return name, nil
}

// feed streams a session until it has closed.
func (s *Server) feed(w http.ResponseWriter, r *http.Request) { s.entries(w, r, true) }

// transcript streams a session up to the newest entry.
func (s *Server) transcript(w http.ResponseWriter, r *http.Request) { s.entries(w, r, false) }

func (s *Server) entries(w http.ResponseWriter, r *http.Request, follow bool) {
	id, err := named(r, "session id", "id")
	if err != nil {
		s.fail(w, err)
		return
	}
	from, err := number(r, "from", 1)
	if err != nil {
		s.fail(w, err)
		return
	}
	if err := s.known(r.Context(), id); err != nil {
		s.fail(w, err)
		return
	}
	name := records.SessionTopic(id)
	t := s.opts.Hub.enter(name)
	defer s.opts.Hub.leave(name, t, nil)
	st := newStream(w)
	v := &viewer{
		session: id, topic: t, runs: s.opts.Sessions, follow: follow, next: from, hub: s.opts.Hub,
		emit: st.emit, flush: st.flush,
		read: func(ctx context.Context, session string, from int64) iter.Seq2[protocol.Entry, error] {
			return records.ReadTranscript(ctx, s.opts.Store, session, from)
		},
	}
	s.finish(st, v.run(r.Context(), s.opts.Alive), Event{Kind: KindEnd})
}

func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	id, err := named(r, "session id", "id")
	if err != nil {
		s.fail(w, err)
		return
	}
	s.reply(w, s.opts.Hub.live(records.SessionTopic(id)))
}

// known refuses a session that neither Temporal nor the store knows. Temporal forgets
// closed sessions, but transcripts remain.
func (s *Server) known(ctx context.Context, id string) error {
	if s.opts.Sessions == nil {
		return nil
	}
	if _, err := s.opts.Sessions.Running(ctx, id); !errors.Is(err, ErrNoSession) {
		return nil
	}
	for _, err := range records.ReadTranscript(ctx, s.opts.Store, id, 1) {
		if err != nil {
			return problem(http.StatusServiceUnavailable, ErrStore, "read the transcript of %s: %v", id, err)
		}
		return nil
	}
	return problem(http.StatusNotFound, ErrNotFound, "no session %s", id).hinted("`ctl session list` shows them")
}

func (s *Server) finish(st *stream, err error, end Event) {
	var e *Error
	switch {
	case err == nil:
	case errors.As(err, &e):
		end = Event{Kind: KindError, Error: e}
	default:
		return // without a last line the viewer reconnects
	}
	if st.emit(end) == nil {
		_ = st.flush()
	}
}

func (s *Server) request(w http.ResponseWriter, r *http.Request) {
	id, err := named(r, "session id", "id")
	digest := r.PathValue("digest")
	if err == nil && !digestPattern.MatchString(digest) {
		err = problem(http.StatusBadRequest, ErrBadInput, "%q is not a digest: 64 hex digits", digest)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	req, err := site.ReadRequest(r.Context(), s.opts.Store, id, digest)
	if err != nil {
		s.fail(w, storeProblem(err, "no request %.12s… of session %s is in the store", digest, id))
		return
	}
	s.reply(w, req)
}

func storeProblem(err error, missing string, args ...any) error {
	if errors.Is(err, store.ErrNotFound) {
		return problem(http.StatusNotFound, ErrNotFound, missing, args...)
	}
	return problem(http.StatusServiceUnavailable, ErrStore, "%v", err).hinted("`ctl doctor` on the worker's machine says more")
}

func (s *Server) message(w http.ResponseWriter, r *http.Request) {
	folder, err := folderOf(r)
	var text []byte
	if err == nil {
		text, err = readBody(w, r, maxMessage, "a message")
	}
	if err == nil {
		err = checkMessage(text)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	key, err := s.putOwned(r.Context(), folder, owned.Messages, text)
	if err != nil {
		s.fail(w, err)
		return
	}
	s.reply(w, StoredMessage{Blob: key, Chars: utf8.RuneCount(text)})
}

func checkMessage(text []byte) error {
	switch n := utf8.RuneCount(text); {
	case !utf8.Valid(text):
		return problem(http.StatusBadRequest, ErrBadInput, "the message is not UTF-8 text")
	case n == 0:
		return problem(http.StatusBadRequest, ErrBadInput, "the message is empty")
	case n > MaxMessageChars:
		return tooLong("a message", fmt.Sprintf("%d characters", MaxMessageChars))
	}
	return nil
}

func tooLong(what, limit string) error {
	return problem(http.StatusRequestEntityTooLarge, ErrBadInput, "%s may have %s at most", what, limit)
}

func readBody(w http.ResponseWriter, r *http.Request, limit int64, what string) ([]byte, error) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(2 * time.Minute)) // not every listener supports deadlines
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLong(what, fmt.Sprintf("%d bytes", limit))
	case err != nil:
		return nil, problem(http.StatusBadRequest, ErrBadInput, "read %s: %v", what, err)
	}
	return data, nil
}

type stream struct {
	rc  *http.ResponseController
	buf *bufio.Writer
	enc *json.Encoder
}

func newStream(w http.ResponseWriter) *stream {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	buf := bufio.NewWriterSize(w, 8<<10)
	return &stream{http.NewResponseController(w), buf, json.NewEncoder(buf)}
}

func (st *stream) emit(ev Event) error {
	// A viewer that does not read is dropped; it can reconnect.
	if err := st.rc.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
		return err
	}
	return st.enc.Encode(ev)
}

func (st *stream) flush() error {
	if err := st.rc.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
		return err
	}
	if err := st.buf.Flush(); err != nil {
		return err
	}
	return st.rc.Flush()
}
