package api

import (
	"context"
	"encoding/json"
	"net/http"

	"fairlead.dev/fairlead/internal/access"
)

// A WhyAsked asks whether the access file allows a principal to do something. If callers ask
// about themselves without Groups, the groups of their certificate count.
type WhyAsked struct {
	Who    string        `json:"who"`
	Groups []string      `json:"groups,omitempty"`
	Verb   access.Verb   `json:"verb"`
	Object access.Object `json:"object"`
}

// maxWhy bounds a question, in bytes. Labels are the longest part.
const maxWhy = 256 << 10

// why answers which binding of the access file allows something, or why none does.
// Every principal may ask about itself. A question about another one needs access.read.
func why(s *Server, w http.ResponseWriter, r *http.Request) {
	if s.opts.Authority == nil {
		s.fail(w, problem(http.StatusConflict, ErrRefused, "this worker has no access file").hinted(needsRequired))
		return
	}
	var q WhyAsked
	err := readJSON(w, r, maxWhy, "a question about the access file", &q)
	c := callerOf(r.Context())
	switch {
	case err != nil:
	case q.Who == c.principal && len(q.Groups) == 0:
		q.Groups = c.groups
	default:
		if _, err = s.callers.allow(r.Context(), c, need{verb: access.AccessRead}); err != nil {
			refusedFor(&s.opts, c, access.AccessRead, pathOf(r), err)
			err = problem(http.StatusForbidden, ErrForbidden, "to ask what others may do, or what other groups would allow, needs %s: %v", access.AccessRead, err).
				hinted("ask about yourself, without --group; `ctl whoami` shows your name")
		}
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	s.reply(w, s.opts.Authority.Decide(access.Request{Who: q.Who, Groups: q.Groups, Verb: q.Verb, Object: q.Object}))
}

// Why asks which binding of the worker's access file allows something, or why none does.
func (c *Client) Why(ctx context.Context, q WhyAsked) (a access.Answer, err error) {
	body, err := json.Marshal(q)
	if err == nil {
		err = c.call(ctx, http.MethodPost, "/v1/access/why", body, &a)
	}
	return a, err
}
