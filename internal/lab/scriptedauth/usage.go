package scriptedauth

import (
	"net/http"
	"strings"
	"time"
)

// usagePath is where codex's service tells how much of a login is used.
const usagePath = "/backend-api/wham/usage"

// Usage is what the usage endpoint says of an account, in codex's own terms.
type Usage struct {
	Primary, Secondary Window
	Reached            bool
}

// A Window is one that limits an account.
type Window struct {
	Percent float64
	Length  time.Duration
	Resets  time.Time
}

// UsageEndpoint returns the value for seeds.usage_endpoint.
func (s *Server) UsageEndpoint() string { return s.Issuer() + usagePath }

// SetUsage decides what the usage endpoint says of the account with the id. Of other accounts
// it says the plan alone.
func (s *Server) SetUsage(id string, u Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.usages == nil {
		s.usages = map[string]Usage{}
	}
	s.usages[id] = u
}

// usage answers a request with a live access token that names the token's own account.
func (s *Server) usage(w http.ResponseWriter, r *http.Request) {
	entry := s.record(r, EndpointUsage)
	s.mu.Lock()
	f := s.holder(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	var u Usage
	known := false
	if f != nil {
		u, known = s.usages[f.account.ID]
	}
	s.mu.Unlock()
	switch {
	case f == nil:
		s.amend(entry, func(e *Request) { e.Answer = "token_expired" })
		writeJSON(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{"code": "token_expired"}})
		return
	case r.Header.Get("ChatGPT-Account-Id") != f.account.ID:
		s.surprise(w, entry, "the usage of account %q, with a token of %q", r.Header.Get("ChatGPT-Account-Id"), f.account.ID)
		return
	}
	said := map[string]any{"plan_type": f.account.Plan}
	if known {
		said["rate_limit"] = map[string]any{"allowed": !u.Reached, "limit_reached": u.Reached, "primary_window": u.Primary.wire(), "secondary_window": u.Secondary.wire()}
	}
	s.amend(entry, func(e *Request) { e.Answer = "ok" })
	writeJSON(w, http.StatusOK, said)
}

// wire returns nil for no window.
func (w Window) wire() any {
	if w.Length == 0 {
		return nil
	}
	return map[string]any{"used_percent": w.Percent, "limit_window_seconds": int64(w.Length / time.Second),
		"reset_after_seconds": int64(time.Until(w.Resets) / time.Second), "reset_at": w.Resets.Unix()}
}
