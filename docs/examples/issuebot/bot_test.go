package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A turn that the session goes on with by itself is not the end: what the last turn says is the result.
func TestATurnThatGoesOnIsFollowedToItsEnd(t *testing.T) {
	const ended = `"ended_at":"2026-11-29T12:06:00Z"`
	for want, last := range map[string]string{
		"done": `{"status":"completed","final_text":"done",` + ended + `}`,
		"The turn of session `s1` ended as interrupted: by ann": `{"status":"interrupted",` + ended + `,"error":{"message":"by ann"}}`,
	} {
		worker := answers(t, func(what string, before int, _ http.ResponseWriter) (int, string) {
			_, n, _ := strings.Cut(what, "/turns/")
			switch {
			case n == "1":
				return http.StatusOK, `{"status":"interrupted",` + ended + `,"followed_by":2,"error":{"message":"the process was lost"}}`
			case before == 0:
				return http.StatusOK, `{"status":"queued"}`
			case before == 1:
				return http.StatusOK, `{"status":"inProgress"}`
			case n == "2":
				return http.StatusOK, `{"status":"failed",` + ended + `,"followed_by":3,"error":{"message":"the limit was met"}}`
			}
			return http.StatusOK, last
		})
		b := newBot(t, t.TempDir(), worker, takes(t))
		if text, err := b.result("s1"); err != nil || text != want {
			t.Errorf("the result is %q, not %q: %v", text, want, err)
		}
	}
}

// What a worker refuses for good is said in the issue, once, and is not asked again.
func TestARefusalOfTheWorkerIsSaidInTheIssue(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity} {
		worker := answers(t, func(string, int, http.ResponseWriter) (int, string) {
			return status, `{"kind":"bad_input","detail":"host web-1 is not known"}`
		})
		github, dir := answers(t, func(what string, before int, _ http.ResponseWriter) (int, string) {
			if what == posts && before == 0 {
				return http.StatusBadGateway, ``
			}
			return http.StatusOK, `[]`
		}), t.TempDir()
		ctx, stop := context.WithCancel(t.Context())
		b := newBot(t, dir, worker, github)
		b.ctx, b.pause = ctx, func(context.Context, time.Duration) error { stop(); return ctx.Err() } // it dies after the first try
		if got := deliver(b, oneDelivery, labelled(17)); got != http.StatusAccepted {
			t.Fatalf("status %d", got)
		}
		b.work.Wait()
		b.book.close()
		again := newBot(t, dir, worker, takes(t))
		again.begin(kept(t, again))
		again.work.Wait()
		if n := len(worker.asked(starts)); n != 1 {
			t.Errorf("status %d: asked %d times", status, n)
		}
		if d := kept(t, again); !d.Commented || !strings.HasSuffix(d.Refused, "could not be started: host web-1 is not known") {
			t.Errorf("status %d: kept %+v", status, d)
		}
	}
}

// What may pass is tried again, by the same request, even if the program was started anew with other flags.
func TestARepetitionIsTheSameRequest(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, 0} {
		worker := answers(t, func(what string, before int, _ http.ResponseWriter) (int, string) {
			switch {
			case what != starts:
				return http.StatusOK, `{"status":"completed","final_text":"done","ended_at":"2026-11-29T12:06:00Z"}`
			case before == 0:
				return status, `{"detail":"not now"}`
			}
			return http.StatusCreated, `{"id":"s1"}`
		})
		github, dir := takes(t), t.TempDir()
		ctx, stop := context.WithCancel(t.Context())
		b := newBot(t, dir, worker, github)
		b.ctx, b.pause = ctx, func(context.Context, time.Duration) error { stop(); return ctx.Err() }
		deliver(b, oneDelivery, labelled(17))
		b.work.Wait()
		b.book.close()
		again := newBot(t, dir, worker, github)
		again.start.Host = "web-2"
		again.begin(kept(t, again))
		again.work.Wait()
		if got := worker.asked(starts); len(got) != 2 || got[0] != got[1] || !strings.Contains(got[0].body, `"web-1"`) {
			t.Errorf("status %d: asked %q", status, got)
		}
		if text := said(t, github); text != "done" {
			t.Errorf("status %d: said %q", status, text)
		}
	}
}

// What GitHub refuses for good is kept as failed, and is not tried again.
func TestARefusalOfGitHubEndsTheDelivery(t *testing.T) {
	for _, c := range []struct {
		what   string
		status int
	}{{comments, http.StatusNotFound}, {comments, http.StatusForbidden}, {posts, http.StatusForbidden}, {posts, http.StatusGone}, {posts, http.StatusUnprocessableEntity}} {
		github := answers(t, func(what string, _ int, _ http.ResponseWriter) (int, string) {
			if what == c.what {
				return c.status, `{"message":"Unable to create comment because issue is locked."}`
			}
			return http.StatusOK, `[]`
		})
		b := newBot(t, t.TempDir(), works(t), github)
		deliver(b, oneDelivery, labelled(17))
		b.work.Wait()
		if d := kept(t, b); d.Commented || !strings.Contains(d.Failed, fmt.Sprint(c.status)) || !strings.Contains(d.Failed, "issue is locked") {
			t.Errorf("%s, status %d: kept %+v", c.what, c.status, d)
		}
		if open, err := b.book.open(); err != nil || len(open) != 0 {
			t.Errorf("%s, status %d: to be done are %+v: %v", c.what, c.status, open, err)
		}
		if n := len(github.asked(c.what)); n != 1 {
			t.Errorf("%s, status %d: asked %d times", c.what, c.status, n)
		}
	}
}

// GitHub answers with status 403 to whoever asks too often: that passes.
func TestALimitOfGitHubPasses(t *testing.T) {
	for what, limit := range map[string]func(http.Header) string{
		"Retry-After":           func(h http.Header) string { h.Set("Retry-After", "60"); return `{}` },
		"X-RateLimit-Remaining": func(h http.Header) string { h.Set("X-RateLimit-Remaining", "0"); return `{}` },
		"its message":           func(http.Header) string { return `{"message":"You have exceeded a secondary rate limit."}` },
	} {
		github := answers(t, func(what string, before int, w http.ResponseWriter) (int, string) {
			if what == posts && before == 0 {
				return http.StatusForbidden, limit(w.Header())
			}
			return http.StatusOK, `[]`
		})
		b := newBot(t, t.TempDir(), works(t), github)
		deliver(b, oneDelivery, labelled(17))
		b.work.Wait()
		if d := kept(t, b); !d.Commented || d.Failed != "" {
			t.Errorf("%s: kept %+v", what, d)
		}
	}
}

// An event is known by what GitHub signed. The header X-GitHub-Delivery is not signed, so an event that
// somebody sends again under another one is the same event.
func TestAnEventUnderAnotherDeliveryIsTheSame(t *testing.T) {
	worker, github := works(t), takes(t)
	b := newBot(t, t.TempDir(), worker, github)
	for _, header := range []string{oneDelivery, "72d3162e-cc78-11e3-81ab-4c9367dc0958", "../../etc", ""} {
		if status := deliver(b, header, labelled(17)); status != http.StatusAccepted {
			t.Errorf("delivery %q: status %d", header, status)
		}
		b.work.Wait()
	}
	sum := sha256.Sum256([]byte(labelled(17)))
	if got := worker.asked(starts); len(got) != 1 || got[0].key != "github-"+hex.EncodeToString(sum[:]) {
		t.Errorf("asked %q", got)
	}
	if text := said(t, github); text != "done" {
		t.Errorf("said %q", text)
	}
	if d := kept(t, b); d.ID != hex.EncodeToString(sum[:]) || d.Header != oneDelivery {
		t.Errorf("kept %+v", d)
	}
}

// A comment whose answer was lost may appear late. It is looked for after a pause, and is posted once,
// even if the program was started anew.
func TestACommentWhoseAnswerWasLostIsLookedForAfterAPause(t *testing.T) {
	for what, status := range map[string]int{"no answer": 0, "an answer of something between": http.StatusBadGateway} {
		for _, dies := range []bool{false, true} {
			appears, mark := make(chan struct{}), ""
			github := answers(t, func(what string, _ int, _ http.ResponseWriter) (int, string) {
				if what == posts {
					return status, ``
				}
				select {
				case <-appears:
					return http.StatusOK, "[" + mark + "]"
				default:
					return http.StatusOK, `[]`
				}
			})
			dir, worker := t.TempDir(), works(t)
			ctx, stop := context.WithCancel(t.Context())
			b := newBot(t, dir, worker, github)
			waits := func(_ context.Context, d time.Duration) error {
				if d > b.settle/2 {
					mark = github.asked(posts)[0].body
					close(appears)
				}
				return nil
			}
			b.ctx, b.settle, b.pause = ctx, time.Hour, waits
			if dies {
				b.pause = func(context.Context, time.Duration) error { stop(); return ctx.Err() }
			}
			deliver(b, oneDelivery, labelled(17))
			b.work.Wait()
			if dies {
				b.book.close()
				again := newBot(t, dir, worker, github)
				again.settle, again.pause = b.settle, waits
				again.begin(kept(t, again))
				again.work.Wait()
				b = again
			}
			stop()
			if d := kept(t, b); !d.Commented {
				t.Errorf("%s, dies %v: kept %+v", what, dies, d)
			}
			if text := said(t, github); text != "done" {
				t.Errorf("%s, dies %v: said %q", what, dies, text)
			}
		}
	}
}
