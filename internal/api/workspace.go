package api

import (
	"context"
	"net/http"
	"strings"

	"fairlead.dev/fairlead/activities"
)

// A StoredToken names a token for a git server in the store.
type StoredToken struct {
	Blob string `json:"blob"`
}

// gitToken keeps a token for a git server.
func (s *Server) gitToken(w http.ResponseWriter, r *http.Request) {
	if !s.secure {
		s.fail(w, problem(http.StatusForbidden, ErrRefused, openToListener).hinted(listenPrivate))
		return
	}
	token, err := readBody(w, r, 4<<10, "a token")
	if err == nil {
		if bad := activities.CheckToken(string(token)); bad != nil {
			err = problem(http.StatusBadRequest, ErrBadInput, "%v", bad)
		}
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	blob, err := activities.StoreToken(r.Context(), s.opts.Store, string(token))
	if err != nil {
		s.fail(w, storeProblem(err, "the store is gone"))
		return
	}
	s.reply(w, StoredToken{Blob: blob})
}

// PutToken keeps a token for a git server in the store.
func (c *Client) PutToken(ctx context.Context, token string) (string, error) {
	if strings.HasPrefix(c.endpoint, "http://") {
		return "", &Error{Kind: ErrRefused, Message: "a token is given to a worker over a unix socket or TLS only",
			Hint: "set api.listen of the worker to unix:///path, or give it a certificate"}
	}
	var st StoredToken
	err := c.call(ctx, http.MethodPost, "/v1/tokens", []byte(token), &st)
	return st.Blob, err
}
