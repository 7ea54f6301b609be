package seeds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const ownAPI = "https://api.openai.com/v1"

// Ask finds out whether a credential that does not rotate is taken, by a
// question that costs nothing: which models there are, or who it is.
func (i Issuer) Ask(ctx context.Context, b *Bundle) Answer {
	q, answer := i.question(b)
	if q == nil {
		return answer
	}
	resp, err := i.client().Do(q.WithContext(ctx))
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return Answer{Verdict: VerdictUnknown, Reason: fmt.Sprintf("%s cannot be reached (%v)", q.URL.Host, err), Hint: "check that the workers reach it"}
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // for its code, if it has one
	said := fmt.Sprintf("%s answered %d", q.URL.Host, resp.StatusCode)
	if code := errorCode(body); code != "" {
		said += " " + code
	}
	switch status := resp.StatusCode; {
	case status == http.StatusOK:
		return Answer{Verdict: VerdictAlive}
	case status == http.StatusUnauthorized:
		return Answer{Verdict: VerdictSuspect, Reason: said + ": it is not taken", Hint: "see whether the key was revoked or mistyped; import the right one"}
	case status == http.StatusTooManyRequests, status >= 500:
		return Answer{Verdict: VerdictUnknown, Reason: said, RetryAfter: retryAfter(resp)}
	}
	return Answer{Verdict: VerdictUnknown, Reason: said + ", which says nothing of the key"}
}

// question makes the request, or says why there is none to ask.
func (i Issuer) question(b *Bundle) (*http.Request, Answer) {
	no := func(format string, args ...any) (*http.Request, Answer) {
		return nil, Answer{Verdict: VerdictUnknown, Reason: fmt.Sprintf(format, args...)}
	}
	var a authJSON
	if auth := b.Auth(); auth != nil && json.Unmarshal(auth, &a) != nil {
		return no("its auth.json cannot be read")
	}
	at, bearer, headers := "", "", map[string]string{}
	switch b.Kind() {
	case KindAPIKey:
		p, err := chosenProvider(b.File(configFile))
		if err != nil {
			return no("%v", err)
		}
		at, bearer, headers = strings.TrimRight(p.url(ownAPI), "/")+"/models", *a.APIKey, p.headers
	case KindAccessToken:
		base := i.URL
		if base == "" {
			base = ownIssuer
		}
		at, bearer = strings.TrimRight(base, "/")+"/api/accounts/v1/user-auth-credential/whoami", *a.AccessToken
	case KindProvider:
		p, err := chosenProvider(b.File(configFile))
		switch {
		case err != nil:
			return no("%v", err)
		case p.base == "":
			return no("model provider %q has no base_url that could be asked", p.name)
		}
		at, bearer, headers = strings.TrimRight(p.base, "/")+"/models", p.key, p.headers
		if q := p.query.Encode(); q != "" {
			at += "?" + q
		}
	default:
		return no("a seed of kind %s is verified by a refresh", b.Kind())
	}
	req, err := http.NewRequest(http.MethodGet, at, nil)
	if err != nil || req.URL.Host == "" || req.URL.Scheme != "https" && req.URL.Scheme != "http" {
		return no("its base_url is no URL")
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	req.Header.Set("User-Agent", "fairlead")
	return req, Answer{}
}

// A provider is where a config.toml sends requests.
type provider struct {
	name, base, key string
	headers         map[string]string
	query           url.Values
}

func (p provider) url(own string) string {
	if p.base != "" {
		return p.base
	}
	return own
}

// chosenProvider reads the model provider that a config.toml selects; all is
// empty for codex's own.
func chosenProvider(config []byte) (provider, error) {
	p := provider{headers: map[string]string{}, query: url.Values{}}
	if config == nil {
		return p, nil
	}
	c, err := parseConfig(config)
	if err != nil {
		return p, err
	}
	p.name, _ = c["model_provider"].(string)
	if p.name == "" || p.name == "openai" {
		p.base, _ = c["openai_base_url"].(string)
		return p, nil
	}
	all, _ := c["model_providers"].(map[string]any)
	table, _ := all[p.name].(map[string]any)
	p.base, _ = table["base_url"].(string)
	p.key, _ = table["experimental_bearer_token"].(string)
	fill := func(key string, set func(name, value string)) {
		values, _ := table[key].(map[string]any)
		for _, name := range sortedKeys(values) {
			if value, ok := values[name].(string); ok {
				set(name, value)
			}
		}
	}
	fill("http_headers", func(name, value string) { p.headers[name] = value })
	fill("query_params", p.query.Set)
	return p, nil
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
