package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"html/template"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const (
	loginPath = "/.fairlead/login"
	codecPath = "/codec"
)

// A guard stands before the UI. It refuses requests for other names of this machine than
// its own, so that no web page gets here by a name that resolves to loopback; requests that
// other web pages send; and, with a login, requests without a session.
type guard struct {
	hosts  []string // values of the Host header; nil: any
	login  *login   // nil: none
	cookie string   // the name of the session's cookie
	codec  http.Handler
	token  string // opens codec without a session; empty: nothing does
	next   http.Handler
}

// ownHosts are the values that the Host header of our own pages can have.
func ownHosts(ip string, port int) []string {
	var hosts []string
	for _, name := range []string{ip, "127.0.0.1", "::1", "localhost"} {
		if host := net.JoinHostPort(name, strconv.Itoa(port)); !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
		if port == 80 {
			hosts = append(hosts, name)
		}
	}
	return hosts
}

// cookieName has the port, because a browser sends the cookies of all ports of a host to each.
func cookieName(port int) string { return "fairlead-" + strconv.Itoa(port) }

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.hosts != nil && !slices.Contains(g.hosts, r.Host) {
		http.Error(w, "this server is reached as "+strings.Join(g.hosts, ", ")+" only", http.StatusMisdirectedRequest)
		return
	}
	codec := g.codec != nil && strings.HasPrefix(r.URL.Path, codecPath+"/")
	if codec && g.shows(r) {
		g.codec.ServeHTTP(w, r)
		return
	}
	if foreign(r) {
		http.Error(w, "pages of other origins may not use this server", http.StatusForbidden)
		return
	}
	if g.login != nil {
		if r.URL.Path == loginPath {
			g.logIn(w, r)
			return
		}
		if c, err := r.Cookie(g.cookie); err != nil || !g.login.knows(c.Value) {
			g.refuse(w, r, "You are not logged in.")
			return
		}
	}
	if codec {
		g.codec.ServeHTTP(w, r)
		return
	}
	g.next.ServeHTTP(w, r)
}

// shows reports whether a request has the bearer token. A browser does not send it unless a
// page has it.
func (g *guard) shows(r *http.Request) bool {
	shown := sha256.Sum256([]byte(r.Header.Get("Authorization")))
	want := sha256.Sum256([]byte("Bearer " + g.token))
	return g.token != "" && subtle.ConstantTimeCompare(shown[:], want[:]) == 1
}

// foreign reports whether a request comes from a page of another origin. Such a page may only
// lead here, as a link does, which reads and changes nothing.
func foreign(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return true
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	return !read || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

func (g *guard) logIn(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		http.Error(w, "a login link is opened with GET", http.StatusMethodNotAllowed)
		return
	}
	cookie, ok := g.login.redeem(r.URL.Query().Get("token"))
	if !ok {
		g.refuse(w, r, "This link was used before, or it is too old.")
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: g.cookie, Value: cookie, Path: "/", MaxAge: int(sessionLife.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	// A redirect would still count as coming from wherever the link was, and the browser
	// would send no cookie.
	g.page(w, http.StatusOK, page{Title: "Logged in", Text: "You are logged in.", Go: "/"})
}

func (g *guard) refuse(w http.ResponseWriter, r *http.Request, why string) {
	const what = "Run `ctl ui --temporal` on this machine, as the user who ran `ctl up`. It gives you a link."
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Error(w, why+" "+what, http.StatusUnauthorized)
		return
	}
	g.page(w, http.StatusUnauthorized, page{Title: "Log in", Text: why + " " + what})
}

type page struct {
	Title, Text string
	Go          string // where to go on to at once
}

var pageText = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title>
{{with .Go}}<meta http-equiv="refresh" content="0; url={{.}}">{{end}}</head>
<body><p>{{.Text}}</p>{{with .Go}}<p><a href="{{.}}">Go on</a></p>{{end}}</body></html>
`))

func (g *guard) page(w http.ResponseWriter, status int, p page) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	w.WriteHeader(status)
	_ = pageText.Execute(w, p) // the reader has gone
}
