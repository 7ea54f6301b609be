package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Options configure a Gateway.
type Options struct {
	// Upstreams are asked in this order; see the package's documentation.
	Upstreams []Upstream
	Tokens    *Tokens
	Limits    Limits
	// FallBack says when the next upstream is asked. Standing, if set, is shared with other
	// gateways of the same upstreams.
	FallBack FallBack
	Standing *Standing
	// Meter, if set, keeps requests for answers within budgets.
	Meter Meter
	// Record gets each request once it has ended. It must not block.
	Record func(Outcome)
	// Proxy, if set, gets the requests that are for a proxy. It checks by itself who asks.
	Proxy http.Handler
	// Keep, if set, gets the texts of each request with a valid token once it has ended, of each
	// text KeepBytes at most. It must not block.
	Keep      func(Outcome, Bodies)
	KeepBytes int
	Logger    *slog.Logger
	// Transport reaches the providers; nil means one of its own, with this machine's proxy
	// settings.
	Transport *http.Transport
}

// A Gateway serves one session. It is an http.Handler.
type Gateway struct {
	opts  Options
	limit Limits
	back  FallBack
	bases []*url.URL
	free  chan struct{}
	busy  atomic.Int64
	http  *http.Client
	// secrets are those of the upstreams; searched are those long enough to be searched in
	// answers.
	secrets, searched []string
}

// New checks the options.
func New(o Options) (*Gateway, error) {
	if len(o.Upstreams) == 0 {
		return nil, errors.New("model gateway: there is no upstream")
	}
	if o.Tokens == nil {
		return nil, errors.New("model gateway: there are no tokens")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{opts: o, limit: o.Limits.filled()}
	var err error
	if g.back, err = o.FallBack.filled(g.limit); err != nil {
		return nil, fmt.Errorf("model gateway: %w", err)
	}
	names := map[string]bool{}
	for _, u := range o.Upstreams {
		if names[u.Name] {
			return nil, fmt.Errorf("model gateway: two upstreams have the name %q", u.Name)
		}
		names[u.Name] = true
		base, err := u.check()
		if err != nil {
			return nil, fmt.Errorf("model gateway: %w", err)
		}
		g.bases = append(g.bases, base)
	}
	transport := o.Transport
	if transport == nil {
		transport = http.DefaultTransport.(*http.Transport)
	}
	transport = transport.Clone()
	g.secrets = secretsOf(o.Upstreams, false)
	g.searched = long(secretsOf(o.Upstreams, true))
	transport.DisableCompression = true
	transport.MaxResponseHeaderBytes = 64 << 10
	// A stream has these for as long as it lasts. It comes in small pieces, and a request that is
	// longer than a buffer is written past it.
	transport.ReadBufferSize, transport.WriteBufferSize = 1<<10, 1<<10
	g.free = make(chan struct{}, g.limit.Requests)
	g.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return g, nil
}

// Serve serves a listener, such as a forward, until it ends.
func (g *Gateway) Serve(l net.Listener) error {
	var protocols http.Protocols
	protocols.SetHTTP1(true) // codex speaks no other without TLS
	s := &http.Server{Handler: g, Protocols: &protocols, ReadHeaderTimeout: 20 * time.Second, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(g.opts.Logger.Handler(), slog.LevelDebug)}
	defer s.Close()
	defer g.http.CloseIdleConnections()
	return s.Serve(l)
}

// An exchange is one request of codex.
type exchange struct {
	g   *Gateway
	w   http.ResponseWriter
	r   *http.Request
	out Outcome
	// text is the request, kept until an answer begins: nothing is repeated then.
	text []byte
	hold []Kind   // failures of the present upstream of which codex is not told
	kept *keeping // copies the texts; nil if nobody wants them

	cancel          context.CancelFunc // ends the context of r
	counted, placed bool               // counted in g.busy, placed in g.free

	running Running // the attempt, for the Meter; nil without one
	least   Usage   // an estimate; it is charged if the provider does not report its use
	feed    *feeder // the answer, once it has begun
	// asked says that the provider has the request of the attempt, answers that it answers with
	// status 200.
	asked, answers atomic.Bool
}

// Busy returns how many requests with a valid token are under way.
func (g *Gateway) Busy() int { return int(g.busy.Load()) }

func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.opts.Proxy != nil && (r.Method == http.MethodConnect || r.URL.IsAbs()) {
		g.opts.Proxy.ServeHTTP(w, r)
		return
	}
	x := newExchange(g, w, r)
	defer x.end()
	x.begin(r)
	if x.feed != nil {
		x.follow()
	}
}

func newExchange(g *Gateway, w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{g: g, w: w, out: Outcome{At: time.Now(), From: r.RemoteAddr, Path: excerpt(r.URL.Path)}}
	ctx, cancel := context.WithTimeoutCause(r.Context(), g.limit.Total, errTotal)
	x.r, x.cancel = r.WithContext(ctx), cancel
	return x
}

// end releases what an exchange holds, and records it.
func (x *exchange) end() {
	if x.feed != nil {
		x.feed.close()
	}
	x.settle(Usage{})
	if x.placed {
		<-x.g.free
	}
	if x.counted {
		x.g.busy.Add(-1)
	}
	x.cancel()
	x.out.Total = time.Since(x.out.At)
	if x.kept != nil {
		x.g.opts.Keep(x.out, x.kept.bodies)
	}
	if x.g.opts.Record != nil {
		x.g.opts.Record(x.out)
	}
}

// begin serves a request, up to an answer that has begun to reach codex.
func (x *exchange) begin(r *http.Request) {
	g, w := x.g, x.w
	bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !g.opts.Tokens.accepts(bearer, time.Now()) || !ok {
		w.Header().Set("Connection", "close") // a stranger holds no connection
		x.refuse(http.StatusUnauthorized, KindRefused, "this port is for one session of Fairlead: the request has no valid token of it")
		return
	}
	g.busy.Add(1)
	x.counted = true
	x.keep()
	path, known := strings.CutPrefix(r.URL.Path, "/v1/")
	switch {
	case known && path == "models" && r.Method == http.MethodGet:
	case known && (path == "responses" || path == "responses/compact") && r.Method == http.MethodPost:
	case known && (path == "models" || path == "responses" || path == "responses/compact"):
		x.refuse(http.StatusMethodNotAllowed, KindRejected, "the model gateway does not know this method")
		return
	default:
		x.refuse(http.StatusNotFound, KindRejected, "the model gateway serves /v1/responses, /v1/responses/compact and /v1/models alone")
		return
	}
	select {
	case g.free <- struct{}{}:
		x.placed = true
	default:
		w.Header().Set("Retry-After", "1")
		x.refuse(http.StatusServiceUnavailable, KindRejected, fmt.Sprintf("the session has %d requests under way, which is the most", g.limit.Requests))
		return
	}
	text, status, err := x.read()
	if err != nil {
		x.refuse(status, KindRejected, err.Error())
		return
	}
	x.keepRequest(text)
	x.serve(path, text)
}

// Mark begins what the gateway itself says to codex; the kind and "] " follow. Whoever reads
// codex's errors knows it.
const Mark = "[model gateway: "

// refuse answers without asking a provider, or in its place.
func (x *exchange) refuse(status int, kind Kind, message string) {
	x.out.Status, x.out.Kind, x.out.Message = status, kind, message
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(status)
	_, _ = x.w.Write(mustJSON(map[string]any{"error": map[string]any{"message": Mark + string(kind) + "] " + message, "type": string(kind), "code": nil}})) // codex may be gone
}

// read returns the request's body.
func (x *exchange) read() ([]byte, int, error) {
	if x.r.Method == http.MethodGet {
		return nil, 0, nil
	}
	from := http.NewResponseController(x.w)
	_ = from.SetReadDeadline(time.Now().Add(x.g.limit.Begin)) // not every connection has one
	defer func() { _ = from.SetReadDeadline(time.Time{}) }()  // likewise
	tooLong := fmt.Errorf("the request has more than %d bytes", x.g.limit.Body)
	var in io.Reader = http.MaxBytesReader(x.w, x.r.Body, x.g.limit.Body)
	switch encoding := x.r.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "zstd":
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(x.g.limit.Body)+1), zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return nil, http.StatusBadRequest, errors.New("the request's zstd body cannot be read")
		}
		defer z.Close()
		in = z
	default:
		return nil, http.StatusUnsupportedMediaType, fmt.Errorf("the content encoding %q is not known: zstd and identity are", excerpt(encoding))
	}
	text, err := io.ReadAll(io.LimitReader(in, x.g.limit.Body+1))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long), int64(len(text)) > x.g.limit.Body, errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded):
		return nil, http.StatusRequestEntityTooLarge, tooLong
	case err != nil:
		return nil, http.StatusBadRequest, errors.New("the request's body cannot be read")
	}
	return text, 0, nil
}

// An ask is what codex asks for.
type ask struct {
	path   string
	stream bool
}

func (x *exchange) serve(path string, text []byte) {
	a := ask{path: path}
	x.text = text
	if x.r.Method == http.MethodPost {
		head, err := headOf(text)
		if err == nil && head.background && x.g.opts.Meter != nil {
			err = errors.New("a request with background is not permitted: what its answer uses would not be known")
		}
		if err != nil {
			x.refuse(http.StatusBadRequest, KindRejected, err.Error())
			return
		}
		x.out.Model, a.stream = excerpt(head.model), head.stream && path == "responses"
	}
	x.try(a)
}

// bodyFor returns the request as an upstream gets it.
func (x *exchange) bodyFor(u Upstream, a ask) []byte {
	whole, model := u.Whole && a.stream, u.modelFor(x.out.Model)
	if x.r.Method == http.MethodGet || model == x.out.Model && !whole {
		return x.text
	}
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal(x.text, &m); err != nil {
		return x.text // it was read before as an object
	}
	if model != x.out.Model {
		m["model"] = mustJSON(model)
	}
	if whole {
		m["stream"] = json.RawMessage("false")
	}
	return mustJSON(m)
}

// A sending is the body of a request, which it lets go of once it was read.
type sending struct{ text []byte }

func (s *sending) Read(p []byte) (int, error) {
	if len(s.text) == 0 {
		s.text = nil
		return 0, io.EOF
	}
	n := copy(p, s.text)
	s.text = s.text[n:]
	return n, nil
}

// Headers of codex that a provider gets, and headers of a provider that codex gets. Others
// are dropped: a token for the gateway is none for the provider.
var (
	asked    = []string{"Accept", "Content-Type", "User-Agent", "Originator", "Version", "Openai-Beta", "Session_id", "Session-Id", "Conversation_id", "Thread-Id", "Traceparent", "Tracestate"}
	answered = []string{"Content-Type", "Openai-Model", "Openai-Processing-Ms", "Retry-After", "X-Request-Id", "X-Models-Etag", "Etag"}
	families = []string{"X-Codex-", "X-Openai-", "X-Ratelimit-", "X-Client-Request-Id"}
)

func copyHeaders(to, from http.Header, names []string) {
	for _, n := range names {
		if v, ok := from[n]; ok {
			to[n] = v
		}
	}
	for n, v := range from {
		for _, f := range families {
			if strings.HasPrefix(n, f) {
				to[n] = v
			}
		}
	}
}

// request makes the request to an upstream.
func (x *exchange) request(ctx context.Context, n int, a ask) (*http.Request, error) {
	u := x.g.opts.Upstreams[n]
	to := x.g.bases[n].JoinPath(a.path)
	query := url.Values{}
	if a.path == "models" {
		query = x.r.URL.Query()
	}
	for k, v := range u.Query {
		query[k] = v
	}
	to.RawQuery = query.Encode()
	body := x.bodyFor(u, a)
	req, err := http.NewRequestWithContext(ctx, x.r.Method, to.String(), nil)
	if err != nil {
		return nil, err
	}
	req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil {
			x.asked.Store(true)
		}
	}}))
	if len(body) > 0 {
		req.Body, req.ContentLength = io.NopCloser(&sending{body}), int64(len(body))
		// for a connection that the provider had just closed
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(&sending{x.bodyFor(u, a)}), nil }
	}
	copyHeaders(req.Header, x.r.Header, asked)
	for k, v := range u.Header {
		req.Header[http.CanonicalHeaderKey(k)] = v
	}
	if u.Key != "" {
		req.Header.Set("Authorization", "Bearer "+u.Key)
	}
	return req, nil
}

// clean removes secrets from a provider's words and bounds them.
func (x *exchange) clean(text string) string { return excerpt(x.g.scrub(text)) }
