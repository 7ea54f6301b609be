package console

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/access"
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
	if v.r.URL.Query().Get("of") == "inbox" {
		return v.liveInbox()
	}
	look, every, err := v.looks()
	if err != nil {
		return err
	}
	p, ok := pulseOf(v)
	if !ok {
		return nil
	}
	ctx := v.r.Context()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		now, err := look(ctx)
		if ctx.Err() != nil || !p.beat(now, err != nil) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// An Inbox tells when the open approvals of sessions change.
type Inbox interface {
	// Next waits until the state has another version than after: a digest of the open approvals of
	// each session that has any. stale says that it may be old.
	Next(ctx context.Context, after uint64) (version uint64, asks map[string]string, stale bool, err error)
	// Recent returns the open approvals of all sessions, and the digests of them that Next returns. It
	// does not wait. known is false unless they are at most a few seconds old, and no change since
	// is known. Nobody changes what it returns.
	Recent() (open []protocol.Approval, asks map[string]string, known bool)
	// Stir says that a session has changed. It returns at once.
	Stir(session string)
}

// liveInbox is live for the inbox. It waits for changes, and does not look for them. A new
// page sends the digest of what it shows. The stream does not report that digest, so that the page is
// not loaded again for nothing. When a browser connects again, the digest is ignored, because the page
// may have changed.
func (v *visit) liveInbox() error {
	p, ok := pulseOf(v)
	if !ok || !p.say("id: 1\n\n") {
		return nil
	}
	if v.r.Header.Get("Last-Event-ID") == "" {
		p.last = v.r.URL.Query().Get("shows")
	}
	ctx, cancel := context.WithCancel(v.r.Context())
	defer cancel()
	type state struct{ digest, stale string }
	states := make(chan state)
	go func() {
		for after := uint64(0); ; {
			version, asks, stale, err := v.opts.Inbox.Next(ctx, after)
			if err != nil {
				return
			}
			after = version
			now := state{digest: readable(v, asks)}
			if stale {
				now.stale = "!"
			}
			select {
			case states <- now:
			case <-ctx.Done():
				return
			}
		}
	}()
	tick := time.NewTicker(countOften)
	defer tick.Stop()
	who := cmp.Or(v.who.Principal, v.opts.Owner)
	seen := v.opts.Looking != nil && who != "" && v.r.URL.Query().Get("hidden") == ""
	var now state
	for {
		select {
		case <-ctx.Done():
			return nil
		case now = <-states:
		case <-tick.C:
		}
		if seen && now.stale == "" {
			v.opts.Looking.Say(ctx, who)
		}
		if !p.beat(now.digest, now.stale != "") {
			return nil
		}
	}
}

// readable returns a digest of what those sessions ask that the person may read.
func readable(v *visit, asks map[string]string) string {
	h := sha256.New()
	for _, id := range slices.Sorted(maps.Keys(asks)) {
		if v.may(access.SessionRead, id) {
			fmt.Fprintf(h, "%s %s\n", id, asks[id])
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// countOften is how often the stream of an inbox asks whether its login still counts.
const countOften = 500 * time.Millisecond

// A pulse is the stream of one page.
type pulse struct {
	v     *visit
	rc    *http.ResponseController
	last  string
	alive time.Time
}

// pulseOf begins the stream of a page. It fails if the browser is gone.
func pulseOf(v *visit) (*pulse, bool) {
	h := v.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	p := &pulse{v: v, rc: http.NewResponseController(v.w), alive: time.Now()}
	return p, p.say("retry: 1000\n\n")
}

func (p *pulse) say(format string, args ...any) bool {
	if p.rc.SetWriteDeadline(time.Now().Add(writeWait)) != nil {
		return false
	}
	_, err := fmt.Fprintf(p.v.w, format, args...)
	return err == nil && p.rc.Flush() == nil
}

// beat sends what the page has to know: that it has changed, that it may be old, or now and then
// that nothing has happened. An empty digest is not known yet. beat reports whether the stream goes
// on.
func (p *pulse) beat(digest string, stale bool) bool {
	if p.v.opts.API.Counts(p.v.who) != nil {
		p.say("event: out\ndata: {}\n\n")
		return false
	}
	switch {
	case stale && p.last != "!":
		// The page says that what it shows may be old.
		p.last, p.alive = "!", time.Now()
		return p.say("event: stale\ndata: {}\n\n")
	case stale:
	case digest == "":
	case digest != p.last:
		p.last, p.alive = digest, time.Now()
		return p.say("event: changed\ndata: %s\n\n", digest)
	case time.Since(p.alive) > aliveAt:
		p.alive = time.Now()
		return p.say("event: alive\ndata: %s\n\n", digest)
	}
	return true
}

// looks returns what a page follows, and how often it looks.
func (v *visit) looks() (look func(context.Context) (string, error), every time.Duration, err error) {
	q := v.r.URL.Query()
	path, every := "", lookEvery
	switch q.Get("of") {
	case "sessions":
		// Stock Temporal answers ten lists a second to all together.
		path, every = "/v1/sessions?limit=100", viewEvery
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
