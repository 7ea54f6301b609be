package console

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/login"
)

// A begun is a login that has begun at the issuer. The browser keeps it in a cookie of its
// own, so that a stranger who begins many fills no store. Nobody has to sign it: whoever
// writes it can only finish what that browser began.
type begun struct {
	login.Flow
	Back string `json:"back"`
}

const (
	// beginLife is how long people may take at the issuer.
	beginLife = 10 * time.Minute
	// maxBegun bounds the cookie, of which browsers keep 4096 bytes with its name.
	maxBegun = 3800
)

func (c *Console) flowCookie(value string, life time.Duration) *http.Cookie {
	k := &http.Cookie{Name: c.opts.Cookie + "-flow", Value: value, Path: "/", HttpOnly: true, Secure: c.opts.TLS, SameSite: http.SameSiteLaxMode, MaxAge: int(life.Seconds())}
	if value == "" {
		k.MaxAge = -1
	}
	return k
}

func packBegun(b begun) (string, error) {
	raw, err := json.Marshal(b)
	if value := base64.RawURLEncoding.EncodeToString(raw); err != nil || len(value) <= maxBegun || b.Back == "/" {
		return value, err
	}
	b.Back = "/"
	return packBegun(b)
}

func (c *Console) begunBy(r *http.Request) (b begun, ok bool) {
	k, err := r.Cookie(c.opts.Cookie + "-flow")
	if err != nil {
		return b, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(k.Value)
	return b, err == nil && json.Unmarshal(raw, &b) == nil && b.State != ""
}

const loginWait = time.Minute

// How people log in, for the records.
const (
	byLink   = "a one-time link"
	byIssuer = "the issuer"
)

// A loginView is the page for people who have not logged in.
type loginView struct {
	Issuer bool // people log in at an issuer
	Links  bool
	Back   string
	Kept   *keptForm // what was sent after the end of a login
}

// A keptForm is a form that did not count because its login had ended.
type keptForm struct {
	Action string
	Fields []field
	Text   string // the field that a person typed
	Name   string // of that field
}

type field struct{ Name, Value string }

// typed are the fields that people type into.
var typed = []string{"text", "reason", "comments"}

func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
	if _, ok := c.person(r.Context()); ok {
		http.Redirect(w, r, ownPath(r.URL.Query().Get("back")), http.StatusSeeOther)
		return
	}
	c.showLogin(w, r, http.StatusOK, nil, &loginView{Back: ownPath(r.URL.Query().Get("back"))})
}

func (c *Console) showLogin(w http.ResponseWriter, r *http.Request, status int, p *Problem, v *loginView) {
	v.Issuer, v.Links = c.opts.Login != nil, c.opts.Link != nil
	if err := render(w, r, status, "login", frame{Title: "Log in", Problem: p, Body: v, Now: time.Now()}); err != nil {
		c.opts.Logger.Error("console request failed", "path", r.URL.Path, "err", err)
	}
}

// loggedOut answers a request without a login. What a form said is not lost: the page has it,
// and sends it again after the next login.
func (v *visit) loggedOut() {
	view := &loginView{Back: "/"}
	switch {
	case v.r.Method == http.MethodGet && v.r.Header.Get("Sec-Fetch-Dest") == "empty":
		http.Error(v.w, "log in again", http.StatusUnauthorized)
		return
	case v.r.Method == http.MethodGet:
		view.Back = ownPath(v.r.URL.RequestURI())
		if view.Back == "/" {
			v.showLogin(v.w, v.r, http.StatusUnauthorized, nil, view)
			return
		}
	case v.r.ParseForm() == nil:
		view.Kept = keep(v.r)
	}
	v.showLogin(v.w, v.r, http.StatusUnauthorized, &Problem{Status: http.StatusUnauthorized, Detail: "your login has ended, or you have not logged in"}, view)
}

func keep(r *http.Request) *keptForm {
	k := &keptForm{Action: r.URL.Path}
	for name, values := range r.PostForm {
		for _, value := range values {
			if k.Name == "" && slices.Contains(typed, name) && value != "" {
				k.Name, k.Text = name, value
				continue
			}
			k.Fields = append(k.Fields, field{name, value})
		}
	}
	slices.SortFunc(k.Fields, func(a, b field) int { return strings.Compare(a.Name, b.Name) })
	return k
}

// ownPath returns a path of the console, and "/" for any other address.
func ownPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") || len(to) > 2048 {
		return "/"
	}
	return to
}

func (c *Console) redeemLink(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "no-referrer")
	who, err := c.links.redeem(r.Context(), r.URL.Query().Get("token"))
	person := api.Person{Principal: who}
	if err == nil {
		if cerr := c.opts.API.Counts(person); cerr != nil {
			c.opts.API.LoggedIn(person, byLink, cerr)
			c.showLogin(w, r, http.StatusForbidden, &Problem{Status: http.StatusForbidden, Detail: cerr.Error(), Hint: "with authority: required, ctl ui needs principal in its config"}, &loginView{})
			return
		}
		err = c.logIn(r.Context(), person, time.Now())
	}
	switch {
	case errors.Is(err, errLink):
		c.opts.API.LoggedIn(api.Person{}, byLink, err)
		c.showLogin(w, r, http.StatusForbidden, &Problem{Status: http.StatusForbidden, Detail: err.Error(), Hint: "`ctl ui` prints another one"}, &loginView{})
	case err != nil:
		c.opts.Logger.Error("nobody can log in at the console", "err", err)
		c.showLogin(w, r, http.StatusServiceUnavailable, &Problem{Status: http.StatusServiceUnavailable, Detail: "nobody can log in now", Hint: "the worker's log says why"}, &loginView{})
	default:
		c.opts.API.LoggedIn(person, byLink, nil)
		http.Redirect(w, r, "/", http.StatusSeeOther)
	}
}

func (c *Console) callback() string { return c.opts.URL + "/login/callback" }

func (c *Console) beginLogin(w http.ResponseWriter, r *http.Request) {
	if c.opts.Login == nil {
		c.showLogin(w, r, http.StatusNotFound, &Problem{Status: http.StatusNotFound, Detail: "nobody logs in at an issuer here"}, &loginView{})
		return
	}
	back := ownPath(r.URL.Query().Get("back"))
	again := r.URL.Query().Get("again") != ""
	if who, ok := c.person(r.Context()); ok && !again && c.opts.API.Counts(who) == nil {
		http.Redirect(w, r, back, http.StatusSeeOther)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), loginWait)
	defer cancel()
	to, flow, err := c.opts.Login.Begin(ctx, c.callback(), again)
	if err != nil {
		c.failLogin(w, r, api.Person{}, err)
		return
	}
	value, err := packBegun(begun{flow, back})
	if err != nil {
		c.failLogin(w, r, api.Person{}, err)
		return
	}
	http.SetCookie(w, c.flowCookie(value, beginLife))
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func (c *Console) finishLogin(w http.ResponseWriter, r *http.Request) {
	flow, ok := c.begunBy(r)
	q := r.URL.Query()
	if ok {
		http.SetCookie(w, c.flowCookie("", 0))
	}
	if c.opts.Login == nil || !ok || q.Get("state") != flow.State {
		c.showLogin(w, r, http.StatusForbidden, &Problem{Status: http.StatusForbidden, Detail: "this browser began no such login, or began another one since", Hint: "log in again"}, &loginView{})
		return
	}
	if said := q.Get("error"); said != "" {
		c.opts.API.LoggedIn(api.Person{}, byIssuer, fmt.Errorf("the issuer refused it: %q", cut(said, 100)))
		c.showLogin(w, r, http.StatusForbidden, &Problem{Status: http.StatusForbidden, Detail: "the issuer refused the login: " + cut(said, 100)}, &loginView{})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), loginWait)
	defer cancel()
	who, err := c.opts.Login.Finish(ctx, c.callback(), flow.Flow, q.Get("code"))
	if err != nil {
		c.failLogin(w, r, api.Person{}, err)
		return
	}
	person := api.Person{Principal: who.Principal, Groups: who.Groups}
	if err := c.opts.API.Admits(person); err != nil {
		c.failLogin(w, r, person, err)
		return
	}
	if err := c.logIn(r.Context(), person, who.AskedAt); err != nil {
		c.failLogin(w, r, person, err)
		return
	}
	c.opts.API.LoggedIn(person, byIssuer, nil)
	c.opts.Logger.Info("login at the console", "principal", who.Principal, "groups", who.Groups)
	http.Redirect(w, r, ownPath(flow.Back), http.StatusSeeOther)
}

// failLogin answers a login that failed, of a person if the issuer has named one, and records
// it if it was refused.
func (c *Console) failLogin(w http.ResponseWriter, r *http.Request, who api.Person, err error) {
	p := &Problem{Status: http.StatusInternalServerError, Detail: "nobody can log in now", Hint: "the worker's log says why"}
	var refused *api.Error
	switch {
	case errors.As(err, &refused):
		p = &Problem{Status: http.StatusForbidden, Detail: err.Error()}
	case errors.Is(err, login.ErrRefused), errors.Is(err, login.ErrBadInput):
		p = &Problem{Status: http.StatusForbidden, Detail: err.Error()}
	case errors.Is(err, login.ErrIssuer):
		p = &Problem{Status: http.StatusBadGateway, Detail: err.Error(), Hint: "try again when the issuer answers"}
	}
	if p.Status == http.StatusForbidden {
		c.opts.API.LoggedIn(who, byIssuer, err)
	}
	c.opts.Logger.Warn("login at the console failed", "err", err)
	c.showLogin(w, r, p.Status, p, &loginView{})
}

func (v *visit) logOut() error {
	if err := v.logins.Destroy(v.r.Context()); err != nil {
		return err
	}
	return v.see("/login")
}
