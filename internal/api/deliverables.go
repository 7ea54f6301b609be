package api

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/protocol"
)

func (s *Server) deliverables(w http.ResponseWriter, r *http.Request) {
	id, err := named(r, "session id", "id")
	if err != nil {
		s.fail(w, err)
		return
	}
	list, err := records.ListDeliverables(r.Context(), s.opts.Store, id)
	if err != nil {
		err = storeProblem(err, "session %s delivered nothing", id)
	} else if len(list) == 0 {
		err = s.known(r.Context(), id)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	s.reply(w, map[string]any{"deliverables": list})
}

// deliverable streams one file. The trailer says whether it is complete.
func (s *Server) deliverable(w http.ResponseWriter, r *http.Request) {
	id, err := named(r, "session id", "id")
	if err != nil {
		s.fail(w, err)
		return
	}
	call := r.PathValue("call")
	d, in, err := records.OpenDeliverable(r.Context(), s.opts.Store, id, call)
	if err != nil {
		s.fail(w, storeProblem(err, "session %s delivered nothing by call %.40q", id, call))
		return
	}
	defer in.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff") // the file may be a page with scripts
	h.Set("Content-Disposition", "attachment")
	h.Set("Cache-Control", "no-store")
	h.Set("Trailer", trailerDigest+", "+trailerError)
	out := &tellingWriter{w: w, rc: http.NewResponseController(w), sum: sha256.New()}
	buf := bufio.NewWriterSize(out, 256<<10)
	_, err = io.Copy(buf, in)
	if err == nil {
		err = buf.Flush()
	}
	if got := hex.EncodeToString(out.sum.Sum(nil)); err == nil && (got != d.Digest || out.n != d.Bytes) {
		err = fmt.Errorf("the store has %d bytes with digest %s; the deliverable was recorded with %d bytes and digest %s", out.n, got, d.Bytes, d.Digest)
	}
	if err == nil {
		h.Set(trailerDigest, d.Digest)
		return
	}
	s.log.Warn("deliverable not given", "session", id, "call", call, "bytes", out.n, "err", err)
	if text, jerr := json.Marshal(problem(http.StatusServiceUnavailable, ErrStore, "read %s of session %s: %v", d.Name, id, err)); jerr == nil {
		h.Set(trailerError, url.QueryEscape(string(text)))
	}
}

// Deliverables lists a session's deliverables, oldest first.
func (c *Client) Deliverables(ctx context.Context, session string) ([]protocol.Deliverable, error) {
	var v struct {
		Deliverables []protocol.Deliverable `json:"deliverables"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/sessions/"+url.PathEscape(session)+"/deliverables", nil, &v)
	return v.Deliverables, err
}

// Deliverable writes the file of d to w. After an error the written data is not valid.
func (c *Client) Deliverable(ctx context.Context, d protocol.Deliverable, w io.Writer) error {
	resp, err := c.send(ctx, http.MethodGet, "/v1/sessions/"+url.PathEscape(d.Session)+"/deliverables/"+url.PathEscape(d.Call), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), resp.Body)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("get %s of %s: stopped after %d bytes: %w", d.Name, d.Session, n, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) == d.Digest && resp.Trailer.Get(trailerDigest) == d.Digest {
		return nil
	}
	var e Error
	if text, uerr := url.QueryUnescape(resp.Trailer.Get(trailerError)); uerr == nil && json.Unmarshal([]byte(text), &e) == nil && e.Message != "" {
		return &e
	}
	return fmt.Errorf("get %s of %s: the stream was cut off after %d bytes: %w", d.Name, d.Session, n, io.ErrUnexpectedEOF)
}
