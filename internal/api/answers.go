package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"fairlead.dev/fairlead/activities/site"
)

// SecretAnswers are answers that must not appear in a decision.
type SecretAnswers struct {
	Answers map[string][]string `json:"answers"`
	// Apart lists the questions that the decision itself answers.
	Apart []string `json:"apart,omitempty"`
	// Approval is set if several people must agree. Equal answers with the same Approval
	// get the same name.
	Approval string `json:"approval,omitempty"`
}

// StoredAnswers names secret answers for a decision.
type StoredAnswers struct {
	Blob string `json:"blob"`
}

const (
	maxAnswers     = 1 << 20
	openToListener = "secrets are taken over a unix socket or TLS only"
	listenPrivate  = "set api.listen of the worker to unix:///path, or give it a certificate"
)

// PutAnswers encrypts and stores secret answers to the session's request. The worker
// refuses answers that do not fit the questions.
func (c *Client) PutAnswers(ctx context.Context, session, digest string, in SecretAnswers) (StoredAnswers, error) {
	if strings.HasPrefix(c.endpoint, "http://") {
		return StoredAnswers{}, &Error{Kind: ErrRefused, Message: openToListener, Hint: listenPrivate}
	}
	body, err := json.Marshal(in)
	if err != nil {
		return StoredAnswers{}, err
	}
	var out StoredAnswers
	err = c.call(ctx, http.MethodPost, "/v1/sessions/"+url.PathEscape(session)+"/requests/"+url.PathEscape(digest)+"/answers", body, &out)
	return out, err
}

// answers never repeats an answer in an error.
func (s *Server) answers(w http.ResponseWriter, r *http.Request) {
	id, err := named(r, "session id", "id")
	digest := r.PathValue("digest")
	switch {
	case err != nil:
	case !s.secure:
		err = problem(http.StatusForbidden, ErrRefused, openToListener).hinted(listenPrivate)
	case !digestPattern.MatchString(digest):
		err = problem(http.StatusBadRequest, ErrBadInput, "%q is not a digest: 64 hex digits", digest)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	body, err := readBody(w, r, maxAnswers, "answers")
	if err != nil {
		s.fail(w, err)
		return
	}
	var in SecretAnswers
	if json.Unmarshal(body, &in) != nil {
		s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "the request body is not JSON with answers: lists of texts by the ids of the questions"))
		return
	}
	req, err := site.ReadRequest(r.Context(), s.opts.Store, id, digest)
	if err != nil {
		s.fail(w, storeProblem(err, "no request %.12s… of session %s is in the store", digest, id))
		return
	}
	good, err := site.SecretAnswers(req, in.Answers, in.Apart)
	if err != nil {
		s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "answers: %v", err))
		return
	}
	blob, err := site.StoreAnswers(r.Context(), s.opts.Store, id, digest, in.Approval, good)
	if err != nil {
		s.fail(w, storeProblem(err, "the store is gone"))
		return
	}
	s.reply(w, StoredAnswers{Blob: blob})
}
