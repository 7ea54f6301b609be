package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestWhoLooksAtTheInboxIsKnownToAllWorkersForAMoment(t *testing.T) {
	blobs := &memory{m: map[string][]byte{}}
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	here, there := NewLooking(blobs), NewLooking(blobs)
	here.now, there.now = clock, clock
	if there.Looks(t.Context(), "ann") {
		t.Error("ann looks before she has")
	}
	here.Say(t.Context(), "ann")
	now = now.Add(lookingSaid)
	if !there.Looks(t.Context(), "ann") || there.Looks(t.Context(), "bob") {
		t.Error("another worker does not know who looks")
	}
	here.Say(t.Context(), "ann") // she looks on
	now = now.Add(lookingFor - time.Second)
	if !there.Looks(t.Context(), "ann") {
		t.Error("ann looks no more, and she does")
	}
	now = now.Add(time.Second)
	if there.Looks(t.Context(), "ann") {
		t.Error("ann still looks")
	}
}

// A tab says who looks while the page is seen, and not while it is behind others.
func TestATabThatIsHiddenDoesNotLook(t *testing.T) {
	for path, of := range map[string]struct {
		looks  bool
		writes int // until the page is told of its state: how to reconnect and, by the inbox, an id come first
	}{"/live?of=inbox": {true, 3}, "/live?of=inbox&hidden=1": {false, 3}, "/live?of=sessions": {false, 2}} {
		c := newConsole(&fakeAPI{answers: map[string]string{"GET /v1/sessions": `{"items":[]}`}})
		c.opts.Looking = NewLooking(c.opts.Store)
		cookie := loggedIn(t, c, "ann")
		ctx, cancel := context.WithCancel(t.Context())
		shown, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			r := httptest.NewRequestWithContext(ctx, "GET", "http://"+host+path, nil)
			r.AddCookie(&http.Cookie{Name: "c", Value: cookie})
			writes := 0
			c.ServeHTTP(patient{httptest.NewRecorder(), func() {
				if writes++; writes == of.writes {
					close(shown)
				}
			}}, r)
		}()
		<-shown
		if c.opts.Looking.Looks(t.Context(), "ann") != of.looks {
			t.Errorf("%s: ann looks: %t", path, !of.looks)
		}
		cancel()
		<-ended
	}
}
