package seeds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const ownAPI = "https://api.openai.com/v1"

// Ask finds out whether a credential that does not rotate is accepted. It makes a request
// that costs nothing, to the server that codex would use. It makes none if only codex on
// its host can ask, or if the seed has no key.
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
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	said := fmt.Sprintf("%s answered %d", q.URL.Host, resp.StatusCode)
	if code := errorCode(body); code != "" {
		said += " " + code
	}
	switch status := resp.StatusCode; {
	case status == http.StatusOK:
		return Answer{Verdict: VerdictAlive}
	case status == http.StatusUnauthorized && q.Header.Get("Authorization") != "":
		return Answer{Verdict: VerdictSuspect, Reason: said + ": the key was refused", Hint: "see whether the key was revoked or mistyped; import the right one"}
	case status == http.StatusTooManyRequests, status >= 500:
		return Answer{Verdict: VerdictUnknown, Reason: said, RetryAfter: retryAfter(resp)}
	}
	return Answer{Verdict: VerdictUnknown, Reason: said + ", which says nothing of the key"}
}

// question returns nil and an Answer if no request can be made.
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
	case KindAccessToken:
		base := i.URL
		if base == "" {
			base = ownIssuer
		}
		at, bearer = strings.TrimRight(base, "/")+"/api/accounts/v1/user-auth-credential/whoami", *a.AccessToken
	case KindAPIKey, KindProvider:
		config, err := b.configWithSettings()
		var p provider
		if err == nil {
			p, err = chosenProvider(config)
		}
		if err == nil {
			bearer, err = p.bearer(a.APIKey)
		}
		if err == nil {
			err = p.reachable()
		}
		if err != nil {
			return no("%v", err)
		}
		at, headers = strings.TrimRight(p.base, "/")+"/models", p.headers
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

func (b *Bundle) configWithSettings() ([]byte, error) {
	config := b.File(configFile)
	own, err := settingsOf(b.File(settingsFile))
	if err != nil || own == nil {
		return config, err
	}
	config, _, err = mergeConfig(config, own.render())
	return config, err
}

type provider struct {
	name, base, key string
	own             bool // codex's own, which gets the key of auth.json
	wants           bool // another one, which gets the key of auth.json
	elsewhere       string
	headers         map[string]string
	query           url.Values
}

// bearer returns the key that codex sends; empty if headers replace it. own is the key of
// auth.json.
func (p provider) bearer(own *string) (string, error) {
	switch {
	case p.elsewhere != "":
		return "", fmt.Errorf("model provider %q takes its key from %s on the host, so a worker cannot check it", p.name, p.elsewhere)
	case p.own && own != nil:
		return *own, nil
	case p.key != "":
		return p.key, nil
	case p.wants && own != nil:
		return *own, nil
	case len(p.headers) > 0:
		return "", nil
	}
	return "", fmt.Errorf("the seed has no key for model provider %q: there is nothing to check", p.name)
}

// reachable returns why a worker must not ask in place of codex on its host, or nil. The
// address may mean another machine there, or the request could be read on the way.
func (p provider) reachable() error {
	if p.base == "" {
		return fmt.Errorf("model provider %q has no base_url that could be asked", p.name)
	}
	u, err := url.Parse(p.base)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("its base_url is no URL")
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	ip := net.ParseIP(host)
	near := ip != nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsUnspecified())
	if u.Scheme != "https" || near || ip == nil && (!strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".local")) {
		return errors.New("a worker cannot check this key: base_url is not https, or is an address of the host's own network")
	}
	return nil
}

func chosenProvider(config []byte) (provider, error) {
	p := provider{name: "openai", base: ownAPI, own: true, headers: map[string]string{}, query: url.Values{}}
	if config == nil {
		return p, nil
	}
	c, err := parseConfig(config)
	if err != nil {
		return p, err
	}
	if profile, _ := c["profile"].(string); profile != "" {
		return p, fmt.Errorf("its config.toml selects profile %q, which may name another model provider: the key is not checked", profile)
	}
	name, _ := c["model_provider"].(string)
	if name == "" || name == p.name {
		if base, _ := c["openai_base_url"].(string); base != "" {
			p.base = base
		}
		return p, nil
	}
	p.name, p.own = name, false
	all, _ := c["model_providers"].(map[string]any)
	table, _ := all[p.name].(map[string]any)
	p.wants, _ = table["requires_openai_auth"].(bool)
	if base, _ := table["base_url"].(string); base != "" || !p.wants {
		p.base = base
	}
	p.key, _ = table["experimental_bearer_token"].(string)
	for _, from := range []struct{ key, what string }{
		{"auth", "a command"}, {"aws", "AWS"}, {"env_key", "an environment"}, {"env_http_headers", "an environment"},
	} {
		if table[from.key] != nil && table[from.key] != "" {
			p.elsewhere = from.what
		}
	}
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
