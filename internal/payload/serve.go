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

// Path ends the URL of the codec endpoint in Temporal's UI and CLI.
const Path = "/codec"

// maxBody has room for Temporal's largest response, 4 MiB, in base64.
const maxBody = 16 << 20

// ServeOptions restrict the use of the endpoint.
type ServeOptions struct {
	// Origins are the web pages that may use the endpoint, such as http://127.0.0.1:8233.
	// Programs other than browsers send none.
	Origins []string
	// Token, if set, must be sent as "Authorization: Bearer TOKEN".
	Token string
	// Loopback refuses requests for other host names than this machine's own: the owner of
	// a web page can make another name resolve to it.
	Loopback bool
}

// Handler returns a codec endpoint for Temporal's UI and CLI.
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
			http.Error(w, "web pages of this origin may not use the codec endpoint: add the origin to api.codec_origins in the worker's config", http.StatusForbidden)
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

// ownName reports whether a Host header is a name that only this machine can have.
func ownName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && ip.IsLoopback()
}
