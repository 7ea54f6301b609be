package api

import (
	"net/http"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/audit"
)

// Each place of the API is tried with the token that only reads.
func TestATokenThatOnlyReadsChangesNothing(t *testing.T) {
	const all, read = "a token of some length", "another one, to read"
	var strangers journal
	b := serve(t, func(o *Options) {
		o.Listen, o.Token, o.ReadToken, o.RecordStranger, o.Workspaces = "127.0.0.1:0", all, read, strangers.add, emptyFolders{}
	})
	try := func(method, path, token string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, b.server.Address()+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	reads := map[bool]int{}
	for _, to := range routes {
		path := example[to.pattern]
		if path == "" || path == "/" || strings.Contains(path, "/feed") || strings.Contains(path, "/live") || strings.Contains(path, "/exec/") && try("GET", path, read) == http.StatusForbidden {
			continue // what goes on, and what is no reading
		}
		method := methodOf(to.pattern)
		may := method == http.MethodGet
		reads[may]++
		if code := try(method, path, read); may != (code != http.StatusForbidden && code != http.StatusUnauthorized) {
			t.Errorf("%s %s with the token that reads: %d", method, path, code)
		}
	}
	if reads[true] < 5 || reads[false] < 5 {
		t.Errorf("%v places were tried", reads)
	}
	if code := try("GET", "/v1/exec/e1?host=web-1", read); code != http.StatusForbidden {
		t.Errorf("the output of a command: %d", code)
	}
	for _, wrong := range []string{"", "Bearer", all + "x", read + "x"} {
		if code := try("GET", "/v1/status", wrong); code != http.StatusUnauthorized {
			t.Errorf("token %q: %d", wrong, code)
		}
	}
	if code := try("POST", "/v1/messages?folder=x", all); code == http.StatusForbidden || code == http.StatusUnauthorized {
		t.Errorf("the whole token: %d", code)
	}
	on := strangers.take()
	if len(on) < reads[false] || on[0].Outcome != audit.Refused || !strings.Contains(on[0].Reason, "may only read") {
		t.Errorf("on record: %+v", on)
	}
}
