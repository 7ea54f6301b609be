package store

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// throughS3 starts an S3 server behind a proxy. change gets each request, and answer gets
// each response, before the other side does. Both may be nil.
func throughS3(t *testing.T, change func(*http.Request), answer func(*http.Response) error) string {
	t.Helper()
	good := s3URL(t)
	at, err := url.Parse(good)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(at.Query().Get("endpoint"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if change != nil {
				change(r.Out)
			}
		},
		ModifyResponse: answer,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, err error) { t.Error(err) },
	})
	t.Cleanup(proxy.Close)
	return strings.Replace(good, target.String(), proxy.URL, 1)
}

// deafTo starts an S3 server that ignores a header.
func deafTo(t *testing.T, header string) string {
	return throughS3(t, func(r *http.Request) { r.Header.Del(header) }, nil)
}

func TestCreateOnceHasOneWinner(t *testing.T) {
	everyPlace(t, func(t *testing.T, url string) {
		s := open(t, options(url, identity(t)))
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = s.CreateOnce(t.Context(), "only/once", []byte{byte(i)}) })
		}
		wg.Wait()
		won := 0
		for i, err := range errs {
			if err == nil {
				won++
				if got, err := s.Get(t.Context(), "only/once"); err != nil || len(got) != 1 || got[0] != byte(i) {
					t.Errorf("racer %d won, and the blob is %q, %v", i, got, err)
				}
			} else if !errors.Is(err, ErrExists) {
				t.Errorf("racer %d: %v; want ErrExists", i, err)
			}
		}
		if won != 1 {
			t.Errorf("%d racers won", won)
		}
		if found, err := s.List(t.Context(), ""); err != nil || len(found) != 1 {
			t.Errorf("listed: %v, %v; want the one blob", found, err)
		}
	})
}

func TestCreateOnceIsRefusedByAServerThatIgnoresIfNoneMatch(t *testing.T) {
	refusing := map[string]string{
		"ignores it": deafTo(t, "If-None-Match"),
		"does not know it": throughS3(t, nil, func(r *http.Response) error {
			if r.Request.Header.Get("If-None-Match") != "" && strings.HasSuffix(r.Request.URL.Path, exclusiveProbeKey) {
				r.StatusCode, r.Status = http.StatusNotImplemented, "501 Not Implemented"
			}
			return nil
		}),
	}
	for name, url := range refusing {
		t.Run(name, func(t *testing.T) {
			s := open(t, options(url, identity(t)))
			for range 2 {
				err := s.CreateOnce(t.Context(), "k", []byte("x"))
				if !errors.Is(err, ErrNotExclusive) || errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "If-None-Match") {
					t.Errorf("got %v; want ErrNotExclusive", err)
				}
			}
			if there, err := s.Exists(t.Context(), "k"); there || err != nil {
				t.Errorf("the blob is there: %v, %v", there, err)
			}
			if found, err := s.List(t.Context(), ""); err != nil || len(found) != 0 {
				t.Errorf("listed: %v, %v; want nothing", found, err)
			}
			if err := s.Create(t.Context(), "k", []byte("x")); err != nil {
				t.Errorf("what need not be exclusive: %v", err)
			}
		})
	}
}

func TestAServerIsProbedOnceForExclusion(t *testing.T) {
	var mu sync.Mutex
	probes := 0
	s := open(t, options(throughS3(t, func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, exclusiveProbeKey) {
			probes++
		}
	}, nil), identity(t)))
	for _, key := range []string{"a", "b", "c"} {
		if err := s.CreateOnce(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if probes != 2 {
		t.Errorf("%d probes were written; want 2 (one that makes it, one that is refused)", probes)
	}
}

// A caller that waits for a slow answer of the server does not delay other callers.
func TestASlowProbeHoldsUpNobody(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	var slow atomic.Bool
	s := open(t, options(throughS3(t, func(r *http.Request) {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, exclusiveProbeKey) && slow.CompareAndSwap(false, true) {
			close(begun)
			<-release
		}
	}, nil), identity(t)))
	first := make(chan error, 1)
	go func() { first <- s.CreateOnce(t.Context(), "first", nil) }()
	<-begun
	second := make(chan error, 1)
	go func() { second <- s.CreateOnce(t.Context(), "second", nil) }()
	select {
	case err := <-second:
		if err != nil {
			t.Error(err)
		}
		close(release)
	case <-time.After(time.Minute):
		t.Error("the second one waits for the first")
		close(release)
		<-second
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestCreateOnceTakesOnlyWhatIsWrittenInOneRequest(t *testing.T) {
	s := open(t, options(fileURL(t), identity(t)))
	if err := s.CreateOnce(t.Context(), "k", make([]byte, maxOnce+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v; want ErrTooLarge", err)
	}
}

// A writer whose blob is overwritten before it has read it back learns that it lost the
// race.
func TestTheLoserOfARaceLearnsItWhereIfNoneMatchIsIgnored(t *testing.T) {
	begun, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var seen atomic.Bool // not a sync.Once, because the other writer must not wait here
	id := identity(t)
	url := throughS3(t, func(r *http.Request) { r.Header.Del("If-None-Match") }, func(r *http.Response) error {
		if r.Request.Method == http.MethodPut && strings.HasSuffix(r.Request.URL.Path, "/k") {
			if seen.CompareAndSwap(false, true) {
				close(release)
				<-ended
			}
		}
		return nil
	})
	first, second := open(t, options(url, id)), open(t, options(url, id))
	second.place = pausing{second.place, func() { close(begun); <-release }}
	var err2 error
	go func() {
		defer close(ended)
		err2 = second.Create(t.Context(), "k", []byte("second"))
	}()
	<-begun // the first writer has seen that the key is free
	err1 := first.Create(t.Context(), "k", []byte("first"))
	<-ended
	if !errors.Is(err1, ErrExists) || err2 != nil {
		t.Errorf("the first, overwritten: %v, want ErrExists; the second: %v, want nil", err1, err2)
	}
	if got, err := first.Get(t.Context(), "k"); err != nil || string(got) != "second" {
		t.Errorf("stored: %q, %v", got, err)
	}
}

// The SDK repeats a request whose answer it did not understand. The server refuses the
// second request because the first one succeeded.
func TestCreateWhoseAnswerWasLostSucceeds(t *testing.T) {
	var once sync.Once
	s := open(t, options(throughS3(t, nil, func(r *http.Response) error {
		if r.Request.Method == http.MethodPut && strings.HasSuffix(r.Request.URL.Path, "/k") {
			once.Do(func() { r.StatusCode, r.Status = http.StatusInternalServerError, "500 Internal Server Error" })
		}
		return nil
	}), identity(t)))
	if err := s.Create(t.Context(), "k", []byte("mine")); err != nil {
		t.Errorf("got %v; want success: what is there is ours", err)
	}
	if err := s.Create(t.Context(), "k", []byte("mine")); !errors.Is(err, ErrExists) {
		t.Errorf("again: %v; want ErrExists", err)
	}
}

// If two processes make a new store on such a server, they agree on its id.
func TestWhoMakesAStoreBelievesInTheOneThatIsThere(t *testing.T) {
	release, ended := make(chan struct{}), make(chan struct{})
	var seen atomic.Bool
	id := identity(t)
	url := throughS3(t, func(r *http.Request) { r.Header.Del("If-None-Match") }, func(r *http.Response) error {
		if r.Request.Method == http.MethodPut && strings.HasSuffix(r.Request.URL.Path, metaKey) {
			if seen.CompareAndSwap(false, true) {
				close(release)
				<-ended
			}
		}
		return nil
	})
	p, err := openPlace(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.close() })
	var second meta
	var err2 error
	go func() {
		defer close(ended)
		<-release
		second, err2 = createMeta(t.Context(), p, options(url, id).Recipients)
	}()
	first := open(t, options(url, id))
	<-ended
	if err2 != nil || first.ID() != second.ID {
		t.Errorf("ids %s and %s, %v; want the same", first.ID(), second.ID, err2)
	}
}
