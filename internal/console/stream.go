package console

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// viewEvery is how often the stream of a session looks at what the session does.
const viewEvery = time.Second

// events passes on the events of a session, as the API gives them to programs. It adds the event
// changed of [visit.live], since a session changes without an entry too: when it waits for a host,
// parks or moves.
func (v *visit) events() error {
	ctx, cancel := v.whileIn()
	defer cancel()
	id := v.r.PathValue("id")
	r := v.r.Clone(ctx)
	r.URL = &url.URL{Path: "/v1/sessions/" + id + "/events", RawPath: "/v1/sessions/" + url.PathEscape(id) + "/events"}
	if from := v.r.URL.Query().Get("from"); from != "" && v.r.Header.Get("Last-Event-ID") == "" {
		r.URL.RawQuery = url.Values{"from": {from}}.Encode()
	}
	r.RequestURI = r.URL.RequestURI()
	r.Header = http.Header{"Last-Event-Id": v.r.Header["Last-Event-Id"], "Accept": {"text/event-stream"}}
	s := &eventStream{ResponseWriter: v.w, began: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() { v.changes(ctx, s, "/v1/sessions/"+url.PathEscape(id)) })
	v.opts.API.Inside(v.who).ServeHTTP(s, r)
	cancel()
	wg.Wait() // nothing may write after the handler has returned
	return nil
}

// changes writes an event to the stream s each time the API's answer at path has changed. It starts
// when the stream begins, and stops when ctx ends.
func (v *visit) changes(ctx context.Context, s *eventStream, path string) {
	select {
	case <-ctx.Done():
		return
	case <-s.began:
	}
	last := ""
	tick := time.NewTicker(viewEvery)
	defer tick.Stop()
	for {
		now, err := v.watch.look(ctx, v.who.Principal+"\n"+path, v.digest(path))
		if ctx.Err() != nil {
			return
		}
		// While the session does not answer, the page keeps what the last change showed.
		if err == nil && now != last {
			last = now
			s.between(fmt.Sprintf("event: changed\ndata: %s\n\n", now))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// An eventStream is a stream of server-sent events into which other events can be put.
type eventStream struct {
	http.ResponseWriter
	began chan struct{} // closed when the stream begins

	mu      sync.Mutex
	started bool
	tail    []byte // the last two bytes
	due     string // events that wait for the end of one
}

// Unwrap is for http.ResponseController, which sets deadlines.
func (s *eventStream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *eventStream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.ResponseWriter.Write(p)
	s.tail = append(s.tail, p[:n]...)
	s.tail = s.tail[max(0, len(s.tail)-2):]
	if !s.started && strings.HasPrefix(s.Header().Get("Content-Type"), "text/event-stream") {
		s.started = true
		close(s.began)
	}
	if err == nil {
		err = s.put()
	}
	return n, err
}

// FlushError implements what http.ResponseController looks for.
func (s *eventStream) FlushError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return http.NewResponseController(s.ResponseWriter).Flush()
}

// between puts events between those of the stream. If that fails, so does the stream's next write.
func (s *eventStream) between(events string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = events // a newer change replaces one that is not sent yet
	rc := http.NewResponseController(s.ResponseWriter)
	if s.put() == nil && rc.SetWriteDeadline(time.Now().Add(writeWait)) == nil {
		_ = rc.Flush()
	}
}

func (s *eventStream) put() error {
	if s.due == "" || !bytes.Equal(s.tail, []byte("\n\n")) {
		return nil
	}
	_, err := s.ResponseWriter.Write([]byte(s.due))
	s.due = ""
	return err
}
