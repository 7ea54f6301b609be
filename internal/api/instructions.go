package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// instructions answers what codex is told in a session, as of the last preparation of its
// host.
func instructions(s *Server, w http.ResponseWriter, r *http.Request) {
	id, err := named(r, "session id", "id")
	if err != nil {
		s.fail(w, err)
		return
	}
	in, err := records.ReadInstructions(r.Context(), s.opts.Store, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		s.fail(w, problem(http.StatusNotFound, ErrNotFound, "neither the organisation nor the seed nor session %s gave codex instructions, or no host was prepared for it yet", id))
	case err != nil:
		s.fail(w, storeProblem(err, "the instructions are gone"))
	default:
		s.reply(w, in)
	}
}

// Instructions returns what codex is told in a session.
func (c *Client) Instructions(ctx context.Context, session string) (in protocol.Instructions, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/sessions/"+url.PathEscape(session)+"/instructions", nil, &in)
	return in, err
}
