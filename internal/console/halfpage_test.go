package console

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

// unpacked returns what a browser can read of an answer so far.
func unpacked(w *httptest.ResponseRecorder) string {
	if w.Header().Get("Content-Encoding") != "gzip" {
		return w.Body.String()
	}
	z, err := gzip.NewReader(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		return err.Error()
	}
	text, _ := io.ReadAll(z) // an answer that goes on has no end
	return string(text)
}

// A browser that opens the inbox gets its beginning, which names the files of the page, before the
// API is asked for the cards. The script gets the page as a whole, with its status.
func TestTheInboxBeginsBeforeItsCards(t *testing.T) {
	for name, c := range map[string]struct {
		header  []string
		answers map[string]string
		early   bool
		status  int
		has     string
	}{
		"opened":                   {[]string{"Sec-Fetch-Dest", "document"}, manyApprovals(3), true, 200, `class="card `},
		"opened, compressed":       {[]string{"Sec-Fetch-Dest", "document", "Accept-Encoding", "gzip"}, manyApprovals(3), true, 200, `class="card `},
		"opened, and it fails":     {[]string{"Sec-Fetch-Dest", "document", "Accept-Encoding", "gzip"}, nil, true, 200, `role="alert"><strong>nothing at GET /v1/approvals`},
		"by the script":            {[]string{"Sec-Fetch-Dest", "empty", "Accept-Encoding", "gzip"}, manyApprovals(3), false, 200, `class="card `},
		"by the script, and fails": {[]string{"Sec-Fetch-Dest", "empty"}, nil, false, 404, `role="alert"><strong>nothing at GET /v1/approvals`},
		"by a program, and fails":  {nil, nil, false, 404, `role="alert"><strong>nothing at GET /v1/approvals`},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeAPI{answers: c.answers}
			console := newConsole(f)
			r := httptest.NewRequest("GET", "http://"+host+"/", nil)
			r.AddCookie(&http.Cookie{Name: "c", Value: loggedIn(t, console, "ann")})
			for i := 0; i < len(c.header); i += 2 {
				r.Header.Set(c.header[i], c.header[i+1])
			}
			w := httptest.NewRecorder()
			before := ""
			f.asked = func(at string) {
				if at == "GET /v1/approvals" {
					before = unpacked(w)
				}
			}
			console.ServeHTTP(w, r)
			for _, file := range []string{"console.css", "console.js"} {
				if strings.Contains(before, assetPaths[file]) != c.early {
					t.Errorf("before the API was asked, the browser had %q", before)
				}
			}
			page := unpacked(w)
			if w.Code != c.status || w.Flushed != c.early || !strings.HasPrefix(page, before) || !strings.Contains(page, c.has) {
				t.Errorf("status %d, sent early %t: %s", w.Code, w.Flushed, page)
			}
			for _, once := range []string{"<!doctype html>", "<main", "</main>", "</html>"} {
				if strings.Count(page, once) != 1 {
					t.Errorf("the page has %s %d times", once, strings.Count(page, once))
				}
			}
		})
	}
}

// A twiceInbox has two states, one after the other.
type twiceInbox [2]map[string]string

func (b twiceInbox) Next(ctx context.Context, after uint64) (uint64, map[string]string, bool, error) {
	if after < 2 {
		return after + 1, b[after], false, nil
	}
	<-ctx.Done()
	return 0, nil, false, ctx.Err()
}

func (b twiceInbox) Recent() ([]protocol.Approval, map[string]string, bool) {
	return nil, b[0], b[0] != nil
}

func (twiceInbox) Stir(string) {}

// The inbox that was just opened is not told to get itself anew for what it shows. It is told what
// comes then, and also what it shows if it connects again or lacks a part.
func TestTheInboxIsMadeAnewOnlyForChanges(t *testing.T) {
	asks := map[string]string{"session-0": "a", "session-1": "b"}
	more := map[string]string{"session-0": "a", "session-1": "c"}
	c := newConsole(&fakeAPI{answers: manyApprovals(2)})
	c.opts.Inbox = twiceInbox{asks, more}
	cookie := loggedIn(t, c, "ann")
	server := httptest.NewUnstartedServer(c)
	defer server.Close()
	c.opts.Hosts = []string{server.Listener.Addr().String()}
	server.Start()
	// told returns the first n digests that a stream tells.
	told := func(n int, query string, header ...string) (digests []string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/live?of=inbox"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.AddCookie(&http.Cookie{Name: "c", Value: cookie})
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		got, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		for lines := bufio.NewScanner(got.Body); len(digests) < n && lines.Scan(); {
			if digest, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				digests = append(digests, digest)
			}
		}
		return digests
	}
	all := told(2, "")
	if len(all) != 2 || all[0] == all[1] {
		t.Fatalf("a page that says nothing is told %q", all)
	}
	shown := func(c *Console, cookie string) string {
		r := httptest.NewRequest("GET", server.URL+"/", nil)
		r.AddCookie(&http.Cookie{Name: "c", Value: cookie})
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		if m := regexp.MustCompile(`data-shows="([^"]*)"`).FindStringSubmatch(w.Body.String()); m != nil {
			return m[1]
		}
		return ""
	}
	if got := shown(c, cookie); got != all[0] {
		t.Fatalf("the page says that it shows %q, want %q", got, all[0])
	}
	if got := told(1, "&shows="+all[0]); !slices.Equal(got, all[1:]) {
		t.Errorf("a page that shows it is told %q, want %q", got, all[1:])
	}
	if got := told(1, "&shows="+all[0], "Last-Event-ID", "1"); !slices.Equal(got, all[:1]) {
		t.Errorf("a page that connects again is told %q, want %q first", got, all[:1])
	}
	asking := newConsole(&fakeAPI{answers: manyApprovals(2)}) // the API, for what its inbox has
	asking.opts.Inbox = twiceInbox{nil, more}
	asker := loggedIn(t, asking, "ann")
	asking.opts.Hosts = c.opts.Hosts
	if got := shown(asking, asker); got != "" {
		t.Errorf("a page whose approvals are from the API says that it shows %q", got)
	}
}
