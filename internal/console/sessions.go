package console

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
)

func newKey() string { return rand.Text() }

// formKey is the key of the form that was sent. A second click has the same one.
func (v *visit) formKey() string { return cut(v.r.PostForm.Get("key"), 100) }

// keyAfter is the key of a form that is shown again because of a problem. If the request has perhaps been
// carried out, it is the same one, so that the same click again has the same effect. The API refuses
// other content with the same key, and then the form gets a new one.
func (v *visit) keyAfter(p *Problem) string {
	if p != nil && (p.Status >= http.StatusInternalServerError || p.Status == http.StatusTooManyRequests) {
		return cmp.Or(v.formKey(), newKey())
	}
	return newKey()
}

type sessionList struct {
	Sessions []protocol.SessionView
	States   []string
	State    string
	Host     string
	Find     string
	Archived bool
	Next     string // query of the next page
}

// listed is how many sessions one page has.
const listed = 100

// sessions lists sessions: those that wait for a person first, then the newest.
func (v *visit) sessions() error {
	q := v.r.URL.Query()
	find := strings.TrimSpace(q.Get("find"))
	if protocol.NamePattern.MatchString(find) && q.Get("go") != "" {
		return v.see("/sessions/" + find)
	}
	list := sessionList{States: stateWords, State: q.Get("state"), Host: q.Get("host"), Find: find, Archived: q.Get("archived") != ""}
	type page struct {
		Items  []protocol.SessionView `json:"items"`
		Cursor string                 `json:"cursor"`
	}
	filter := url.Values{"limit": {strconv.Itoa(listed)}}
	for name, value := range map[string]string{"state": list.State, "host": list.Host} {
		if value != "" {
			filter.Set(name, value)
		}
	}
	if list.Archived {
		filter.Set("archived", "true")
	}
	read := func(f url.Values) (p page, err error) { return p, v.get("/v1/sessions?"+f.Encode(), &p) }
	var first []protocol.SessionView
	if list.State == "" && q.Get("cursor") == "" {
		for _, state := range []string{string(protocol.Waiting), string(protocol.Interrupted)} {
			f := url.Values{"limit": {strconv.Itoa(listed)}, "state": {state}}
			if list.Host != "" {
				f.Set("host", list.Host)
			}
			p, err := read(f)
			if err != nil {
				return err
			}
			first = append(first, p.Items...)
		}
	}
	if c := q.Get("cursor"); c != "" {
		filter.Set("cursor", c)
	}
	rest, err := read(filter)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, s := range slices.Concat(first, rest.Items) {
		if !seen[s.ID] && list.matches(s) {
			seen[s.ID] = true
			list.Sessions = append(list.Sessions, s)
		}
	}
	slices.SortStableFunc(list.Sessions, func(a, b protocol.SessionView) int {
		return cmp.Compare(rank(a.State), rank(b.State))
	})
	if rest.Cursor != "" {
		next := v.r.URL.Query()
		next.Set("cursor", rest.Cursor)
		list.Next = "/sessions?" + next.Encode()
	}
	return v.show(http.StatusOK, "sessions", "Sessions", "sessions", "/live?of=sessions", list)
}

// matches reports whether a session has the text that is looked for.
func (l *sessionList) matches(s protocol.SessionView) bool {
	if l.Find == "" {
		return true
	}
	in := strings.ToLower(strings.Join([]string{s.ID, s.Name, s.Host, s.Seed, s.Waits, s.Origin, string(s.State)}, "\n"))
	for word := range strings.FieldsSeq(strings.ToLower(l.Find)) {
		if !strings.Contains(in, word) {
			return false
		}
	}
	return true
}

func rank(s protocol.SessionStatus) int {
	if s == protocol.Waiting || s == protocol.Interrupted {
		return 0
	}
	return 1
}

var stateWords = []string{"waiting", "running", "idle", "queued", "preparing", "starting", "parked", "resuming", "interrupted", "closing", "closed", "failed"}
