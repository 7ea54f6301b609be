package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestRequestsForAProxyGoToIt(t *testing.T) {
	t.Parallel()
	proxy := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for _, c := range []struct {
		proxy          http.Handler
		method, target string
		want           int
	}{
		{proxy, http.MethodConnect, "git.example.com:443", http.StatusTeapot},
		{proxy, http.MethodGet, "http://git.example.com/", http.StatusTeapot},
		{proxy, http.MethodGet, "/v1/models", http.StatusUnauthorized},
		{nil, http.MethodConnect, "git.example.com:443", http.StatusUnauthorized},
		{nil, http.MethodGet, "http://git.example.com/v1/models", http.StatusUnauthorized},
	} {
		g, err := New(Options{Upstreams: []Upstream{{Name: "one", BaseURL: "http://127.0.0.1:9/v1"}}, Tokens: &Tokens{}, Proxy: c.proxy})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Method = c.method
		if c.method == http.MethodConnect {
			r.URL.Host, r.URL.Path = c.target, ""
		} else if r.URL, err = r.URL.Parse(c.target); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s %s with a proxy %t: status %d, want %d", c.method, c.target, c.proxy != nil, w.Code, c.want)
		}
	}
}
