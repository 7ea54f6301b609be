package payload

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"go.temporal.io/sdk/converter"
)

// Path is where Handler answers: what Temporal's UI and CLI take as the codec
// endpoint ends with it.
const Path = "/codec"

// maxBody bounds a question: Temporal's own largest answer is 4 MiB, in base64.
const maxBody = 16 << 20

// ServeOptions say who may ask.
type ServeOptions struct {
	// Origins are those of the pages that may ask from a browser, such as
	// http://127.0.0.1:8233. A program that is no browser names none.
	Origins []string
	// Token, if there is one, must come as "Authorization: Bearer TOKEN".
	Token string
	// Loopback refuses every name of this server that is not this machine's
	// own: a page elsewhere may have its own name lead here.
	Loopback bool
}

// Handler is a codec endpoint for Temporal's UI and CLI: decode for what they
// show, encode for what they send.
func (c *Codec) Handler(opts ServeOptions) http.Handler {
	mux := http.NewServeMux()
	codec := converter.NewPayloadCodecHTTPHandler(c)
	for _, what := range []string{"/decode", "/encode"} {
		mux.Handle("POST "+Path+what, codec)
	}
	return guard{opts, mux}
}

type guard struct {
	ServeOptions
	next http.Handler
}

func (g guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Add("Vary", "Origin")
	if g.Loopback && !ownName(r.Host) {
		http.Error(w, "this codec endpoint is reached as 127.0.0.1 or localhost only", http.StatusForbidden)
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if !slices.Contains(g.Origins, origin) {
			http.Error(w, "pages of this origin may not ask: api.codec_origins in the worker's config names those that may", http.StatusForbidden)
			return
		}
		w.Header().Set("Access-Control-Allow-Origin", origin)
	}
	if r.Method == http.MethodOptions {
		w.Header().Set("Access-Control-Allow-Methods", "POST")
		w.Header().Set("Access-Control-Allow-Headers", "Authorization,Content-Type,X-Namespace")
		w.Header().Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if g.Token != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+g.Token)) != 1 {
		http.Error(w, "a bearer token is needed: that of api.token_file in the worker's config", http.StatusUnauthorized)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	g.next.ServeHTTP(w, r)
}

// ownName says whether a Host header names this machine by a name that no one
// else can give out.
func ownName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && ip.IsLoopback()
}
