package scriptedauth

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Request is a request that the issuer has received. It holds no secret.
type Request struct {
	Seq      int       `json:"seq"` // counts from 1
	Time     time.Time `json:"time"`
	Endpoint string    `json:"endpoint"`
	// Agent is the User-Agent.
	Agent string `json:"agent"`
	Grant string `json:"grant,omitempty"`
	// Reason is the reason that codex gives for a refresh.
	Reason string `json:"reason,omitempty"`
	// TokenSHA256 is the digest of the refresh token. Family is the token's
	// family, and N its number in the family, from 1.
	TokenSHA256 string `json:"token_sha256,omitempty"`
	Family      string `json:"family,omitempty"`
	N           int    `json:"n,omitempty"`
	// Rotated: the token is spent and a new one was issued, whether or not the
	// answer arrived.
	Rotated bool `json:"rotated,omitempty"`
	// Answer is "ok", an error code, "pending", the kind of a fault or
	// "surprise". It is empty until the answer is decided.
	Answer string `json:"answer"`
}

func (s *Server) record(r *http.Request, endpoint string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, Request{
		Seq: len(s.requests) + 1, Time: now(), Endpoint: endpoint, Agent: r.Header.Get("User-Agent"),
	})
	return len(s.requests) - 1
}

// amend changes a record, unless it was cleared by Reset.
func (s *Server) amend(i int, change func(*Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i < len(s.requests) {
		change(&s.requests[i])
	}
	s.changed()
}

// Requests returns what was recorded, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Refreshes returns the requests with a refresh token.
func (s *Server) Refreshes() []Request {
	return slices.DeleteFunc(s.Requests(), func(r Request) bool { return r.Grant != "refresh_token" })
}

// Surprises returns the requests that codex would never send.
func (s *Server) Surprises() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.surprises)
}

func (s *Server) surprise(w http.ResponseWriter, i int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.log.Warn("surprise", "problem", text)
	s.mu.Lock()
	s.surprises = append(s.surprises, text)
	if i >= 0 && i < len(s.requests) {
		s.requests[i].Answer = "surprise"
	}
	s.changed()
	s.mu.Unlock()
	writeJSON(w, http.StatusBadRequest, map[string]any{"error": map[string]any{
		"message": "scripted auth: " + text, "type": "invalid_request_error", "code": "surprise"}})
}
