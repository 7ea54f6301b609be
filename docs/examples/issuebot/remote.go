package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// mostAnswer bounds an answer, in bytes.
const mostAnswer = 32 << 20

// remote is an API that takes a bearer token and speaks JSON.
type remote struct {
	base, token string
	http        *http.Client
}

func (r remote) ask(ctx context.Context, method, path string, in, out any, header ...string) error {
	_, err := r.askFor(ctx, method, path, in, out, header...)
	return err
}

// A statusError is an answer whose status is not 2xx.
type statusError struct {
	what   string // method and path
	status int
	why    string // what the answer says
	passes bool   // GitHub's limit of requests
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s: status %d: %q", e.what, e.status, e.why)
}

// refused returns why a request was refused, if it will be refused each time.
func refused(err error) (why string, final bool) {
	var e *statusError
	if !errors.As(err, &e) || e.status/100 != 4 || e.passes {
		return "", false
	}
	switch e.status {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return "", false
	}
	return e.why, true
}

// statusOf makes the error of an answer. A worker says why in detail, GitHub in message.
func statusOf(what string, resp *http.Response, data []byte) *statusError {
	var says struct{ Detail, Message string }
	_ = json.Unmarshal(data, &says) // something between may answer with HTML
	e := &statusError{what: what, status: resp.StatusCode, why: fmt.Sprintf("%.1000s", cmp.Or(says.Detail, says.Message, string(data), resp.Status))}
	// GitHub says so with status 403, in one of three ways.
	e.passes = e.status == http.StatusForbidden && (resp.Header.Get("Retry-After") != "" || resp.Header.Get("X-RateLimit-Remaining") == "0" ||
		strings.Contains(strings.ToLower(e.why), "rate limit"))
	return e
}

// askFor also returns the headers of the answer.
func (r remote) askFor(ctx context.Context, method, path string, in, out any, header ...string) (http.Header, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	q, err := http.NewRequestWithContext(ctx, method, r.base+path, body)
	if err != nil {
		return nil, err
	}
	q.Header.Set("User-Agent", "fairlead-issuebot") // which GitHub requires
	q.Header.Set("Accept", "application/json")
	q.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	if in != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	if r.token != "" {
		q.Header.Set("Authorization", "Bearer "+r.token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	resp, err := r.http.Do(q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > mostAnswer:
		return nil, fmt.Errorf("%s %s: the answer has more than %d bytes", method, path, mostAnswer)
	case resp.StatusCode/100 != 2:
		return nil, statusOf(method+" "+path, resp, data)
	case out == nil:
		return resp.Header, nil
	}
	return resp.Header, json.Unmarshal(data, out)
}

// mostPages bounds the comments that are looked through: 100 in each page.
const mostPages = 100

// commented reports whether one of the comments of an issue has a mark.
func (r remote) commented(ctx context.Context, at, mark string) (bool, error) {
	for page := 1; page <= mostPages; page++ {
		var list []struct {
			Body string `json:"body"`
		}
		h, err := r.askFor(ctx, http.MethodGet, fmt.Sprintf("%s?per_page=100&page=%d", at, page), nil, &list)
		if err != nil {
			return false, err
		}
		for _, c := range list {
			if strings.Contains(c.Body, mark) {
				return true, nil
			}
		}
		if !strings.Contains(h.Get("Link"), `rel="next"`) {
			return false, nil
		}
	}
	return false, fmt.Errorf("the issue has more than %d comments", 100*mostPages)
}
