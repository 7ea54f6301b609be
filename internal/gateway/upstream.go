package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// An Upstream is a provider with a Responses API.
type Upstream struct {
	// Name is for records.
	Name string
	// BaseURL is what codex would have as base_url, such as https://api.openai.com/v1.
	BaseURL string
	// Key is sent as a bearer token. It is in no error and no record.
	Key string
	// Header and Query are added to each request.
	Header http.Header
	Query  url.Values
	// Models are asked for in place of those that codex names. A name that ends in * stands for all
	// models whose names begin so; the longest one counts. Other models keep their names.
	Models map[string]string
	// Whole means that the provider does not stream: its answers are made into events.
	Whole bool
}

func (u Upstream) check() (*url.URL, error) {
	base, err := url.Parse(u.BaseURL)
	switch {
	case u.Name == "":
		return nil, errors.New("an upstream needs a name")
	case err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" || base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, fmt.Errorf("upstream %s: its base URL must be http(s)://host/path, with neither a user nor a query", u.Name)
	case strings.ContainsAny(u.Key, "\r\n\x00"):
		return nil, fmt.Errorf("upstream %s: its key has a line break", u.Name)
	}
	return base, nil
}

// Limits bound a gateway. A zero member means the value in brackets.
type Limits struct {
	Requests   int           // at a time (8)
	Body       int64         // bytes of a request, decompressed (32 MiB)
	Event      int           // bytes of an event (16 MiB)
	Answer     int           // bytes of an answer (64 MiB)
	Attempts   int           // for each upstream (4)
	FirstPause time.Duration // before the second attempt; it doubles (250 ms)
	LongPause  time.Duration // the longest pause, also by Retry-After (20 s)
	Begin      time.Duration // until a request has arrived, and until a stream begins (2 m)
	Idle       time.Duration // silence within a stream, and until a whole answer (5 m)
	Total      time.Duration // of a request (1 h)
}

func orElse[T int | int64 | time.Duration](v *T, or T) {
	if *v <= 0 {
		*v = or
	}
}

func (l Limits) filled() Limits {
	orElse(&l.Requests, 8)
	orElse(&l.Body, 32<<20)
	orElse(&l.Event, 16<<20)
	orElse(&l.Answer, 64<<20)
	orElse(&l.Attempts, 4)
	orElse(&l.FirstPause, 250*time.Millisecond)
	orElse(&l.LongPause, 20*time.Second)
	orElse(&l.Begin, 2*time.Minute)
	orElse(&l.Idle, 5*time.Minute)
	orElse(&l.Total, time.Hour)
	return l
}
