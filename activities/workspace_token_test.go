package activities

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/internal/protocol"
)

// greedy returns a server that asks every client for a login, and keeps the logins that
// it gets.
func greedy(t *testing.T) (url string, told func() (asked int, logins []string)) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		if a := r.Header.Get("Authorization"); a != "" {
			all = append(all, a)
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="greedy"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() (int, []string) {
		mu.Lock()
		defer mu.Unlock()
		return asked, all
	}
}

// A token goes only to the server for which it was given. Neither a session that names
// another server nor a server that redirects git can get it sent elsewhere.
func TestATokenReachesItsOwnServerAlone(t *testing.T) {
	f := newForge(t)
	other, told := greedy(t)
	sends := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, token, _ := r.BasicAuth(); token != theToken {
			w.Header().Set("WWW-Authenticate", `Basic realm="forge"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, other+r.URL.RequestURI(), http.StatusFound)
	}))
	t.Cleanup(sends.Close)
	b := newBed(t, readyHost(t))
	elsewhere := &forge{t: t, server: sends}
	for what, c := range map[string]struct {
		repo workspaces.Repo
		says string
	}{
		"another server": {workspaces.Repo{URL: other + "/project.git", Token: b.token(f)}, "is for http://127.0.0.1:"},
		"a redirect":     {workspaces.Repo{URL: elsewhere.url("project.git"), Token: b.token(elsewhere)}, "clone http://127.0.0.1:"},
	} {
		in := b.inWorkspace("astray", workspaces.Workspace{Repo: &c.repo})
		_, err := b.prepare(in)
		if p := workspaces.Told(t.Context(), "prepare", err); err == nil || p.Kind != protocol.ErrTypeWorkspace || !strings.Contains(p.Message, c.says) || strings.Contains(p.Message, theToken) {
			t.Errorf("%s: %+v", what, p)
		}
	}
	// The redirected git has asked the other server.
	if asked, logins := told(); asked == 0 || len(logins) > 0 {
		t.Errorf("the other server was asked %d times, and told %q", asked, logins)
	}
}

// A session's own token belongs to no other session, and is deleted with it.
func TestATokenGoesWithItsSession(t *testing.T) {
	f := newForge(t)
	b := newBed(t, readyHost(t))
	own := func(session string) string {
		t.Helper()
		blob, err := workspaces.StoreToken(t.Context(), b.store, session, "", f.url("project.git"), theToken, "")
		if err != nil {
			t.Fatal(err)
		}
		return blob
	}
	there := func() string {
		t.Helper()
		all, err := b.store.List(t.Context(), workspaces.TokensPrefix+"/")
		if err != nil {
			t.Fatal(err)
		}
		var owners []string
		for _, info := range all {
			owners = append(owners, workspaces.TokenBlob.FindStringSubmatch(info.Key)[1])
		}
		slices.Sort(owners)
		return strings.Join(owners, " ")
	}
	shared := b.token(f)
	if ended, again := own("ended"), own("ended"); shared == ended || ended != again {
		t.Error("names of tokens are not their owner's and their content's")
	}
	if _, err := b.prepare(b.inWorkspace("thief", workspaces.Workspace{Repo: &workspaces.Repo{URL: f.url("project.git"), Token: own("ended")}})); err == nil || !strings.Contains(err.Error(), "belongs to session ended") {
		t.Errorf("another's token: %v", err)
	}
	in := b.inWorkspace("owner", workspaces.Workspace{Repo: &workspaces.Repo{URL: f.url("project.git"), Token: own("owner")}})
	out, err := b.prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	own("runs")
	if got := there(); got != "ended owner runs" {
		t.Errorf("there are tokens of %q", got)
	}
	b.closes(in, out.Layout)
	if got := there(); strings.Contains(got, "owner") || !strings.Contains(got, "ended") {
		t.Errorf("after the session has ended there are tokens of %q", got)
	}

	// Maintenance finds the token that a session left which ended on another host.
	s := b.set.site
	s.AskSession = func(_ context.Context, session string) (inquiry.SessionNow, error) {
		return inquiry.SessionNow{Runs: session == "runs"}, nil
	}
	now := s.Now()
	for _, c := range []struct {
		after time.Duration
		in    protocol.PruneSnapshotsInput
		ended bool
	}{{0, protocol.PruneSnapshotsInput{}, true}, {workspaces.TokenWaits + time.Minute, protocol.PruneSnapshotsInput{DryRun: true}, true}, {workspaces.TokenWaits + time.Minute, protocol.PruneSnapshotsInput{}, false}} {
		s.Deps.Now = func() time.Time { return now.Add(c.after) }
		if err := workspaces.PruneTokens(t.Context(), s, c.in); err != nil || strings.Contains(there(), "ended") != c.ended || !strings.Contains(there(), "runs") {
			t.Errorf("%v later, pruned with %+v: %q, %v", c.after, c.in, there(), err)
		}
	}
	if _, err := b.store.Get(t.Context(), shared); err != nil {
		t.Errorf("what several share, which goes with its folder: %v", err)
	}
}
