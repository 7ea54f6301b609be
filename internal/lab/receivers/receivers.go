// Package receivers has what notifications are sent to, for tests: a webhook, an SMTP server, a
// Slack Web API and a push service. Each speaks the real protocol, and can be told to fail.
package receivers

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// A Fault is what a receiver does with the next messages.
type Fault struct {
	Status int // of HTTP; for mail, the SMTP code
	// After is the header Retry-After of a Status.
	After string
	// Body is what Slack answers in place of ok.
	Body string
	// Hold, if set, is waited for after the message was taken and before it is answered. Taken is
	// told that.
	Hold  <-chan struct{}
	Taken chan<- struct{}
	// Cut ends the connection in place of an answer, after the message was taken.
	Cut bool
	// Times is how often; 0 means always.
	Times int
	// Only is how the paths of the requests end that it is for; empty means all.
	Only string
}

// faults are of one receiver.
type faults struct {
	mu  sync.Mutex
	now *Fault
}

// Fail sets what happens from now on; nil means that all is well.
func (f *faults) Fail(x *Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = x
}

// next returns the fault of a request; a mail has no path.
func (f *faults) next(path string) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now == nil || !strings.HasSuffix(path, f.now.Only) {
		return Fault{}
	}
	x := *f.now
	if f.now.Times > 0 {
		if f.now.Times--; f.now.Times == 0 {
			f.now = nil
		}
	}
	return x
}

func (x Fault) wait() {
	if x.Taken != nil {
		x.Taken <- struct{}{}
	}
	if x.Hold != nil {
		<-x.Hold
	}
}

// answer answers an HTTP request as the fault says, and reports whether it did.
func (x Fault) answer(w http.ResponseWriter) bool {
	x.wait()
	switch {
	case x.Cut:
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			c.Close()
		}
	case x.Status == http.StatusFound:
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(x.Status)
	case x.Status != 0:
		if x.After != "" {
			w.Header().Set("Retry-After", x.After)
		}
		w.WriteHeader(x.Status)
	default:
		return false
	}
	return true
}

// Got is an HTTP request.
type Got struct {
	Header http.Header
	Path   string
	Body   []byte
}

// HTTP takes requests.
type HTTP struct {
	faults
	*httptest.Server
	mu  sync.Mutex
	got []Got
}

// NewWebhook starts a receiver of webhooks.
func NewWebhook() *HTTP {
	return newHTTP(func(w http.ResponseWriter, _ Got, _ Fault) { w.WriteHeader(http.StatusNoContent) })
}

func newHTTP(ok func(http.ResponseWriter, Got, Fault)) *HTTP {
	h := &HTTP{}
	h.Server = httptest.NewServer(h.takes(ok))
	return h
}

// takes returns the handler of a receiver.
func (h *HTTP) takes(ok func(http.ResponseWriter, Got, Fault)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return
		}
		g := Got{Header: r.Header.Clone(), Path: r.URL.Path, Body: body}
		x := h.next(g.Path)
		if x.Status == 0 && x.Body == "" { // it takes the message
			h.mu.Lock()
			h.got = append(h.got, g)
			h.mu.Unlock()
		}
		if !x.answer(w) {
			ok(w, g, x)
		}
	})
}

// Got returns what was taken so far.
func (h *HTTP) Got() []Got {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Got(nil), h.got...)
}
