package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
)

// maxCodecBody has room for Temporal's largest response, 4 MiB, in base64.
const maxCodecBody = 16 << 20

// newCodecProxy passes what comes to codecPath on to the codec endpoint of a worker, at
// unix:///path or http://host:port. A token, if any, is shown to the worker.
func newCodecProxy(upstream, token string) (http.Handler, error) {
	transport := &http.Transport{MaxIdleConns: 4, DisableCompression: true}
	target := &url.URL{Scheme: "http", Host: "codec"}
	if path, ok := strings.CutPrefix(upstream, "unix://"); ok {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	} else {
		u, err := url.Parse(upstream)
		if err != nil {
			return nil, err
		}
		target.Host = u.Host
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			// The worker gets nothing of what the browser shows to us alone.
			header := http.Header{}
			for _, name := range []string{"Content-Type", "X-Namespace"} {
				if v := r.In.Header.Get(name); v != "" {
					header.Set(name, v)
				}
			}
			if token != "" {
				header.Set("Authorization", "Bearer "+token)
			}
			r.Out.Header = header
			r.SetURL(target)
			r.Out.Host = target.Host
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, fmt.Sprintf("no worker decodes payloads: %v", err), http.StatusBadGateway)
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxCodecBody)
		proxy.ServeHTTP(w, r)
	}), nil
}

// readToken reads a token of at least 16 characters.
func readToken(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if len(token) < 16 {
		return "", fmt.Errorf("%s holds fewer than 16 characters", file)
	}
	return token, nil
}
