package slackapp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/protocol"
)

// An API answers requests for people; [api.Insider] implements it.
type API interface {
	Inside(p api.Person) http.Handler
	// Did records what a person did by Slack or, with err, that it was refused.
	Did(p api.Person, verb, object, reason string, err error)
}

// A refusal is why the API does not do something.
type refusal struct {
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Hint   string `json:"hint"`
}

func (r *refusal) Error() string {
	text := r.Detail
	if r.Hint != "" {
		text += " (" + r.Hint + ")"
	}
	return text
}

// maxAnswer bounds an answer of the API, in bytes.
const maxAnswer = 8 << 20

var errTooLong = errors.New("the answer of the API is too long")

// ask makes a request of the API for a person. Errors of the API are a *refusal.
func (a *App) ask(ctx context.Context, who api.Person, method, path, key string, body, out any) error {
	var sent io.Reader = http.NoBody
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://inside"+path, sent)
	if err != nil {
		return err
	}
	r.RequestURI = r.URL.RequestURI()
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	got := &answer{header: http.Header{}}
	a.api.Inside(who).ServeHTTP(got, r)
	switch {
	case got.cut:
		return errTooLong
	case got.status >= http.StatusBadRequest:
		return refusalOf(got)
	}
	return json.Unmarshal(got.body.Bytes(), out)
}

// refusalOf reads an error of one of the API's two forms.
func refusalOf(got *answer) *refusal {
	var p struct {
		refusal
		Error struct {
			Message string `json:"message"`
			Hint    string `json:"hint"`
		} `json:"error"`
	}
	if json.Unmarshal(got.body.Bytes(), &p) != nil || p.Detail == "" && p.Error.Message == "" {
		return &refusal{Status: got.status, Detail: strings.ToLower(http.StatusText(got.status))}
	}
	if p.Detail == "" {
		p.Detail, p.Hint = p.Error.Message, p.Error.Hint
	}
	return &refusal{Status: got.status, Detail: escape.OneLine(p.Detail, 500), Hint: escape.OneLine(p.Hint, 300)}
}

// An answer keeps what a handler writes.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
	cut    bool
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.body.Len()+len(p) > maxAnswer {
		a.cut = true
		return 0, errTooLong
	}
	return a.body.Write(p)
}

// The deadlines are for handlers that ask a connection for them.
func (a *answer) SetWriteDeadline(time.Time) error { return nil }

func (a *answer) SetReadDeadline(time.Time) error { return nil }

// approval returns an approval as a person may see it.
func (a *App) approval(ctx context.Context, who api.Person, id string) (ap protocol.Approval, err error) {
	return ap, a.ask(ctx, who, http.MethodGet, "/v1/approvals/"+url.PathEscape(id), "", nil, &ap)
}
