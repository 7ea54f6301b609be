package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
)

// gitHub is a stand-in for GitHub's REST API, as far as its documentation says how comments of issues
// are listed and made: the headers that a client must send, pages with the header Link, and what it
// answers.
type gitHub struct {
	*httptest.Server
	mu       sync.Mutex
	comments map[string][]map[string]any // by path
	// posted is called when a comment is there and nobody has been told. If it returns false, the
	// connection is cut.
	posted func() bool
}

const gitHubToken = "github_pat_of_the_test"

func newGitHub(t *testing.T) *gitHub {
	t.Helper()
	g := &gitHub{comments: map[string][]map[string]any{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /repos/{owner}/{repo}/issues/{number}/comments", g.list)
	mux.HandleFunc("POST /repos/{owner}/{repo}/issues/{number}/comments", g.create)
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		switch {
		case r.Header.Get("User-Agent") == "":
			g.fail(w, http.StatusForbidden, "Request forbidden by administrative rules. Please make sure your request has a User-Agent header.")
		case r.Header.Get("Authorization") != "Bearer "+gitHubToken:
			g.fail(w, http.StatusUnauthorized, "Bad credentials")
		default:
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(g.Close)
	return g
}

func (g *gitHub) fail(w http.ResponseWriter, status int, message string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": message, "documentation_url": "https://docs.github.com/rest"})
}

// list gives 30 comments in a page unless per_page says otherwise, at most 100.
func (g *gitHub) list(w http.ResponseWriter, r *http.Request) {
	size, page := 30, 1
	if n, err := strconv.Atoi(r.URL.Query().Get("per_page")); err == nil {
		size = min(n, 100)
	}
	if n, err := strconv.Atoi(r.URL.Query().Get("page")); err == nil {
		page = n
	}
	g.mu.Lock()
	all := g.comments[r.URL.Path]
	g.mu.Unlock()
	from := min((page-1)*size, len(all))
	to := min(from+size, len(all))
	if to < len(all) {
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?per_page=%d&page=%d>; rel="next"`, g.URL, r.URL.Path, size, page+1))
	}
	_ = json.NewEncoder(w).Encode(append([]map[string]any{}, all[from:to]...))
}

func (g *gitHub) create(w http.ResponseWriter, r *http.Request) {
	var in struct{ Body string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Body == "" || len([]rune(in.Body)) > 65_536 {
		g.fail(w, http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	g.mu.Lock()
	n := len(g.comments[r.URL.Path]) + 1
	c := map[string]any{"id": 1_000 + n, "body": in.Body, "user": map[string]any{"login": "fairlead[bot]", "type": "Bot"}, "created_at": "2026-11-29T12:06:00Z"}
	g.comments[r.URL.Path] = append(g.comments[r.URL.Path], c)
	posted := g.posted
	g.mu.Unlock()
	if posted != nil && !posted() {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(c)
}

// onPost sets what is called when a comment is there.
func (g *gitHub) onPost(do func() bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.posted = do
}

// say adds a comment of somebody else.
func (g *gitHub) say(issue int, text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := commentsOf(issue)
	g.comments[at] = append(g.comments[at], map[string]any{"id": len(g.comments[at]), "body": text, "user": map[string]any{"login": "octocat"}})
}

// of returns the texts of the program's comments.
func (g *gitHub) of(issue int) (texts []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.comments[commentsOf(issue)] {
		if c["user"].(map[string]any)["login"] == "fairlead[bot]" {
			texts = append(texts, c["body"].(string))
		}
	}
	return texts
}

func commentsOf(issue int) string {
	return fmt.Sprintf("/repos/octo-team/app/issues/%d/comments", issue)
}
