package scriptedauth

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The endpoints, as requests and faults name them.
const (
	EndpointToken    = "token"
	EndpointUsage    = "usage"
	EndpointUserCode = "usercode"
	EndpointPoll     = "poll"
)

// A Fault obstructs requests.
type Fault struct {
	Kind string `json:"kind"`
	// Times is the number of requests that it affects: 0 is one, -1 all.
	Times int `json:"times"`
	// Endpoint is the affected endpoint; default the token endpoint.
	Endpoint string `json:"endpoint"`
	// RetryAfter is for rate_limited and unavailable.
	RetryAfter string        `json:"retry_after"`
	Delay      time.Duration `json:"delay"` // of slow
}

// answers are the faults that are answers. Errors have the shapes that codex
// distinguishes: {"error":{"code":…}}, and OAuth's own {"error":…}.
var answers = map[string]struct {
	status int
	body   string
}{
	"rate_limited":  {http.StatusTooManyRequests, `{"error":{"message":"Rate limit reached.","type":"requests","code":"rate_limit_exceeded"}}`},
	"server_error":  {http.StatusInternalServerError, `{"error":{"message":"The server had an error.","type":"server_error","code":null}}`},
	"unavailable":   {http.StatusServiceUnavailable, `upstream connect error`},
	"garbage":       {http.StatusOK, `{"access_token": "ey`},
	"html":          {http.StatusOK, `<html><body>Log in to the hotel's network</body></html>`},
	"unauthorized":  {http.StatusUnauthorized, `{"error":{"message":"Who are you?","type":"invalid_request_error","code":"something_else"}}`},
	"invalid_grant": {http.StatusBadRequest, `{"error":"invalid_grant","error_description":"The grant is invalid."}`},
	"expired":       {http.StatusUnauthorized, refused("refresh_token_expired", "Your refresh token has expired. Please try signing in again.")},
	"invalidated":   {http.StatusUnauthorized, refused("refresh_token_invalidated", "Your session has ended. Please log in again.")},
}

// faultKinds are the faults that are not answers.
var faultKinds = []string{"drop", "hang", "lost", "held", "slow"}

func refused(code, message string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error","param":null,"code":%q}}`, message, code)
}

// Fail adds a fault; several happen one after another. An unknown kind is a
// mistake of the test and panics.
func (s *Server) Fail(f Fault) {
	if err := s.fail(f); err != nil {
		panic(err)
	}
}

func (s *Server) fail(f Fault) error {
	if _, ok := answers[f.Kind]; !ok && !slices.Contains(faultKinds, f.Kind) {
		return fmt.Errorf("scripted auth: no fault of kind %q", f.Kind)
	}
	if f.Endpoint == "" {
		f.Endpoint = EndpointToken
	}
	if f.Times == 0 {
		f.Times = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
	return nil
}

// Mend removes all faults.
func (s *Server) Mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

func (s *Server) fault(endpoint string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if f.Endpoint != endpoint {
			continue
		}
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.faults = slices.Delete(s.faults, i, i+1)
			}
		}
		return *f
	}
	return Fault{}
}

// obstruct does the part of a fault that precedes the handling of the request.
// It reports whether the request was answered.
func (s *Server) obstruct(ctx context.Context, w http.ResponseWriter, f Fault) (answered bool) {
	if a, ok := answers[f.Kind]; ok {
		if f.RetryAfter != "" {
			w.Header().Set("Retry-After", f.RetryAfter)
		}
		kind := "application/json"
		if strings.HasPrefix(a.body, "<") {
			kind = "text/html"
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
		w.WriteHeader(a.status)
		_, _ = w.Write([]byte(a.body))
		return true
	}
	switch f.Kind {
	case "slow":
		select {
		case <-time.After(f.Delay):
		case <-ctx.Done():
		}
	case "hang":
		s.hold(ctx)
	}
	return false
}

// hold returns when Release is called or the request's context ends.
func (s *Server) hold(ctx context.Context) {
	s.mu.Lock()
	free := s.free
	s.holding++
	s.changed()
	s.mu.Unlock()
	select {
	case <-free:
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	s.mu.Lock()
	s.holding--
	s.changed()
	s.mu.Unlock()
}
