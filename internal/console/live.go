package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

const (
	// lookEvery is how often the console looks for changes while somebody watches.
	lookEvery = 250 * time.Millisecond
	// lookSlowly is the interval for pages that ask several workflows and are not urgent.
	lookSlowly = 3 * time.Second
	aliveAt    = 10 * time.Second
	writeWait  = 30 * time.Second
)

// live tells a page when to get itself anew: server-sent events whose data is a digest of what
// the page shows. A browser that reconnects gets the newest one at once.
func (v *visit) live() error {
	look, every, err := v.looks()
	if err != nil {
		return err
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	rc := http.NewResponseController(v.w)
	say := func(format string, args ...any) error {
		if err := rc.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(v.w, format, args...); err != nil {
			return err
		}
		return rc.Flush()
	}
	if say("retry: 1000\n\n") != nil {
		return nil
	}
	ctx, alive := v.r.Context(), time.Now()
	last := ""
	for tick := time.NewTicker(every); ; {
		if v.opts.API.Counts(v.who) != nil {
			tick.Stop()
			_ = say("event: out\ndata: {}\n\n")
			return nil
		}
		now, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			tick.Stop()
			return nil
		case err != nil && last != "!":
			// The page says that what it shows may be old.
			last, alive = "!", time.Now()
			err = say("event: stale\ndata: {}\n\n")
		case err != nil:
			err = nil
		case now != last:
			last, alive = now, time.Now()
			err = say("event: changed\ndata: %s\n\n", now)
		case time.Since(alive) > aliveAt:
			alive = time.Now()
			err = say("event: alive\ndata: %s\n\n", now)
		}
		if err != nil {
			tick.Stop()
			return nil
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
	}
}

// looks returns what a page follows, and how often it looks.
func (v *visit) looks() (look func(context.Context) (string, error), every time.Duration, err error) {
	q := v.r.URL.Query()
	path, every := "", lookEvery
	switch q.Get("of") {
	case "inbox":
		path = "/v1/sessions?limit=500&state=" + string(protocol.Waiting)
	case "sessions":
		path = "/v1/sessions?limit=100"
	case "approval":
		path = "/v1/approvals/" + url.PathEscape(q.Get("id"))
	case "hosts":
		path, every = "/v1/hosts?"+url.Values{"limit": {"500"}, "zone": {q.Get("zone")}}.Encode(), lookSlowly
	case "host":
		path, every = "/v1/hosts/"+url.PathEscape(q.Get("id"))+"?"+url.Values{"zone": {q.Get("zone")}}.Encode(), lookSlowly
	case "seeds":
		path, every = "/v1/seeds?limit=500", lookSlowly
	case "seed":
		path, every = "/v1/seeds/"+url.PathEscape(q.Get("id")), lookSlowly
	case "batches":
		path, every = "/v1/batches?limit=100", lookSlowly
	case "batch":
		path, every = "/v1/batches/"+url.PathEscape(q.Get("id")), viewEvery
	case "snapshots":
		path, every = "/v1/sessions/"+url.PathEscape(q.Get("id"))+"/snapshots?limit=100", lookSlowly
	case "schedule":
		path, every = "/v1/schedules/"+url.PathEscape(q.Get("id")), lookSlowly
	default:
		return nil, 0, &Problem{Status: http.StatusNotFound, Detail: "there is nothing of this name to follow"}
	}
	return func(ctx context.Context) (string, error) {
		return v.watch.look(ctx, v.who.Principal+"\n"+path, v.digest(path))
	}, every, nil
}

// digest returns a function that gives a digest of the API's answer at path.
func (v *visit) digest(path string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var raw []byte
		if err := v.ask(ctx, http.MethodGet, path, "", nil, &raw); err != nil {
			return "", err
		}
		sum := sha256.Sum256(raw)
		return hex.EncodeToString(sum[:8]), nil
	}
}

// A watch has the tabs of a person share their looks.
type watch struct {
	mu    sync.Mutex
	looks map[string]*oneLook
}

type oneLook struct {
	mu  sync.Mutex
	at  time.Time
	is  string
	err error
}

const maxLooks = 1000

// look returns what was seen in the last moment, or looks.
func (w *watch) look(ctx context.Context, at string, see func(context.Context) (string, error)) (string, error) {
	w.mu.Lock()
	if w.looks == nil || len(w.looks) > maxLooks {
		w.looks = map[string]*oneLook{}
	}
	l := w.looks[at]
	if l == nil {
		l = &oneLook{}
		w.looks[at] = l
	}
	w.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) < lookEvery {
		return l.is, l.err
	}
	is, err := see(ctx)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	l.is, l.err, l.at = is, err, time.Now()
	return l.is, l.err
}
