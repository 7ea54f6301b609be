package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/errkind"
)

// ProblemBase begins the type of each problem; its kind follows.
const ProblemBase = "https://fairlead.dev/problems/"

const problemType = "application/problem+json"

// A Problem is an error of RFC 9457.
type Problem struct {
	Type   string `json:"type" format:"uri" doc:"ends with kind"`
	Title  string `json:"title" doc:"the HTTP status in words"`
	Status int    `json:"status" doc:"the HTTP status"`
	Detail string `json:"detail" doc:"what failed, and why"`
	Kind   string `json:"kind" doc:"a word for programs, the same as ctl's error kind"`
	Hint   string `json:"hint,omitempty" doc:"what to do"`

	after time.Duration // in Retry-After
}

func (p *Problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.after > 0 {
		h.Set("Retry-After", strconv.Itoa(int((p.after+time.Second-1)/time.Second)))
	}
	return h
}

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return problemType }

func problem(status int, kind, detail, hint string) *Problem {
	return &Problem{Type: ProblemBase + kind, Title: cmp.Or(http.StatusText(status), "Error"), Status: status, Detail: detail, Kind: kind, Hint: hint}
}

// problemOf returns the problem of an error: those of packages api and errkind have a kind.
func problemOf(err error) *Problem {
	var (
		p  *Problem
		of *api.Error
		e  *errkind.Error
	)
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &e):
		return problem(e.Status(), e.Kind, e.Message, e.Hint)
	case errors.As(err, &of):
		return problem(cmp.Or(of.Status, http.StatusServiceUnavailable), of.Kind, of.Message, of.Hint)
	case errors.Is(err, context.DeadlineExceeded):
		return problem(http.StatusGatewayTimeout, errkind.TimedOut("").Kind, err.Error(), "")
	}
	return problem(http.StatusInternalServerError, "internal", err.Error(), "")
}

func badInput(format string, args ...any) error { return errkind.Usage(format, args...) }

func init() {
	// huma asks these for each error that it finds itself, such as a wrong type. There is no
	// other place to set them.
	huma.NewError = newError
	huma.NewErrorWithContext = func(_ huma.Context, status int, msg string, errs ...error) huma.StatusError {
		return newError(status, msg, errs...)
	}
}

// newError tells all that is wrong with a request in one sentence.
func newError(status int, msg string, errs ...error) huma.StatusError {
	if status == 0 { // huma looks at the type
		return &Problem{}
	}
	var told []string
	for _, err := range errs {
		var d *huma.ErrorDetail
		switch {
		case err == nil:
		case errors.As(err, &d) && d.Location != "":
			told = append(told, fmt.Sprintf("%s: %s", d.Location, d.Message))
		default:
			told = append(told, err.Error())
		}
	}
	if len(told) > mostTold {
		told = append(told[:mostTold], fmt.Sprintf("and %d more", len(told)-mostTold))
	}
	if len(told) > 0 {
		msg = msg + ": " + strings.Join(told, "; ")
	}
	kind, hint := errkind.KindOf(status), ""
	if status < http.StatusInternalServerError {
		hint = "/openapi.json describes each request"
	}
	return problem(status, kind, msg, hint)
}

const mostTold = 20

// write answers with a problem.
func (p *Problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}
