package scriptedmodel

import (
	"fmt"
	"net/http"
	"time"
)

// Kind is a kind of failure; see the package documentation.
type Kind string

const (
	Unauthorized  Kind = "unauthorized"
	Forbidden     Kind = "forbidden"
	BadRequest    Kind = "bad_request"
	NotFound      Kind = "not_found"
	ContextLength Kind = "context_length"
	RateLimited   Kind = "rate_limited"
	UsageLimit    Kind = "usage_limit"
	ServerError   Kind = "server_error"
	Overloaded    Kind = "overloaded"
	Drop          Kind = "drop"
	Failed        Kind = "failed"
	Incomplete    Kind = "incomplete"
	Cut           Kind = "cut"
	Stall         Kind = "stall"
)

// Failure is a kind of failure and how often it happens.
type Failure struct {
	Kind Kind `yaml:"kind"`
	// Times is how often it fails before the step continues: 0 means once, -1
	// always.
	Times int `yaml:"times"`
	// After is the number of deltas after which to fail; 0 fails in place.
	After int `yaml:"after"`
	// Code is the error's code for Failed (rate_limit_exceeded,
	// insufficient_quota, context_length_exceeded …) and the reason for
	// Incomplete; for the others it replaces the usual one.
	Code    string `yaml:"code"`
	Message string `yaml:"message"`
	// ResetsIn is when the limit of UsageLimit ends; default one hour.
	ResetsIn time.Duration `yaml:"resets_in"`
}

// apiError is the `error` member of OpenAI's errors.
type apiError struct {
	Type            string `json:"type,omitempty"`
	Code            string `json:"code,omitempty"`
	Message         string `json:"message"`
	PlanType        string `json:"plan_type,omitempty"`
	ResetsAt        int64  `json:"resets_at,omitempty"`
	ResetsInSeconds int64  `json:"resets_in_seconds,omitempty"`
}

// statuses holds the failures that are an HTTP status with a body.
var statuses = map[Kind]struct {
	status int
	err    apiError
}{
	Unauthorized:  {http.StatusUnauthorized, apiError{Type: "invalid_request_error", Code: "invalid_api_key", Message: "Incorrect API key provided."}},
	Forbidden:     {http.StatusForbidden, apiError{Type: "invalid_request_error", Code: "forbidden", Message: "You are not allowed to use this model."}},
	BadRequest:    {http.StatusBadRequest, apiError{Type: "invalid_request_error", Code: "invalid_value", Message: "The request is not valid."}},
	NotFound:      {http.StatusNotFound, apiError{Type: "invalid_request_error", Code: "model_not_found", Message: "The model does not exist or you do not have access to it."}},
	ContextLength: {http.StatusBadRequest, apiError{Type: "invalid_request_error", Code: "context_length_exceeded", Message: "Your input exceeds the context window of this model."}},
	RateLimited:   {http.StatusTooManyRequests, apiError{Type: "requests", Code: "rate_limit_exceeded", Message: "Too many requests."}},
	UsageLimit:    {http.StatusTooManyRequests, apiError{Type: "usage_limit_reached", Message: "The usage limit has been reached."}},
	ServerError:   {http.StatusInternalServerError, apiError{Type: "server_error", Message: "The server had an error."}},
	Overloaded:    {http.StatusServiceUnavailable, apiError{Type: "server_error", Code: "server_is_overloaded", Message: "The server is overloaded."}},
}

// beforeStream reports whether the failure must be the whole answer.
func (f *Failure) beforeStream() bool {
	_, status := statuses[f.Kind]
	return status || f.Kind == Drop
}

// error returns the error object for the failure at time now.
func (f *Failure) error(now time.Time) apiError {
	e := statuses[f.Kind].err
	if f.Kind == UsageLimit {
		in := f.ResetsIn
		if in == 0 {
			in = time.Hour
		}
		e.PlanType = "plus"
		e.ResetsAt = now.Add(in).Unix()
		e.ResetsInSeconds = int64(in / time.Second)
	}
	if f.Kind == Failed {
		e = apiError{Code: "server_error", Message: "The response failed."}
	}
	if f.Code != "" {
		e.Code = f.Code
	}
	if f.Message != "" {
		e.Message = f.Message
	}
	return e
}

func (f *Failure) check() error {
	switch {
	case f.Kind == Failed, f.Kind == Incomplete, f.Kind == Cut, f.Kind == Stall, f.beforeStream():
	case f.Kind == "":
		return fmt.Errorf("fail has no kind")
	default:
		return fmt.Errorf("unknown kind of failure %q", f.Kind)
	}
	if f.beforeStream() && f.After != 0 {
		return fmt.Errorf("fail: %s is the whole answer and cannot come after %d deltas", f.Kind, f.After)
	}
	if f.After < 0 || f.Times < -1 {
		return fmt.Errorf("fail: after must be 0 or more, times -1 or more")
	}
	return nil
}
