package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// metricsAddress returns the URL at which a worker serves its metrics, from its log.
func metricsAddress(t *testing.T, w *process) (url string) {
	t.Helper()
	wait(t, "the worker serves its metrics", func() bool {
		for line := range strings.Lines(w.log.String()) {
			var said struct{ Msg, Address string }
			if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "metrics served" {
				url = "http://" + said.Address
			}
		}
		return url != ""
	})
	return url
}

func probed(t *testing.T, url string, code int, text string) {
	t.Helper()
	client := http.Client{Timeout: time.Minute}
	res, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != code || strings.TrimSpace(string(body)) != text {
		t.Errorf("%s answers %s %q (%v), want %d %q", url, res.Status, body, err, code, text)
	}
}
