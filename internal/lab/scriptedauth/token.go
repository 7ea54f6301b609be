package scriptedauth

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

const maxBody = 1 << 20

// grant is a request to the token endpoint: JSON for a refresh, a form for the
// code of a login.
type grant struct {
	Client  string `json:"client_id"`
	Grant   string `json:"grant_type"`
	Refresh string `json:"refresh_token"`
	Reason  string `json:"refresh_reason"`
	Scope   string `json:"scope"`

	Code, Verifier, Redirect string `json:"-"`
}

func readGrant(r *http.Request, body []byte) (g grant, problem string) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		dec := json.NewDecoder(strings.NewReader(string(body)))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&g); err != nil {
			return g, "the body is not a grant"
		}
	case "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return g, "the body is not a form"
		}
		g = grant{Client: form.Get("client_id"), Grant: form.Get("grant_type"), Refresh: form.Get("refresh_token"),
			Code: form.Get("code"), Verifier: form.Get("code_verifier"), Redirect: form.Get("redirect_uri")}
	default:
		return g, "a body of type " + kind
	}
	if g.Client != ClientID {
		return g, "a client that is not codex: " + g.Client
	}
	return g, ""
}

// token serves POST /oauth/token.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	entry := s.record(r, EndpointToken)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		s.amend(entry, func(e *Request) { e.Answer = "cut" })
		return
	}
	g, problem := readGrant(r, body)
	if problem != "" {
		s.surprise(w, entry, "%s", problem)
		return
	}
	s.amend(entry, func(e *Request) { e.Grant, e.Reason = g.Grant, g.Reason })
	switch g.Grant {
	case "refresh_token":
		s.refresh(w, r, entry, g)
	case "authorization_code":
		s.exchange(w, entry, g)
	default:
		s.surprise(w, entry, "a grant of type %q", g.Grant)
	}
}

// refresh exchanges a refresh token for the next one.
func (s *Server) refresh(w http.ResponseWriter, r *http.Request, entry int, g grant) {
	s.amend(entry, func(e *Request) {
		e.TokenSHA256 = Digest(g.Refresh)
		if f, t := s.find(g.Refresh); f != nil {
			e.Family, e.N = f.id, t.n
		}
	})
	fault := s.fault(EndpointToken)
	if s.obstruct(r.Context(), w, fault) {
		s.amend(entry, func(e *Request) { e.Answer = fault.Kind })
		return
	}
	// A dropped request, and one that hung until its client left, is never
	// read.
	if fault.Kind == "drop" || fault.Kind == "hang" && r.Context().Err() != nil {
		s.amend(entry, func(e *Request) { e.Answer = fault.Kind })
		panic(http.ErrAbortHandler)
	}
	next, code := s.rotate(entry, g.Refresh)
	if code != "" {
		s.amend(entry, func(e *Request) { e.Answer = code })
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, refused(code, messages[code]))
		return
	}
	switch fault.Kind {
	case "lost":
		s.amend(entry, func(e *Request) { e.Answer = "lost" })
		panic(http.ErrAbortHandler)
	case "held":
		s.hold(r.Context())
	}
	if r.Context().Err() != nil {
		s.amend(entry, func(e *Request) { e.Answer = "lost" })
		panic(http.ErrAbortHandler)
	}
	s.amend(entry, func(e *Request) { e.Answer = "ok" })
	writeJSON(w, http.StatusOK, next)
}

var messages = map[string]string{
	"refresh_token_reused":      "Your refresh token has already been used to generate a new access token. Please try signing in again.",
	"refresh_token_invalidated": "Your session has ended. Please log in again.",
}

// rotate spends a refresh token. A token that was already spent revokes its
// family.
func (s *Server) rotate(entry int, refresh string) (Tokens, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, t := s.find(refresh)
	if f == nil {
		return Tokens{}, "refresh_token_invalidated"
	}
	t.uses++
	switch {
	case t.uses > 1:
		f.revoke("a spent refresh token was used again")
		return Tokens{}, "refresh_token_reused"
	case f.revoked != "":
		return Tokens{}, "refresh_token_invalidated"
	}
	if entry < len(s.requests) {
		s.requests[entry].Rotated = true
	}
	return f.issue(), ""
}

// Guard passes only requests with a live access token to next; others get the
// 401 that makes codex refresh.
func (s *Server) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bearer := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		s.mu.Lock()
		ok := s.live(bearer)
		s.mu.Unlock()
		if !ok && strings.HasPrefix(r.URL.Path, "/v1/") {
			writeJSON(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{
				"message": "Provided authentication token is expired. Please try signing in again.", "type": "invalid_request_error", "code": "token_expired"}})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
