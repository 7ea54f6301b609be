package payload

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
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
	// Token, if set, returns what must be sent as "Authorization: Bearer TOKEN".
	Token func() string
	// Loopback refuses requests for other host names than this machine's own: the owner of
	// a web page can make another name resolve to it.
	Loopback bool
}

// Handler returns a codec endpoint for Temporal's UI and CLI. It decodes every payload of
// the namespace. What it encodes has no mark of a worker, and is bound to a place, so its
// URL must name one:
//
//	…/codec/workflow/ID               input and answers
//	…/codec/workflow/ID/signal/NAME   a signal's argument
//	…/codec/workflow/ID/update/NAME   an update's argument
func (c *Codec) Handler(opts ServeOptions) http.Handler {
	mux := http.NewServeMux()
	decode := converter.NewPayloadCodecHTTPHandler(c)
	unmarked := c.ForWorkers(Workers{}) // the caller is no worker
	for path, at := range map[string]func(*http.Request) place{
		"/workflow/{id}": func(r *http.Request) place { return place{kind: ofWorkflow, workflow: r.PathValue("id")} },
		"/workflow/{id}/signal/{name}": func(r *http.Request) place {
			return place{kind: toSignal, workflow: r.PathValue("id"), name: r.PathValue("name")}
		},
		"/workflow/{id}/update/{name}": func(r *http.Request) place {
			return place{kind: toUpdate, workflow: r.PathValue("id"), name: r.PathValue("name")}
		},
	} {
		mux.Handle("POST "+Path+path+"/decode", decode)
		mux.HandleFunc("POST "+Path+path+"/encode", func(w http.ResponseWriter, r *http.Request) {
			converter.NewPayloadCodecHTTPHandler(encoder{unmarked, at(r)}).ServeHTTP(w, r)
		})
	}
	mux.Handle("POST "+Path+"/decode", decode)
	mux.HandleFunc("POST "+Path+"/encode", func(w http.ResponseWriter, r *http.Request) {
		if _, encrypts := c.Encrypts(); !encrypts {
			decode.ServeHTTP(w, r) // nothing is encrypted or bound
			return
		}
		http.Error(w, "encode a payload: it is encrypted for one workflow, and the URL names none: let the codec endpoint be "+
			Path+"/workflow/ID, "+Path+"/workflow/ID/signal/NAME or "+Path+"/workflow/ID/update/NAME (write / in an id as %2F), or use ctl", http.StatusBadRequest)
	})
	return guard{opts, mux}
}

// An encoder encodes for a place.
type encoder struct {
	*Codec
	at place
}

func (e encoder) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	return e.encode(e.at, payloads)
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
	if g.Token != nil && subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+g.Token())) != 1 {
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
