package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

// modelBodyList lists what is kept of a session's requests to the model gateway.
func modelBodyList(s *Server, w http.ResponseWriter, r *http.Request) {
	id, err := named(r, "session id", "id")
	if err != nil {
		s.fail(w, err)
		return
	}
	list, err := records.ListModelBodies(r.Context(), s.opts.Store, id, time.Now())
	if err != nil {
		err = storeProblem(err, "nothing is kept of what session %s asked the model gateway", id)
	} else if len(list) == 0 {
		err = s.known(r.Context(), id)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	s.reply(w, map[string]any{"bodies": list})
}

// modelBody answers one of them. That somebody read it is on record.
func modelBody(s *Server, w http.ResponseWriter, r *http.Request) {
	id, err := named(r, "session id", "id")
	if err != nil {
		s.fail(w, err)
		return
	}
	body := r.PathValue("body")
	b, err := records.ReadModelBody(r.Context(), s.opts.Store, id, body, time.Now())
	if err != nil {
		s.fail(w, storeProblem(err, "nothing is kept of session %s under %.100q: bodies are kept if the configuration of the workers says so, and for a time", id, body))
		return
	}
	accepted(&s.opts, callerOf(r.Context()), access.SessionExec, protocol.SessionID(id), "read what codex asked the model gateway, and what it got: "+b.ID)
	s.reply(w, b)
}

// ModelBodies lists what is kept of a session's requests to the model gateway, oldest first.
func (c *Client) ModelBodies(ctx context.Context, session string) ([]records.KeptBody, error) {
	var v struct {
		Bodies []records.KeptBody `json:"bodies"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/sessions/"+url.PathEscape(session)+"/model-bodies", nil, &v)
	return v.Bodies, err
}

// ModelBody returns one of them.
func (c *Client) ModelBody(ctx context.Context, session, id string) (b records.ModelBody, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/sessions/"+url.PathEscape(session)+"/model-bodies/"+url.PathEscape(id), nil, &b)
	return b, err
}
