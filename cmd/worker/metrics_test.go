package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"fairlead.dev/fairlead/internal/config"
)

// A web page can lead a name of its own to the address of the metrics. Prometheus reaches
// them by their address, or by a name that the config or the machine knows.
func TestMetricsAreNotForWebPages(t *testing.T) {
	served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	const local, open = "127.0.0.1:9090", "0.0.0.0:9090"
	for _, c := range []struct {
		listen, host, header, value string
		want                        int
	}{
		{local, "127.0.0.1:9090", "", "", http.StatusOK},
		{local, "[::1]:9090", "", "", http.StatusOK},
		{local, "LocalHost:9090", "", "", http.StatusOK},
		{local, "metrics.example:9090", "", "", http.StatusOK},
		{local, "evil.example:9090", "", "", http.StatusForbidden},
		{local, "evil:9090", "", "", http.StatusForbidden},
		{local, "evil.example", "", "", http.StatusForbidden},
		{local, "127.0.0.1.evil.example:9090", "", "", http.StatusForbidden},
		{local, "localhost:9090", "Origin", "https://evil.example", http.StatusForbidden},
		{local, "localhost:9090", "Origin", "null", http.StatusForbidden},
		{local, "localhost:9090", "Sec-Fetch-Site", "cross-site", http.StatusForbidden},
		{local, "localhost:9090", "Sec-Fetch-Site", "same-site", http.StatusForbidden},
		{local, "localhost:9090", "Sec-Fetch-Site", "none", http.StatusOK}, // a person typed the address
		{open, "10.1.2.3:9090", "", "", http.StatusOK},
		{open, "worker-1:9090", "", "", http.StatusOK},
		{open, "metrics.example:9090", "", "", http.StatusOK},
		{open, "evil.example:9090", "", "", http.StatusForbidden},
		{open, "10.1.2.3:9090", "Origin", "https://evil.example", http.StatusForbidden},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.Host = c.host
		if c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		w := httptest.NewRecorder()
		guardMetrics(config.Metrics{Listen: c.listen, Hosts: []string{"metrics.example"}}, served).ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("on %s, for %s, %s %s: %d, want %d", c.listen, c.host, c.header, c.value, w.Code, c.want)
		}
	}
}
