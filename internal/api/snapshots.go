package api

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// ErrIncomplete is the error kind for an incomplete snapshot.
const ErrIncomplete = "incomplete"

// ErrNewer is the error kind for a snapshot of a newer version.
const ErrNewer = "newer"

// Trailers of an export, which is valid only with trailerDigest. trailerError says what
// went wrong.
const (
	trailerDigest = "Fairlead-Sha256"
	trailerError  = "Fairlead-Error"
)

func snapshotProblem(err error) error {
	switch {
	case errors.Is(err, snapshots.ErrNotFound):
		return problem(http.StatusNotFound, ErrNotFound, "%v", err).hinted("`ctl snapshot list` shows them")
	case errors.Is(err, snapshots.ErrNewer):
		return problem(http.StatusConflict, ErrNewer, "%v", err).hinted("bring this worker to the version of the others; `ctl status` shows which each of them has")
	case errors.Is(err, snapshots.ErrIncomplete):
		return problem(http.StatusConflict, ErrIncomplete, "%v", err).hinted("`ctl snapshot list` shows the session's others; `ctl snapshot check` says what is missing")
	}
	return storeProblem(err, "%v", err)
}

// snapshots lists those of one or all sessions, oldest first.
func (s *Server) snapshots(w http.ResponseWriter, r *http.Request) {
	session := r.URL.Query().Get("session")
	if session != "" && !namePattern.MatchString(session) {
		s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "%q is not a session id", session))
		return
	}
	list, err := snapshots.List(r.Context(), s.opts.Store, session)
	if err != nil {
		s.fail(w, snapshotProblem(err))
		return
	}
	list = s.readable(r.Context(), list)
	st := newStream(w)
	for i := range list {
		m := forPeople(list[i])
		if st.emit(Event{Kind: KindSnapshot, Snapshot: &m}) != nil {
			return
		}
	}
	s.finish(st, nil, Event{Kind: KindEnd})
}

// listWait bounds how long sessions are asked what conditions see of them.
const listWait = 30 * time.Second

// readable returns the snapshots of sessions that the caller may read.
func (s *Server) readable(ctx context.Context, all []snapshots.Manifest) []snapshots.Manifest {
	if callerOf(ctx) == nil {
		return all
	}
	ctx, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	may := map[string]bool{}
	var out []snapshots.Manifest
	for _, m := range all {
		ok, asked := may[m.Session]
		if !asked {
			ok = s.callers.may(ctx, access.SessionRead, m.Session)
			may[m.Session] = ok
		}
		if ok {
			out = append(out, m)
		}
	}
	return out
}

// snapshot also shows one that is incomplete or of a newer version.
func (s *Server) snapshot(w http.ResponseWriter, r *http.Request) {
	m, err := s.manifest(r.Context(), r.PathValue("id"))
	if err != nil {
		s.fail(w, snapshotProblem(err))
		return
	}
	s.reply(w, forPeople(m))
}

// forPeople drops what only a restore needs.
func forPeople(m snapshots.Manifest) snapshots.Manifest {
	m.Trees = slices.Clone(m.Trees)
	for i := range m.Trees {
		m.Trees[i].Index = nil
	}
	m.Secrets = nil
	return m
}

func (s *Server) manifest(ctx context.Context, id string) (snapshots.Manifest, error) {
	m, err := snapshots.Read(ctx, s.opts.Store, id)
	if !errors.Is(err, snapshots.ErrIncomplete) && !errors.Is(err, snapshots.ErrNewer) {
		return m, err
	}
	session, serr := snapshots.SessionOf(id)
	if serr != nil {
		return m, serr
	}
	list, lerr := snapshots.List(ctx, s.opts.Store, session)
	if lerr != nil {
		return m, lerr
	}
	for _, m := range list {
		if m.ID == id {
			return m, nil
		}
	}
	return m, err
}

// exportSnapshot writes a plain tar archive. Only the trailer shows whether it is complete.
func (s *Server) exportSnapshot(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if _, err := snapshots.Read(r.Context(), s.opts.Store, id); err != nil {
		s.fail(w, snapshotProblem(err))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/x-tar")
	h.Set("Cache-Control", "no-store")
	h.Set("Trailer", trailerDigest+", "+trailerError)
	out := &tellingWriter{w: w, rc: http.NewResponseController(w), sum: sha256.New()}
	buf := bufio.NewWriterSize(out, 256<<10)
	err := snapshots.Export(r.Context(), s.opts.Chunks, id, buf)
	if err == nil {
		err = buf.Flush()
	}
	if err == nil {
		h.Set(trailerDigest, hex.EncodeToString(out.sum.Sum(nil)))
		s.log.Info("snapshot exported", "snapshot", id, "bytes", out.n)
		return
	}
	s.log.Warn("snapshot not exported", "snapshot", id, "bytes", out.n, "err", err)
	if out.n == 0 {
		h.Del("Trailer")
		s.fail(w, snapshotProblem(err))
		return
	}
	var e *Error
	if errors.As(snapshotProblem(err), &e) {
		if text, jerr := json.Marshal(e); jerr == nil {
			h.Set(trailerError, url.QueryEscape(string(text)))
		}
	}
}

// deleteSnapshot refuses a snapshot that a session continues from, and the newest good one
// of a running session, which may soon continue from it.
func (s *Server) deleteSnapshot(w http.ResponseWriter, r *http.Request) {
	m, err := dropSnapshot(r.Context(), s, r.PathValue("id"))
	if err != nil {
		s.fail(w, err)
		return
	}
	s.reply(w, forPeople(m))
}

func dropSnapshot(ctx context.Context, s *Server, id string) (snapshots.Manifest, error) {
	m, err := s.manifest(ctx, id)
	if err == nil {
		err = mayDelete(ctx, s, m)
	}
	if err == nil {
		err = snapshots.Drop(ctx, s.opts.Store, id, s.holds)
	}
	var held *snapshots.HeldError
	if errors.As(err, &held) {
		by := inquiry.PinnedBy(held.Pin)
		err = problem(http.StatusConflict, ErrRefused, "session %s starts from %s and has no snapshot of its own yet", by, id).
			hinted("close session " + by + " first, or wait until it has had a turn and its snapshot is taken: `ctl session show " + by + "`")
	}
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			err = snapshotProblem(err)
		}
		return m, err
	}
	accepted(&s.opts, callerOf(ctx), access.SnapshotWrite, protocol.SessionID(m.Session), "snapshot "+id+" deleted")
	s.log.Info("snapshot deleted", "snapshot", id)
	return m, nil
}

// holds reports whether a fork still needs the snapshot that it pinned.
func (s *Server) holds(ctx context.Context, p snapshots.Pin) (bool, error) {
	if s.opts.Sessions == nil {
		return true, nil
	}
	held, err := inquiry.StillHolds(ctx, s.opts.Sessions.Now, p)
	if err != nil {
		err = unasked(err)
	}
	return held, err
}

// unasked is the refusal if a session that may need a snapshot could not be asked.
func unasked(err error) error {
	return problem(http.StatusServiceUnavailable, ErrStore, "the session that may need the snapshot could not be asked: %v", err).
		hinted("try again when a worker of the session's zone answers")
}

func mayDelete(ctx context.Context, s *Server, m snapshots.Manifest) error {
	if m.Newer() {
		return snapshots.ErrNewer
	}
	if s.opts.Sessions == nil {
		return nil
	}
	runs, err := s.opts.Sessions.Running(ctx, m.Session)
	switch {
	case errors.Is(err, ErrNoSession):
		return nil
	case err != nil:
		return problem(http.StatusServiceUnavailable, ErrStore, "find out whether session %s goes on: %v", m.Session, err)
	case !runs:
		return nil
	}
	now, err := s.opts.Sessions.Now(ctx, m.Session)
	switch {
	case err != nil:
		return unasked(err)
	case now.Runs && now.Snapshot == m.ID:
		return problem(http.StatusConflict, ErrRefused, "session %s goes on from %s", m.Session, m.ID).
			hinted("close the session first, or take a newer one with `ctl snapshot create`")
	}
	if !m.Complete {
		return problem(http.StatusConflict, ErrRefused, "%s may be a snapshot that session %s is still writing", m.ID, m.Session).
			hinted("`ctl snapshot prune` drops it when it is old enough")
	}
	if m.Left {
		return nil
	}
	list, err := snapshots.List(ctx, s.opts.Store, m.Session)
	if err != nil {
		return err
	}
	for _, other := range list {
		if other.GoesOn() && other.ID != m.ID && !other.CreatedAt.Before(m.CreatedAt) {
			return nil
		}
	}
	return problem(http.StatusConflict, ErrRefused, "session %s goes on from %s: it has no newer one", m.Session, m.ID).
		hinted("close the session first, or take a newer one with `ctl snapshot create`")
}

// A tellingWriter counts and digests. It drops a caller that does not read for writeWait.
type tellingWriter struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	sum hash.Hash
	n   int64
}

func (t *tellingWriter) Write(p []byte) (int, error) {
	if err := t.rc.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
		return 0, err
	}
	n, err := t.w.Write(p)
	t.sum.Write(p[:n])
	t.n += int64(n)
	return n, err
}

// Snapshots lists the snapshots of a session, or of all if session is empty, oldest first,
// including incomplete ones.
func (c *Client) Snapshots(ctx context.Context, session string) iter.Seq2[snapshots.Manifest, error] {
	return func(yield func(snapshots.Manifest, error) bool) {
		path := "/v1/snapshots"
		if session != "" {
			path += "?session=" + url.QueryEscape(session)
		}
		resp, err := c.send(ctx, http.MethodGet, path, nil)
		if err != nil {
			yield(snapshots.Manifest{}, err)
			return
		}
		defer resp.Body.Close()
		dec := json.NewDecoder(resp.Body)
		for {
			var ev Event
			switch err := dec.Decode(&ev); {
			case err != nil:
				yield(snapshots.Manifest{}, fmt.Errorf("read the answer of the worker at %s: %w", c.endpoint, cut(err)))
				return
			case ev.Kind == KindEnd:
				return
			case ev.Kind == KindError && ev.Error != nil:
				yield(snapshots.Manifest{}, ev.Error)
				return
			case ev.Kind == KindSnapshot && ev.Snapshot != nil:
				if !yield(*ev.Snapshot, nil) {
					return
				}
			}
		}
	}
}

// cut turns an EOF before the last line into io.ErrUnexpectedEOF.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Snapshot returns the manifest of one snapshot.
func (c *Client) Snapshot(ctx context.Context, id string) (snapshots.Manifest, error) {
	var m snapshots.Manifest
	err := c.call(ctx, http.MethodGet, "/v1/snapshots/"+url.PathEscape(id), nil, &m)
	return m, err
}

// DeleteSnapshot deletes a snapshot. A later prune removes its unneeded data.
func (c *Client) DeleteSnapshot(ctx context.Context, id string) (snapshots.Manifest, error) {
	var m snapshots.Manifest
	err := c.call(ctx, http.MethodDelete, "/v1/snapshots/"+url.PathEscape(id), nil, &m)
	return m, err
}

// Exported describes an exported archive.
type Exported struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// ExportSnapshot writes a snapshot as a plain tar archive. Without an error it is complete,
// as the worker read it.
func (c *Client) ExportSnapshot(ctx context.Context, id string, w io.Writer) (Exported, error) {
	resp, err := c.send(ctx, http.MethodGet, "/v1/snapshots/"+url.PathEscape(id)+"/export", nil)
	if err != nil {
		return Exported{}, err
	}
	defer resp.Body.Close()
	return verified(ctx, resp, "export "+id, w)
}

// verified copies the body and checks the trailer's digest.
func verified(ctx context.Context, resp *http.Response, doing string, w io.Writer) (Exported, error) {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), resp.Body)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Exported{}, fmt.Errorf("%s: stopped after %d bytes: %w", doing, n, err)
	}
	out := Exported{n, hex.EncodeToString(sum.Sum(nil))}
	switch digest := resp.Trailer.Get(trailerDigest); {
	case digest == out.SHA256:
		return out, nil
	case digest != "":
		return Exported{}, fmt.Errorf("%s: the received data does not match the worker's digest (try again)", doing)
	}
	var e Error
	if text, uerr := url.QueryUnescape(resp.Trailer.Get(trailerError)); uerr == nil && json.NewDecoder(strings.NewReader(text)).Decode(&e) == nil {
		return Exported{}, &e
	}
	return Exported{}, fmt.Errorf("%s: the stream was cut off after %d bytes: %w", doing, n, io.ErrUnexpectedEOF)
}
