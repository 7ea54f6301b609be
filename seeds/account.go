package seeds

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// ownUsage is where codex reads the usage of a ChatGPT login.
const ownUsage = "https://chatgpt.com/backend-api/wham/usage"

// AccountOf returns the identity and the plan that a ChatGPT login claims, or nil. Anybody
// may have written the claims: they are only shown.
func AccountOf(b *Bundle) *protocol.SeedAccount {
	if b.Kind() != KindChatGPT {
		return nil
	}
	var auth struct {
		Tokens struct {
			ID      string `json:"id_token"`
			Account string `json:"account_id"`
		} `json:"tokens"`
	}
	if json.Unmarshal(b.Auth(), &auth) != nil {
		return nil
	}
	var claims struct {
		Email   string `json:"email"`
		Profile struct {
			Email string `json:"email"`
		} `json:"https://api.openai.com/profile"`
		Auth struct {
			Account string `json:"chatgpt_account_id"`
			Plan    string `json:"chatgpt_plan_type"`
		} `json:"https://api.openai.com/auth"`
	}
	if parts := strings.Split(auth.Tokens.ID, "."); len(parts) == 3 {
		if raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "=")); err == nil {
			_ = json.Unmarshal(raw, &claims) // what cannot be read is left out
		}
	}
	var out protocol.SeedAccount
	for _, name := range []string{claims.Email, claims.Profile.Email, auth.Tokens.Account, claims.Auth.Account} {
		if out.Identity == "" {
			out.Identity = name
		}
	}
	out.Read(protocol.SeedAccount{Identity: out.Identity, Plan: claims.Auth.Plan}, time.Time{})
	return &out
}

// Usage asks how much of its windows a ChatGPT login has used, as codex does, without a
// model call. The login's access token must be valid.
func (i Issuer) Usage(ctx context.Context, b *Bundle) (*protocol.RateLimits, error) {
	access, err := AccessOf(b)
	if err != nil {
		return nil, err
	}
	at := i.UsageURL
	if at == "" {
		// Another issuer's token is for nobody else.
		if from, _, err := i.endpoint(b.Auth()); err != nil || from != ownIssuer+"/oauth/token" {
			return nil, errors.New("the login is of another issuer than codex's own: set seeds.usage_endpoint in the config of the workers")
		}
		at = ownUsage
	}
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return nil, errors.New("seeds.usage_endpoint is not safe for an access token: it must be an https URL without a user name")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s for the usage: %w", u.Host, err)
	}
	req.Header.Set("Authorization", "Bearer "+access.Token.Reveal())
	req.Header.Set("ChatGPT-Account-Id", access.Account)
	req.Header.Set("User-Agent", "fairlead")
	resp, err := i.client().Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s for the usage: it cannot be reached", u.Host)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask %s for the usage: it answered %d", u.Host, resp.StatusCode)
	}
	l := usageIn(body)
	if l == nil {
		return nil, fmt.Errorf("ask %s for the usage: its answer tells of no windows", u.Host)
	}
	l.AtMS = i.now().UnixMilli()
	return l, nil
}

// usageIn returns nil if an answer has neither a window nor a plan.
func usageIn(body []byte) *protocol.RateLimits {
	type window struct {
		Used    float64 `json:"used_percent"`
		Seconds int64   `json:"limit_window_seconds"`
		Resets  int64   `json:"reset_at"`
	}
	var said struct {
		Plan  string `json:"plan_type"`
		Limit struct {
			Reached   bool    `json:"limit_reached"`
			Primary   *window `json:"primary_window"`
			Secondary *window `json:"secondary_window"`
		} `json:"rate_limit"`
		Type json.RawMessage `json:"rate_limit_reached_type"`
	}
	if json.Unmarshal(body, &said) != nil {
		return nil
	}
	ours := func(w *window) *protocol.RateWindow {
		if w == nil {
			return nil
		}
		return &protocol.RateWindow{UsedPercent: int(min(max(w.Used, 0), 100)), WindowMinutes: w.Seconds / 60, ResetsAt: w.Resets}
	}
	l := &protocol.RateLimits{Primary: ours(said.Limit.Primary), Secondary: ours(said.Limit.Secondary), Plan: said.Plan}
	if said.Limit.Reached {
		l.Reached = "rate_limit_reached"
		var named struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(said.Type, &named) == nil && named.Type != "" {
			l.Reached = named.Type
		}
	}
	if l.Primary == nil && l.Secondary == nil && l.Plan == "" {
		return nil
	}
	return l
}
