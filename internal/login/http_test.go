package login

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// An issuer is asked over the network, and may be anybody's.
func TestAnIssuerThatSendsTooMuchCostsNoMemory(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		chunk := []byte(strings.Repeat(" ", 64<<10))
		for range 10_000 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
		t.Error("all of it was read")
	}))
	defer server.Close()
	v := NewVerifier(Settings{Issuer: server.URL, ClientID: "c"}, Claims{}, nil)
	defer v.Close()
	if _, err := v.Verify(t.Context(), "a.b.c", ""); !errors.Is(err, ErrIssuer) || len(err.Error()) > 1000 {
		t.Errorf("%v", err)
	}
}

func TestAnIssuerOfHTTPSLeadsToNothingElse(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked in the clear") }))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL, http.StatusFound) }))
	defer secure.Close()
	c := newClient(secure.URL)
	c.Transport.(*bounded).next.TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig
	defer c.CloseIdleConnections()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, secure.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := c.Do(req); !errors.Is(err, errPlain) {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestACodeIsShownOnlyIfAPersonCanUseIt(t *testing.T) {
	for url, ok := range map[string]bool{
		"https://id.example.com/device": true, "http://127.0.0.1:80/device": true, "http://localhost/device": true,
		"http://id.example.com/device": false, "javascript:alert(1)": false, "": false, "https://a:b@id.example.com/": false,
		"https://id.example.com/" + strings.Repeat("a", 3000): false, "file:///etc/passwd": false,
	} {
		if webPage(url) != ok {
			t.Errorf("%.60q: %v", url, !ok)
		}
	}
}
