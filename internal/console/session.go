package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

// shown is how many entries a page of a session begins with, and gets at a time.
const shown = 200

// A sessionPage is the page of one session.
type sessionPage struct {
	protocol.SessionView
	Cards     []card
	Entries   entryList
	Delivered []protocol.Deliverable
	Timeline  timeline
	Text      string // a message that did not count
	Key       string // of the form for messages, if it is shown again
	May       map[string]bool
}

// Can reports whether the page offers an act: the person may do it, and the state takes it.
func (p sessionPage) Can(act string) bool {
	if !p.May[act] {
		return false
	}
	switch p.State {
	case protocol.Closed, protocol.Failed:
		return false
	case protocol.Closing:
		return act == "close"
	}
	runs := p.State == protocol.Running || p.State == protocol.Waiting
	switch act {
	case "interrupt", "steer":
		return runs
	case "park":
		return p.State == protocol.Idle
	case "resume":
		return p.State == protocol.Parked || p.State == protocol.Idle
	}
	return true
}

// Offered lists those of acts that the page offers. The script replaces their buttons only when
// this has changed, so that they keep the focus.
func (p sessionPage) Offered(acts ...string) string {
	return strings.Join(slices.DeleteFunc(acts, func(act string) bool { return !p.Can(act) }), " ")
}

// Windows are those of the account, as codex reported them to the session.
func (p sessionPage) Windows() []usageWindow { return windowsIn(p.RateLimits) }

// An entryList is a part of a transcript.
type entryList struct {
	Session string
	Entries []protocol.Entry
	Earlier int64 // seq of the first entry of the part before; 0 if there is none
	Next    int64 // seq of the next entry
}

var actVerbs = map[string]access.Verb{
	"message": access.SessionMessage, "steer": access.SessionMessage, "interrupt": access.SessionInterrupt,
	"park": access.SessionPark, "resume": access.SessionPark, "close": access.SessionClose, "snapshot": access.SnapshotWrite,
}

func (v *visit) session() error { return v.showSession(nil, http.StatusOK, "") }

func (v *visit) showSession(problem *Problem, status int, text string) error {
	id := v.r.PathValue("id")
	p := sessionPage{Text: text, May: map[string]bool{}}
	if text != "" {
		p.Key = v.keyAfter(problem)
	}
	if err := v.get("/v1/sessions/"+url.PathEscape(id), &p.SessionView); err != nil {
		return err
	}
	for act, verb := range actVerbs {
		p.May[act] = v.may(verb, id)
	}
	if p.State == protocol.Waiting {
		list, err := approvals(v, id)
		if err != nil {
			return err
		}
		p.Cards, _ = v.cards(list, maxCards)
	}
	newest, err := v.newest(id)
	if err != nil {
		return err
	}
	before := newest + 1
	if n, err := strconv.ParseInt(v.r.URL.Query().Get("before"), 10, 64); err == nil && n > 0 && n < before {
		before = n
	}
	if p.Entries, err = v.part(id, max(1, before-shown), before); err != nil {
		return err
	}
	var delivered struct {
		Items []protocol.Deliverable `json:"items"`
	}
	if err := v.get("/v1/sessions/"+url.PathEscape(id)+"/delivered?limit=100", &delivered); err == nil {
		p.Delivered = delivered.Items
	}
	p.Timeline = timelineOf(p.Entries.Entries)
	live := ""
	if before == newest+1 {
		live = fmt.Sprintf("/sessions/%s/events", url.PathEscape(id))
	}
	return v.showWith(problem, status, "session", "Session "+p.ID, "sessions", live, p)
}

// newest returns the seq of a session's newest entry, or 0. Seqs have no gaps, so a few looks
// find it in a transcript of any length; fewer if the session was looked at before.
func (v *visit) newest(id string) (int64, error) {
	// page returns how many entries a page from seq on has, at most limit, and whether another page
	// follows: the API cuts a page with long texts.
	page := func(seq int64, limit int) (n int64, more bool, err error) {
		var got struct {
			Items []struct {
				Seq int64 `json:"seq"`
			} `json:"items"`
			Cursor string `json:"cursor"`
		}
		err = v.get(fmt.Sprintf("/v1/sessions/%s/entries?from=%d&limit=%d", url.PathEscape(id), seq, limit), &got)
		return int64(len(got.Items)), got.Cursor != "", err
	}
	// after returns how many entries there are from seq on, 1 at most.
	after := func(seq int64) (int64, error) {
		n, _, err := page(seq, 1)
		return n, err
	}
	low := v.seqs.of(id)
	if low > 1 { // what did not happen in the end may have been taken back
		switch n, err := after(low); {
		case err != nil:
			return 0, err
		case n == 0:
			low = 0
		}
	}
	high := low
	for step := int64(shown); ; step *= 4 {
		high += step
		n, err := after(high)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			break
		}
		low = high
	}
	for high-low > shown {
		mid := (low + high) / 2
		switch n, err := after(mid); {
		case err != nil:
			return 0, err
		case n > 0:
			low = mid
		default:
			high = mid
		}
	}
	for more := true; more; {
		n, follows, err := page(low+1, shown)
		if err != nil {
			return 0, err
		}
		low, more = low+n, follows && n > 0
	}
	v.seqs.keep(id, low)
	return low, nil
}

// seqs remembers how long transcripts were.
type seqs struct {
	mu    sync.Mutex
	known map[string]int64
}

const maxSeqs = 10_000

func (s *seqs) of(id string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[id]
}

func (s *seqs) keep(id string, seq int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxSeqs {
		s.known = map[string]int64{}
	}
	s.known[id] = seq
}

// part reads the entries of [from, before). A page has less if they are long.
func (v *visit) part(id string, from, before int64) (entryList, error) {
	l := entryList{Session: id, Next: from}
	var page struct {
		Items []protocol.Entry `json:"items"`
	}
	if before > from {
		err := v.get(fmt.Sprintf("/v1/sessions/%s/entries?from=%d&limit=%d", url.PathEscape(id), from, before-from), &page)
		if err != nil {
			return l, err
		}
	}
	l.Entries = page.Items
	if n := len(l.Entries); n > 0 {
		l.Next = l.Entries[n-1].Seq + 1
	}
	if from > 1 {
		l.Earlier = from
	}
	return l, nil
}

// entries is a part of a transcript on a page of its own. The script takes its elements.
func (v *visit) entries() error {
	from, err := strconv.ParseInt(v.r.URL.Query().Get("from"), 10, 64)
	if err != nil || from < 1 {
		return &Problem{Status: http.StatusBadRequest, Detail: "from is not the number of an entry"}
	}
	l, err := v.part(v.r.PathValue("id"), from, from+shown)
	if err != nil {
		return err
	}
	return v.show(http.StatusOK, "entries", "Session "+l.Session, "sessions", "", l)
}

// countEvery is how often a stream asks whether its login still counts.
var countEvery = 10 * time.Second

// whileIn returns a context that ends soon after the login does.
func (v *visit) whileIn() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(v.r.Context())
	go func() {
		defer cancel()
		for t := time.NewTicker(countEvery); ; {
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-t.C:
				if v.opts.API.Counts(v.who) != nil {
					t.Stop()
					return
				}
			}
		}
	}()
	return ctx, cancel
}

// delivered passes on a file. Browsers keep it and do not show it.
func (v *visit) delivered() error {
	id, call := v.r.PathValue("id"), v.r.PathValue("call")
	r := v.r.Clone(v.r.Context())
	r.URL = &url.URL{Path: "/v1/sessions/" + id + "/delivered/" + call}
	r.RequestURI = r.URL.RequestURI()
	r.Header = http.Header{}
	v.opts.API.Inside(v.who).ServeHTTP(v.w, r)
	return nil
}

// tell commands a session, and leads back to its page. A message that does not count is not
// lost.
func (v *visit) tell() error {
	id, act := v.r.PathValue("id"), v.r.PathValue("act")
	f := v.r.PostForm
	path, body := "/v1/sessions/"+url.PathEscape(id)+"/"+act, map[string]any{}
	switch act {
	case "message", "steer":
		path = "/v1/sessions/" + url.PathEscape(id) + "/messages"
		body["text"] = f.Get("text")
		if f.Get("mode") == "steer" {
			body["mode"] = "steer"
		}
		if strings.TrimSpace(f.Get("text")) == "" {
			return v.showSession(&Problem{Status: http.StatusBadRequest, Detail: "the message is empty"}, http.StatusBadRequest, "")
		}
	case "interrupt":
		if reason := f.Get("reason"); reason != "" {
			body["reason"] = reason
		}
	case "park":
	case "resume":
		if host := strings.TrimSpace(f.Get("host")); host != "" {
			body["host"] = host
		}
	case "close":
		if f.Get("discard") != "" {
			body["discard"] = true
		}
	case "snapshot":
		path, body = "/v1/sessions/"+url.PathEscape(id)+"/snapshots", nil
	default:
		return v.nowhere()
	}
	var sent any
	if body != nil {
		sent = body
	}
	err := v.ask(v.r.Context(), http.MethodPost, path, v.formKey(), sent, nil)
	if err == nil {
		to := "/sessions/" + url.PathEscape(id)
		if act == "snapshot" && f.Get("back") == "snapshots" {
			to += "/snapshots"
		}
		return v.see(to)
	}
	if p, told := err.(*Problem); told && p.Status != http.StatusUnauthorized && p.Status != http.StatusNotFound {
		return v.showSession(p, p.Status, f.Get("text"))
	}
	return err
}
