package seeds

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/strictyaml"
)

// fallBackSettings are the providers that the model gateway asks when the seed's own one cannot
// answer. codex on a host never knows of them.
type fallBackSettings struct {
	// On are the failures after which the next provider is asked: names of failures.
	On []string `yaml:"on"`
	// Attempts is how often a provider is asked before the next one; 0 is the gateway's own number.
	Attempts int `yaml:"attempts"`
	// Stay is how long a provider that failed is asked after the others.
	Stay      time.Duration      `yaml:"stay"`
	Upstreams []upstreamSettings `yaml:"upstreams"`
}

type upstreamSettings struct {
	Name        string            `yaml:"name"`
	BaseURL     string            `yaml:"base_url"`
	BearerToken string            `yaml:"bearer_token"`
	Headers     map[string]string `yaml:"headers"`
	Query       map[string]string `yaml:"query"`
	// Models maps the names of models that codex asks for to those of this provider.
	Models map[string]string `yaml:"models"`
}

// Failures after which a seed may have another provider asked.
const (
	FailConnect    = "connect"
	FailServer     = "server"
	FailRateLimit  = "rate_limit"
	FailQuota      = "quota"
	FailAuth       = "auth"
	FailBadRequest = "bad_request"
)

var failures = []string{FailConnect, FailServer, FailRateLimit, FailQuota, FailAuth, FailBadRequest}

const (
	maxUpstreams = 8
	maxModels    = 100
	maxAttempts  = 10
	maxStay      = 24 * time.Hour
)

// check adds every mistake to f. No message repeats a value.
func (b *fallBackSettings) check(f *strictyaml.File, first string) {
	if b == nil {
		return
	}
	for _, on := range b.On {
		if !slices.Contains(failures, on) {
			f.Add("fallback.on", "has an unknown failure: use some of connect, server, rate_limit, quota, auth, bad_request")
		}
	}
	if b.Attempts < 0 || b.Attempts > maxAttempts {
		f.Add("fallback.attempts", "is not between 1 and %d", maxAttempts)
	}
	if b.Stay < 0 || b.Stay > maxStay {
		f.Add("fallback.stay", "is not between 0 and %v", maxStay)
	}
	if len(b.Upstreams) == 0 || len(b.Upstreams) > maxUpstreams {
		f.Add("fallback.upstreams", "is not a list of 1 to %d providers", maxUpstreams)
	}
	names := map[string]bool{first: true}
	for i, u := range b.Upstreams {
		key := fmt.Sprintf("fallback.upstreams.%d", i)
		switch {
		case !tableName.MatchString(u.Name):
			f.Add(key+".name", "is not a provider's name: letters, digits, _ and -, at most 60")
		case names[u.Name]:
			f.Add(key+".name", "is that of another provider of the seed")
		}
		names[u.Name] = true
		checkURL(f, key+".base_url", u.BaseURL, "https://… or http://…", "https", "http")
		if at, err := url.Parse(u.BaseURL); err == nil && (at.RawQuery != "" || at.Fragment != "") {
			f.Add(key+".base_url", "has a query or a fragment: use query")
		}
		checkToken(f, key+".bearer_token", u.BearerToken)
		checkHeaders(f, key+".headers", u.Headers)
		if len(u.Models) > maxModels {
			f.Add(key+".models", "has more than %d names", maxModels)
		}
		for _, from := range slices.Sorted(maps.Keys(u.Models)) {
			if from == "" || u.Models[from] == "" || !writable(from) || !writable(u.Models[from]) {
				f.Add(key+".models", "has an empty name, or one with control characters")
			}
		}
	}
}

func (b *fallBackSettings) secrets(f func(text string), named func(map[string]string)) {
	if b == nil {
		return
	}
	for _, u := range b.Upstreams {
		f(u.BearerToken)
		named(u.Headers)
		named(u.Query)
		secretsOfURL(u.BaseURL, f)
	}
}

// A FallBack says which providers are asked in place of a seed's own one, and when.
type FallBack struct {
	On        []string // empty means connect, server and rate_limit
	Attempts  int      // 0 means the gateway's own number
	Stay      time.Duration
	Upstreams []Endpoint
}

// FallBackOf returns the FallBack of a seed; its zero value if it has none.
func FallBackOf(b *Bundle) (FallBack, error) {
	s, err := settingsOf(b.File(settingsFile))
	if err != nil || s == nil || s.FallBack == nil {
		return FallBack{}, err
	}
	out := FallBack{On: s.FallBack.On, Attempts: s.FallBack.Attempts, Stay: s.FallBack.Stay}
	for _, u := range s.FallBack.Upstreams {
		e := Endpoint{Name: u.Name, BaseURL: u.BaseURL, Header: http.Header{}, Query: url.Values{}, Models: u.Models}
		if u.BearerToken != "" {
			e.Key = NewSecret(u.BearerToken)
		}
		for name, value := range u.Headers {
			e.Header.Set(name, value)
		}
		for name, value := range u.Query {
			e.Query.Set(name, value)
		}
		out.Upstreams = append(out.Upstreams, e)
	}
	return out, nil
}
