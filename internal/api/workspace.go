package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/internal/owned"
)

// A StoredToken names a git server's token in the store.
type StoredToken struct {
	Blob string `json:"blob"`
}

func (s *Server) gitToken(w http.ResponseWriter, r *http.Request) {
	if !s.secure {
		s.fail(w, problem(http.StatusForbidden, ErrRefused, openToListener).hinted(listenPrivate))
		return
	}
	token, err := readBody(w, r, 4<<10, "a token")
	repo, session, folder := r.URL.Query().Get("repo"), r.URL.Query().Get("session"), r.URL.Query().Get("folder")
	if err == nil {
		bad := workspaces.CheckToken(string(token))
		if bad == nil {
			bad = workspaces.CheckRepoURL(repo)
		}
		if bad == nil {
			bad = workspaces.CheckTokenURL(repo)
		}
		if bad == nil && session != "" && !namePattern.MatchString(session) {
			bad = fmt.Errorf("%.100q is not a session id", session)
		}
		if _, ok := owned.OwnerOf(folder); bad == nil && (ok == (session != "") || folder != "" && !ok) {
			bad = fmt.Errorf("give either session= (the session that uses the token) or folder= (an existing folder name of a batch or schedule whose sessions share it)")
		}
		if bad != nil {
			err = problem(http.StatusBadRequest, ErrBadInput, "%v", bad)
		}
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	if folder != "" {
		if folder, err = folderOf(r); err != nil {
			s.fail(w, err)
			return
		}
	}
	blob, err := workspaces.StoreToken(r.Context(), s.opts.Store, session, folder, repo, string(token), by(r.Context(), ""))
	if err != nil {
		s.fail(w, ownedProblem(err))
		return
	}
	s.reply(w, StoredToken{Blob: blob})
}

// PutToken stores a token for this repository's git server only. It is deleted when its
// session has ended, or, if sessions share it, with the folder given instead.
func (c *Client) PutToken(ctx context.Context, session, folder, repo, token string) (string, error) {
	if strings.HasPrefix(c.endpoint, "http://") {
		return "", &Error{Kind: ErrRefused, Message: "a token is given to a worker over a unix socket or TLS only",
			Hint: "set api.listen of the worker to unix:///path, or give it a certificate"}
	}
	var st StoredToken
	err := c.call(ctx, http.MethodPost, "/v1/tokens?"+url.Values{"session": {session}, "folder": {folder}, "repo": {repo}}.Encode(), []byte(token), &st)
	return st.Blob, err
}
