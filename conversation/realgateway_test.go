package conversation

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/gateway"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// gatewayRow is tried on the oldest version, too, in each run: hosts without a way out have no other
// way to the model.
const gatewayRow = "the model gateway serves it, with a token that a command gives and that rotates"

// gatewayServesIt plants what a session with --credentials gateway has on its host, and serves the
// port. The forward of sshd is tried in internal/gateway and in internal/lab/e2e/credentials.
func gatewayServesIt(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - reply: "Before that you said {{ .FirstUser }}"
`)
	h := newHome(t, s)
	h.codex = c.version
	const key = "a-token" // in what newHome wrote
	bundle, err := seeds.Pack(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := seeds.EndpointOf(bundle)
	if err != nil || endpoint.Key.Reveal() != key {
		t.Fatalf("the seed's endpoint is %s: %v", endpoint.BaseURL, err)
	}
	bare, err := bundle.ForGateway()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var outcomes []gateway.Outcome
	tokens := &gateway.Tokens{}
	g, err := gateway.New(gateway.Options{Tokens: tokens, Upstreams: []gateway.Upstream{{Name: endpoint.Name, BaseURL: endpoint.BaseURL, Key: key}},
		Record: func(o gateway.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			outcomes = append(outcomes, o)
		}})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	t.Cleanup(func() {
		l.Close()
		if err := <-served; err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	local, err := pool.Host(protocol.HostSpec{Name: protocol.LocalHost})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(h.dir, "config.toml")); err != nil {
		t.Fatal(err)
	}
	if _, err := seeds.Plant(t.Context(), local, seeds.PlantSpec{CodexHome: h.dir, Within: filepath.Dir(h.dir), Bundle: bare, Sandbox: "workspace-write", NoProfile: true,
		WorkDir: h.work, Gateway: l.Addr().(*net.TCPAddr).Port}); err != nil {
		t.Fatal(err)
	}
	rotate := func() {
		t.Helper()
		if err := os.WriteFile(seeds.TokenFile(h.dir), []byte(tokens.Issue(time.Now(), 0)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rotate()
	k := talkAt(t, h)
	for n, text := range []string{"I am Ada", "and now?"} {
		r := k.pump(TurnEnded, turn(n+1, "m-"+text[:3], text))
		if r.Turn.Status != "completed" || r.Turn.FinalText != "Before that you said I am Ada" {
			t.Errorf("turn %+v", r.Turn)
		}
		rotate() // the token before it is worthless at once
	}
	mu.Lock()
	defer mu.Unlock()
	completed := 0
	for _, o := range outcomes {
		if o.Kind == gateway.KindCompleted && strings.HasSuffix(o.Path, "/responses") {
			completed++
		}
	}
	if completed != 2 {
		t.Errorf("the gateway's requests are %+v", outcomes)
	}
	sum := sha256.Sum256([]byte(key))
	for _, r := range s.Requests() {
		if r.TokenSHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s %s came to the provider without its key", r.Method, r.Path)
		}
	}
	found, err := os.ReadFile(filepath.Join(h.dir, "config.toml"))
	if err != nil || strings.Contains(string(found), key) || strings.Contains(string(found), endpoint.BaseURL) {
		t.Errorf("config.toml on the host has the provider or its key: %v\n%s", err, found)
	}
}
