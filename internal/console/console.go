package console

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/login"
	"fairlead.dev/fairlead/internal/passkey"
	"fairlead.dev/fairlead/internal/protocol"
)

// An API answers requests for people; *[api.Server] implements it.
type API interface {
	Inside(p api.Person) http.Handler
	May(ctx context.Context, p api.Person, verb access.Verb, session string) bool
	Counts(p api.Person) error
	// Admits is Counts for somebody whom the issuer has just named.
	Admits(p api.Person) error
	// LoggedIn records a login or, with err, that it was refused.
	LoggedIn(p api.Person, how string, err error)
	// Recorded puts on record what the console did for a person or, with err, that it was refused.
	Recorded(p api.Person, verb, object, reason string, err error)
}

// Options configure a Console.
type Options struct {
	API   API
	Inbox Inbox
	Store Blobs
	// Hosts are the names and addresses that requests may be for, with ports.
	Hosts []string
	// URL is the address that people open, such as https://fairlead.example.com.
	URL string
	// Cookie is the name of the cookie. Over TLS it begins with __Host-.
	Cookie string
	// TLS says that browsers reach the console by https.
	TLS bool
	// Link returns the key of one-time links; nil means that there are none.
	Link func() ([]byte, error)
	// Login lets people log in at an issuer; nil means that nobody does.
	Login *login.Browser
	// Lifetime is how long a login counts; default 12 h.
	Lifetime time.Duration
	// Passkeys keep people's passkeys; nil means that there are none.
	Passkeys *passkey.Book
	// Challenge returns the challenge for a decision, which a passkey signs.
	Challenge func(protocol.Approval, protocol.Decide) ([]byte, error)
	// Looking is told who has the inbox open; nil means that nobody asks.
	Looking *Looking
	// Owner is whom notification rules name where people have no principals.
	Owner string
	// Slots returns what a zone had in the last hours, the oldest first; nil means that nobody knows.
	Slots  func(zone string) []SlotSample
	Logger *slog.Logger
}

// A Console serves the pages.
type Console struct {
	opts   Options
	logins *scs.SessionManager
	links  *links
	watch  *watch
	seqs   seqs
	mux    *http.ServeMux
	guard  *http.CrossOriginProtection

	site     passkey.Site // where passkeys count
	siteless error        // why none do
}

// maxForm bounds what a form may send, in bytes. A prompt is the longest part.
const maxForm = 8 << 20

// formTime is how long a form may take to arrive.
const formTime = 2 * time.Minute

// New returns a Console.
func New(o Options) *Console {
	if o.Lifetime <= 0 {
		o.Lifetime = 12 * time.Hour
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Console{opts: o, mux: http.NewServeMux(), guard: http.NewCrossOriginProtection()}
	c.logins = newLogins(o)
	c.links = &links{key: o.Link, store: o.Store, now: time.Now}
	c.watch = &watch{}
	c.site, c.siteless = passkey.SiteOf(o.URL)
	templates()
	c.routes()
	return c
}

func (c *Console) routes() {
	open := func(pattern string, serve http.HandlerFunc) { c.mux.HandleFunc(pattern, serve) }
	page := func(pattern string, serve func(*visit) error) { c.mux.HandleFunc(pattern, c.visited(serve)) }
	open("GET /assets/{name}", serveAsset)
	open("GET /login", c.loginPage)
	open("GET /login/link", c.redeemLink)
	open("GET /login/start", c.beginLogin)
	open("GET /login/callback", c.finishLogin)
	page("POST /logout", (*visit).logOut)
	page("GET /{$}", (*visit).inbox)
	page("GET /live", (*visit).live)
	page("GET /approvals/{id}", (*visit).approval)
	page("POST /approvals/{id}/decision", (*visit).decide)
	page("POST /approvals/{id}/passkey", ofPasskeys(passkeyVisit.ask))
	page("GET /sessions", (*visit).sessions)
	page("GET /sessions/new", aSession.form())
	page("POST /sessions", (*visit).startSession)
	page("GET /sessions/{id}", (*visit).session)
	page("GET /sessions/{id}/entries", (*visit).entries)
	page("GET /sessions/{id}/events", (*visit).events)
	page("GET /sessions/{id}/snapshots", (*visit).snapshots)
	page("GET /sessions/{id}/fork", (*visit).fork)
	page("POST /sessions/{id}/fork", (*visit).fork)
	page("GET /sessions/{id}/snapshots/{snapshot}/restore", (*visit).fork)
	page("POST /sessions/{id}/snapshots/{snapshot}/restore", (*visit).fork)
	page("GET /sessions/{id}/delivered/{call}", (*visit).delivered)
	page("POST /sessions/{id}/{act}", (*visit).tell)
	page("GET /batches", (*visit).batches)
	page("GET /batches/new", aBatch.form("window", "20"))
	page("POST /batches", (*visit).startBatch)
	page("GET /batches/{id}", (*visit).batch)
	page("GET /batches/{id}/cancel", (*visit).cancelBatch)
	page("POST /batches/{id}/cancel", (*visit).cancelBatch)
	page("GET /schedules", (*visit).schedules)
	page("GET /schedules/new", aSchedule.form("how", "cron", "overlap", "skip", "tz", "UTC"))
	page("POST /schedules", (*visit).createSchedule)
	page("GET /schedules/{name}", (*visit).schedule)
	page("GET /schedules/{name}/{act}", (*visit).scheduleAct)
	page("POST /schedules/{name}/{act}", (*visit).scheduleAct)
	page("GET /hosts", (*visit).hosts)
	page("GET /hosts/{name}", (*visit).host)
	page("GET /hosts/{name}/{act}", (*visit).hostAct)
	page("POST /hosts/{name}/{act}", (*visit).hostAct)
	page("GET /seeds", (*visit).seeds)
	page("GET /seeds/{name}", (*visit).seed)
	page("GET /audit", (*visit).audit)
	page("GET /passkeys", ofPasskeys(passkeyVisit.list))
	page("POST /passkeys", ofPasskeys(passkeyVisit.add))
	page("GET /passkeys/remove", ofPasskeys(passkeyVisit.remove))
	page("POST /passkeys/remove", ofPasskeys(passkeyVisit.remove))
	page("/", (*visit).nowhere)
}

// policy is the Content-Security-Policy of all pages. The script gets pages as documents and
// moves their elements, so that no text ever becomes HTML in the browser.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';" +
	" base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
	if c.opts.TLS {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	if !slices.Contains(c.opts.Hosts, r.Host) {
		c.problem(w, r, nil, &Problem{Status: http.StatusForbidden, Detail: "this address is not one of the console", Hint: "open " + c.opts.URL})
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		// The protection passes requests without both headers, which no browser of today sends.
		err := c.guard.Check(r)
		if err == nil && r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" {
			err = errors.New("the request does not say which page it comes from")
		}
		if err != nil {
			c.problem(w, r, nil, &Problem{Status: http.StatusForbidden, Detail: "this form comes from another page: " + err.Error()})
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(formTime)) // a test's recorder has none
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	}
	if strings.HasPrefix(r.URL.Path, "/assets/") {
		c.mux.ServeHTTP(w, r)
		return
	}
	c.logins.LoadAndSave(c.mux).ServeHTTP(w, r)
}

// A visit is one request of somebody who has logged in.
type visit struct {
	*Console
	w   http.ResponseWriter
	r   *http.Request
	who api.Person
}

// visited returns the handler of a page for people who have logged in.
func (c *Console) visited(serve func(*visit) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, ok := c.person(r.Context())
		if ok {
			ok = c.opts.API.Counts(who) == nil
		}
		v := &visit{c, w, r, who}
		if !ok {
			v.loggedOut()
			return
		}
		if r.Method == http.MethodPost {
			if err := r.ParseForm(); err != nil {
				c.problem(w, r, v, &Problem{Status: http.StatusBadRequest, Detail: "the form cannot be read", Hint: "a form has 8 MiB at most"})
				return
			}
		}
		if err := serve(v); err != nil {
			c.fail(v, err)
		}
		if h, ok := v.w.(*halfPage); ok {
			h.end(nil) // if nobody reads the rest
		}
	}
}

// fail shows why a page cannot be shown.
func (c *Console) fail(v *visit, err error) {
	var p *Problem
	switch {
	case errors.As(err, &p) && p.Status == http.StatusUnauthorized:
		v.loggedOut()
	case errors.As(err, &p):
		c.problem(v.w, v.r, v, p)
	case errors.Is(err, context.Canceled):
	default:
		c.opts.Logger.Error("console request failed", "path", v.r.URL.Path, "err", err)
		c.problem(v.w, v.r, v, &Problem{Status: http.StatusInternalServerError, Detail: "the console failed", Hint: "the worker's log says why"})
	}
}

func (v *visit) nowhere() error {
	return &Problem{Status: http.StatusNotFound, Detail: "there is no such page"}
}

// may reports whether the person may do something.
func (v *visit) may(verb access.Verb, session string) bool {
	return v.opts.API.May(v.r.Context(), v.who, verb, session)
}

// see sends a browser to another page after a change.
func (v *visit) see(path string) error {
	http.Redirect(v.w, v.r, path, http.StatusSeeOther)
	return nil
}

// A frame is what all pages have around their content.
type frame struct {
	Title   string
	Here    string // the page's place in the navigation
	Live    string // what the script follows; empty means nothing
	Who     string
	In      bool // somebody has logged in
	Places  []place
	Now     time.Time
	Problem *Problem
	Body    any
}

// A place is a link of the navigation, for those who may do something.
type place struct {
	Name, Path, Word string
	Verb             access.Verb
}

var places = []place{
	{"inbox", "/", "Inbox", ""},
	{"sessions", "/sessions", "Sessions", ""},
	{"new", "/sessions/new", "New session", access.SessionStart},
	{"batches", "/batches", "Batches", access.SessionRead},
	{"schedules", "/schedules", "Schedules", access.SessionRead},
	{"hosts", "/hosts", "Hosts", access.HostRead},
	{"seeds", "/seeds", "Seeds", access.SeedRead},
	{"audit", "/audit", "Audit", access.AuditRead},
	{"passkeys", "/passkeys", "Passkeys", ""},
}

func (v *visit) show(status int, name, title, here, live string, body any) error {
	return v.showWith(nil, status, name, title, here, live, body)
}

func (v *visit) showWith(p *Problem, status int, name, title, here, live string, body any) error {
	f := v.frame(title, here, live)
	f.Problem, f.Body = p, body
	return render(v.w, v.r, status, name, f)
}

// frame returns what a page for the person has around its content.
func (v *visit) frame(title, here, live string) frame {
	f := frame{Title: title, Here: here, Live: live, Who: v.who.Principal, In: true, Now: time.Now()}
	for _, at := range places {
		if at.Name == "passkeys" && v.opts.Passkeys == nil {
			continue
		}
		if at.Verb == "" || v.may(at.Verb, "") {
			f.Places = append(f.Places, at)
		}
	}
	if f.Who == "" {
		f.Who = "the owner of this stack"
	}
	return f
}

func (c *Console) problem(w http.ResponseWriter, r *http.Request, v *visit, p *Problem) {
	f := frame{Title: http.StatusText(p.Status), Problem: p, Now: time.Now()}
	if v != nil {
		f.In, f.Who = true, v.who.Principal
	}
	if err := render(w, r, p.Status, "problem", f); err != nil {
		c.opts.Logger.Error("console request failed", "path", r.URL.Path, "err", err)
	}
}

func render(w http.ResponseWriter, r *http.Request, status int, name string, f frame) error {
	var b bytes.Buffer
	if h, ok := w.(*halfPage); ok { // whose status has been sent
		if err := templates()[name].ExecuteTemplate(&b, "rest", f); err != nil {
			return err
		}
		h.end(b.Bytes())
		return nil
	}
	if err := templates()[name].ExecuteTemplate(&b, "page", f); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	send(w, r, status, b.Bytes())
	return nil
}

// LoopbackHosts are the names under which a browser reaches a loopback address.
func LoopbackHosts(address string) []string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	return []string{"127.0.0.1:" + port, "localhost:" + port, "[::1]:" + port}
}

// HostOf returns the host of a URL, as browsers send it.
func HostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}
