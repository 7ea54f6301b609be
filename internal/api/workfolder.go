package api

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/internal/protocol"
)

// Workspaces gives access to work folders; *workspaces.Workfolders implements it.
type Workspaces interface {
	WorkDiff(ctx context.Context, session string, moving bool) (protocol.WorkDiff, error)
	FetchFiles(ctx context.Context, session string, paths []string, moving bool, to io.Writer) error
}

// whileRunning asks for the folder even while a turn writes to it.
const whileRunning = "while_running"

func anyMoment(r *http.Request) bool { return r.URL.Query().Has(whileRunning) }

func atAnyMoment(moving bool, q url.Values) string {
	if moving {
		q.Set(whileRunning, "1")
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

const maxPaths = 100

func (s *Server) workDiff(w http.ResponseWriter, r *http.Request) {
	id, err := named(r, "session id", "id")
	var d protocol.WorkDiff
	if err == nil {
		if d, err = s.opts.Workspaces.WorkDiff(r.Context(), id, anyMoment(r)); err != nil {
			err = workProblem(r.Context(), "compare the work of session "+id+" with its start", err)
		}
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	s.reply(w, d)
}

func (s *Server) files(w http.ResponseWriter, r *http.Request) {
	id, err := named(r, "session id", "id")
	paths := r.URL.Query()["path"]
	if err == nil && (len(paths) == 0 || len(paths) > maxPaths) {
		err = problem(http.StatusBadRequest, ErrBadInput, "%d paths: give 1 to %d", len(paths), maxPaths)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/x-tar")
	h.Set("Cache-Control", "no-store")
	h.Set("Trailer", trailerDigest+", "+trailerError)
	out := &tellingWriter{w: w, rc: http.NewResponseController(w), sum: sha256.New()}
	buf := bufio.NewWriterSize(out, 256<<10)
	if err = s.opts.Workspaces.FetchFiles(r.Context(), id, paths, anyMoment(r), buf); err == nil {
		err = buf.Flush()
	}
	if err == nil {
		h.Set(trailerDigest, hex.EncodeToString(out.sum.Sum(nil)))
		return
	}
	err = workProblem(r.Context(), "fetch from session "+id, err)
	if out.n == 0 {
		h.Del("Trailer")
		s.fail(w, err)
		return
	}
	var e *Error
	if errors.As(err, &e) {
		if text, jerr := json.Marshal(e); jerr == nil {
			h.Set(trailerError, url.QueryEscape(string(text)))
		}
	}
}

func workProblem(ctx context.Context, what string, err error) error {
	if errors.Is(err, workspaces.ErrNoPlace) {
		return problem(http.StatusConflict, ErrRefused, "%s: %v", what, err).
			hinted("a session that is parked or closed is in its snapshots: `ctl snapshot export`; or send it a message, which brings it up")
	}
	p := workspaces.Told(ctx, what, err)
	status := http.StatusServiceUnavailable
	kind := p.Kind
	switch p.Kind {
	case protocol.ErrTypeBadInput:
		status, kind = http.StatusBadRequest, ErrBadInput
	case protocol.ErrTypeNotThere:
		status, kind = http.StatusNotFound, ErrNotFound
	case protocol.ErrTypeTurnRuns:
		status, kind = http.StatusConflict, ErrRefused
	case protocol.ErrTypeWorkspace:
		status = http.StatusConflict
	}
	return problem(status, kind, "%s", p.Message).hinted(p.Hint)
}

// WorkDiff returns the changes in a work folder since the session began. While a turn runs,
// it is refused without moving.
func (c *Client) WorkDiff(ctx context.Context, session string, moving bool) (protocol.WorkDiff, error) {
	var d protocol.WorkDiff
	err := c.call(ctx, http.MethodGet, "/v1/sessions/"+url.PathEscape(session)+"/diff"+atAnyMoment(moving, url.Values{}), nil, &d)
	return d, err
}

// FetchFiles writes files of a work folder as a tar archive, valid only without an error.
// While a turn runs, several files are refused without moving.
func (c *Client) FetchFiles(ctx context.Context, session string, paths []string, moving bool, w io.Writer) error {
	resp, err := c.send(ctx, http.MethodGet, "/v1/sessions/"+url.PathEscape(session)+"/files"+atAnyMoment(moving, url.Values{"path": paths}), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = verified(ctx, resp, "fetch from session "+session, w)
	return err
}
