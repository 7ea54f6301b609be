package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"fairlead.dev/fairlead/internal/escape"
)

// A Problem is why something failed, as the API says it.
type Problem struct {
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Kind   string `json:"kind"`
	Hint   string `json:"hint"`
}

func (p *Problem) Error() string { return p.Detail }

// maxAnswer bounds what the console reads of one answer of the API, in bytes.
const maxAnswer = 64 << 20

var errTooLong = errors.New("the answer is longer than the console shows")

// ask makes a request of the API for the person, and reads its answer into out. key makes a
// POST repeatable. Errors of the API are a *Problem.
func (v *visit) ask(ctx context.Context, method, path, key string, body, out any) error {
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
	v.opts.API.Inside(v.who).ServeHTTP(got, r)
	switch {
	case got.cut:
		return errTooLong
	case got.status >= http.StatusBadRequest:
		return problemOf(got)
	case out == nil:
		return nil
	}
	if raw, ok := out.(*[]byte); ok {
		*raw = got.body.Bytes()
		return nil
	}
	return json.Unmarshal(got.body.Bytes(), out)
}

// problemOf reads an error of one of the API's two forms.
func problemOf(got *answer) *Problem {
	var p struct {
		Problem
		Error struct {
			Kind    string `json:"kind"`
			Message string `json:"message"`
			Hint    string `json:"hint"`
		} `json:"error"`
	}
	if json.Unmarshal(got.body.Bytes(), &p) != nil || p.Detail == "" && p.Error.Message == "" {
		return &Problem{Status: got.status, Detail: http.StatusText(got.status)}
	}
	if p.Detail == "" {
		p.Detail, p.Kind, p.Hint = p.Error.Message, p.Error.Kind, p.Error.Hint
	}
	return &Problem{Status: got.status, Detail: escape.Text(p.Detail), Kind: p.Kind, Hint: escape.Text(p.Hint)}
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

// Flush and the deadlines are for handlers that stream: what they write is kept until the end.
func (a *answer) Flush() {}

func (a *answer) SetWriteDeadline(time.Time) error { return nil }

func (a *answer) SetReadDeadline(time.Time) error { return nil }

func (v *visit) get(path string, out any) error {
	return v.ask(v.r.Context(), http.MethodGet, path, "", nil, out)
}
