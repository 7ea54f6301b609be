package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// A call is a request that a stand-in got.
type call struct{ what, key, body string }

// A standIn answers for a worker or for GitHub.
type standIn struct {
	*httptest.Server
	mu    sync.Mutex
	calls []call
}

// answers begins a stand-in. The function gets a request as "GET /path", and how often the same was asked
// before. It answers with a status and a body; status 0 cuts the connection.
func answers(t *testing.T, answer func(what string, before int, w http.ResponseWriter) (int, string)) *standIn {
	t.Helper()
	s := &standIn{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c := call{r.Method + " " + r.URL.Path, r.Header.Get("Idempotency-Key"), string(body)}
		s.mu.Lock()
		before := s.count(c.what)
		s.calls = append(s.calls, c)
		s.mu.Unlock()
		status, text := answer(c.what, before, w)
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(s.Close)
	return s
}

func (s *standIn) count(what string) (n int) {
	for _, c := range s.calls {
		if c.what == what {
			n++
		}
	}
	return n
}

// asked returns the requests of a kind.
func (s *standIn) asked(what string) (got []call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.what == what {
			got = append(got, c)
		}
	}
	return got
}

const (
	oneDelivery = "0b989ba4-242f-11e5-81e1-c7b6966d2516"

	starts   = "POST /v1/sessions"
	comments = "GET /repos/octo-team/app/issues/17/comments"
	posts    = "POST /repos/octo-team/app/issues/17/comments"
)

// works is a worker whose sessions end well.
func works(t *testing.T) *standIn {
	return answers(t, func(what string, _ int, _ http.ResponseWriter) (int, string) {
		if what == starts {
			return http.StatusCreated, `{"id":"s1"}`
		}
		return http.StatusOK, `{"status":"completed","final_text":"done","ended_at":"2026-11-29T12:06:00Z"}`
	})
}

// takes is GitHub with an issue that has no comments.
func takes(t *testing.T) *standIn {
	return answers(t, func(what string, _ int, _ http.ResponseWriter) (int, string) {
		if what == posts {
			return http.StatusCreated, `{}`
		}
		return http.StatusOK, `[]`
	})
}

// newBot returns a bot with a state folder.
func newBot(t *testing.T, dir string, worker, github *standIn) *bot {
	t.Helper()
	book, err := openBook(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := &bot{secret: "secret", label: "codex", book: book, log: slog.New(slog.DiscardHandler), poll: time.Millisecond, pause: pause, ctx: t.Context(),
		start:  start{Host: "web-1", Sandbox: "read-only", ApprovalPolicy: "never", CloseAfter: true},
		worker: remote{base: worker.URL, http: worker.Client()}, github: remote{base: github.URL, http: github.Client()}}
	t.Cleanup(func() {
		b.work.Wait()
		book.close()
	})
	return b
}

// labelled is an event about an issue that got the label.
func labelled(issue int) string {
	return fmt.Sprintf(`{"action":"labeled","label":{"name":"codex"},"issue":{"number":%d,"title":"hello","body":"<b> & more"},"repository":{"full_name":"octo-team/app"}}`, issue)
}

// deliver sends an event as GitHub does, and returns the status of the answer.
func deliver(b *bot, header, event string) int {
	mac := hmac.New(sha256.New, []byte(b.secret))
	mac.Write([]byte(event))
	r := httptest.NewRequest(http.MethodPost, "/webhook", bytes.NewReader([]byte(event)))
	r.Header.Set("X-GitHub-Event", "issues")
	r.Header.Set("X-GitHub-Delivery", header)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	w := httptest.NewRecorder()
	b.event(w, r)
	return w.Code
}

// kept returns the one delivery of a book.
func kept(t *testing.T, b *bot) delivery {
	t.Helper()
	all, err := b.book.all()
	if err != nil || len(all) != 1 {
		t.Fatalf("kept %+v: %v", all, err)
	}
	return all[0]
}

// said returns the one comment that GitHub got, without its mark.
func said(t *testing.T, github *standIn) string {
	t.Helper()
	all := github.asked(posts)
	if len(all) != 1 {
		t.Fatalf("comments %q", all)
	}
	text, _, _ := strings.Cut(all[0].body, `\n\n\u003c!--`)
	return strings.TrimPrefix(text, `{"body":"`)
}
