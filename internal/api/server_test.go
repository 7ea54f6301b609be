package api

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/seeds"
)

// certificate makes a self-signed certificate for 127.0.0.1. It returns it with the file
// that a client trusts.
func certificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "worker"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, path
}

func TestOnlyLoopbackNeedsNoCertificateAndToken(t *testing.T) {
	cert, _ := certificate(t)
	conf := &tls.Config{Certificates: []tls.Certificate{cert}}
	for _, opts := range []Options{
		{Listen: "0.0.0.0:0"},
		{Listen: ":0"},
		{Listen: "[::]:0", Token: "a token of some length"},
		{Listen: "0.0.0.0:0", TLS: conf},
	} {
		s, err := Serve(opts)
		if err == nil {
			s.Close()
			t.Errorf("%s was served with TLS %v and token %v", opts.Listen, opts.TLS != nil, opts.Token != "")
		}
	}
	for _, opts := range []Options{
		{Listen: "127.0.0.1:0"},
		{Listen: "0.0.0.0:0", TLS: conf, Token: "a token of some length"},
	} {
		s, err := Serve(opts)
		if err != nil {
			t.Errorf("%s: %v", opts.Listen, err)
			continue
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTokenIsDemandedEverywhere(t *testing.T) {
	cert, ca := certificate(t)
	const token = "a token of some length"
	b := serve(t, func(o *Options) {
		o.Listen, o.Token, o.TLS = "127.0.0.1:0", token, &tls.Config{Certificates: []tls.Certificate{cert}}
	})
	for _, shown := range []string{"", "wrong", token + "x"} {
		c, err := NewClient(b.server.Address(), ClientOptions{Token: shown, CA: ca})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var e *Error
		if _, err := c.Status(t.Context()); !errors.As(err, &e) || e.Kind != ErrUnauthorized {
			t.Errorf("token %q: status says %v", shown, err)
		}
		if _, err := c.PutMessage(t.Context(), aFolder, "x"); !errors.As(err, &e) || e.Kind != ErrUnauthorized {
			t.Errorf("token %q: a message says %v", shown, err)
		}
		for _, err := range c.Feed(t.Context(), "s1", 1) {
			if !errors.As(err, &e) || e.Kind != ErrUnauthorized {
				t.Errorf("token %q: a feed says %v", shown, err)
			}
		}
	}
	c, err := NewClient(b.server.Address(), ClientOptions{Token: token, CA: ca})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if st, err := c.Status(t.Context()); err != nil || st.PID != 7 {
		t.Errorf("with the token: %+v, %v", st, err)
	}
	stranger, err := NewClient(b.server.Address(), ClientOptions{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if _, err := stranger.Status(t.Context()); !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), token) {
		t.Errorf("a certificate that nobody vouches for: %v", err)
	}
	if _, err := NewClient("http://10.0.0.1:80", ClientOptions{Token: token}); err == nil {
		t.Error("a client would send its token over plain HTTP")
	}
}

func TestLoopbackIsNotForBrowsers(t *testing.T) {
	b := serve(t, func(o *Options) { o.Listen = "127.0.0.1:0" })
	for name, change := range map[string]func(*http.Request){
		"a page of another site": func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"a rebound name":         func(r *http.Request) { r.Host = "evil.example" },
		"a picture":              func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", b.server.Address()+"/v1/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		change(r)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestSocketIsPrivateAndTakenOverFromTheDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "api.sock")
	opts := Options{Listen: "unix://" + path, Status: func() Status { return Status{} }}
	first, err := Serve(opts)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info, err)
	}
	if second, err := Serve(opts); err == nil {
		second.Close()
		t.Error("two workers share a socket")
	} else if !strings.Contains(err.Error(), "another worker") {
		t.Error(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	// A killed worker leaves a socket that nobody serves.
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	ln.Close()
	third, err := Serve(opts)
	if err != nil {
		t.Fatalf("after a killed worker: %v", err)
	}
	c, err := NewClient(third.Address(), ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Status(t.Context()); err != nil {
		t.Error(err)
	}
	c.Close()
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Status(t.Context()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("nobody answers, and the client says %v", err)
	}
	c.Close()
}

func TestLongPromptGoesIntoTheStore(t *testing.T) {
	b := serve(t, nil)
	c := b.client("")
	text := strings.Repeat("ünï", 400_000)
	m, err := c.PutMessage(t.Context(), aFolder, text[:len(text)/2])
	if err != nil {
		t.Fatal(err)
	}
	if m.Chars != 600_000 {
		t.Errorf("%d characters, want 600000", m.Chars)
	}
	data, err := b.store.Get(t.Context(), m.Blob)
	if err != nil || string(data) != text[:len(text)/2] {
		t.Errorf("the store has %d bytes: %v", len(data), err)
	}
	again, err := c.PutMessage(t.Context(), aFolder, text[:len(text)/2])
	if err != nil || again != m {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	for name, bad := range map[string]string{"empty": "", "not UTF-8": "a\xffb", "too long": text, "far too long": strings.Repeat("x", 5<<20)} {
		var e *Error
		if _, err := c.PutMessage(t.Context(), aFolder, bad); !errors.As(err, &e) || e.Kind != ErrBadInput {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSeedIsCheckedKeptAndNeverShown(t *testing.T) {
	const secret = "sk-test-0123456789abcdefghijklmnop"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "auth.json"), []byte(`{"OPENAI_API_KEY":"`+secret+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	bundle, err := seeds.Pack(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := serve(t, nil)
	c := b.client("")
	got, err := c.PutSeed(t.Context(), "team", bundle.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if got.Ref.Name != "team" || got.Ref.Kind != seeds.KindAPIKey || got.Ref.Digest != bundle.Manifest().Digest() || len(got.Manifest.Files) != 1 {
		t.Errorf("stored %+v", got)
	}
	back, err := seeds.Load(t.Context(), b.store, got.Ref.Blob)
	if err != nil || string(back.Bytes()) != string(bundle.Bytes()) {
		t.Errorf("read back: %v", err)
	}
	var e *Error
	for name, body := range map[string]string{"Bad Name": "x", "torn": string(bundle.Bytes()[:100])} {
		if _, err := c.PutSeed(t.Context(), name, []byte(body)); !errors.As(err, &e) || e.Kind != ErrBadInput || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	plain := serve(t, func(o *Options) { o.Listen = "127.0.0.1:0" })
	if _, err := plain.client("").PutSeed(t.Context(), "team", bundle.Bytes()); !errors.As(err, &e) || e.Kind != ErrRefused {
		t.Errorf("over plain HTTP the client says %v", err)
	}
	resp, err := http.Post(plain.server.Address()+"/v1/seeds/team", "application/x-tar", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("over plain HTTP the worker says %s", resp.Status)
	}
}

func TestClosingServerSendsViewersAway(t *testing.T) {
	b := serve(t, nil)
	c, err := NewClient(b.server.Address(), ClientOptions{Patience: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b.showEntry("s1", entry(1, "a1", ""))
	seen, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for ev, err := range c.Feed(context.Background(), "s1", 1) {
			if err != nil {
				ended <- err
				return
			}
			if ev.Kind == KindEntry {
				close(seen)
			}
		}
		ended <- nil
	}()
	<-seen
	if err := b.server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, ErrUnreachable) {
		t.Errorf("the viewer was told %v, and should look for another worker", err)
	}
}

func TestIdentityCarriesTheAddress(t *testing.T) {
	for _, id := range []Identity{
		{"web-3", 4711, "unix:///run/fair lead/api.sock"},
		{"a/b", 1, "https://worker.example:7443"},
	} {
		if got, ok := ParseIdentity(id.String()); !ok || got != id {
			t.Errorf("%q reads as %+v, %v", id.String(), got, ok)
		}
	}
	for _, s := range []string{"", "4711@host@", "ctl@host", "w/7 ", "w/x unix:///s", "/7 unix:///s", "w/7 file:///etc/passwd"} {
		if id, ok := ParseIdentity(s); ok {
			t.Errorf("%q reads as %+v", s, id)
		}
	}
}
