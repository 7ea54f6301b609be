package dial

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"fairlead.dev/fairlead/internal/certs"
	"fairlead.dev/fairlead/internal/config"
)

// A connection sends the API key that its file has now. A file that has none is refused, and the
// former key is sent. The server is a real gRPC server with TLS, which answers nothing.
func TestARenewedAPIKeyIsSent(t *testing.T) {
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
	dir := t.TempDir()
	if _, err := certs.Ensure(dir, certs.Validity{}); err != nil {
		t.Fatal(err)
	}
	f := certs.In(dir)
	pair, err := tls.LoadX509KeyPair(f.Server, f.Server)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var sent string
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}})),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			meta, _ := metadata.FromIncomingContext(stream.Context())
			mu.Lock()
			defer mu.Unlock()
			for _, v := range meta.Get("authorization") {
				sent = v
			}
			return status.Error(codes.InvalidArgument, "nothing is answered")
		}))
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(server.Stop)

	file := filepath.Join(dir, "api.key")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	write("first-key\n", 0o600)
	s, err := Config(&config.Config{Temporal: config.Temporal{Address: ln.Addr().String(), APIKeyFile: file, TLS: &config.TLS{CA: f.CA}}})
	if err != nil {
		t.Fatal(err)
	}
	target, err := Resolve(s)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewLazyClient(target.Options)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	shown := func() string {
		t.Helper()
		mu.Lock()
		sent = ""
		mu.Unlock()
		for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			_, _ = c.CheckHealth(t.Context(), nil) // it fails: the server answers nothing
			mu.Lock()
			got := sent
			mu.Unlock()
			if got != "" {
				return got
			}
		}
		t.Fatal("nothing was sent")
		return ""
	}
	if got := shown(); got != "Bearer first-key" {
		t.Errorf("sent %q", got)
	}
	write("second-key\n", 0o600)
	if err := target.RenewAPIKey(); err != nil {
		t.Fatal(err)
	}
	if got := shown(); got != "Bearer second-key" {
		t.Errorf("after a renewal: sent %q", got)
	}
	for what, bad := range map[string]struct {
		text string
		mode os.FileMode
	}{"an empty file": {"\n", 0o600}, "two lines": {"a\nb\n", 0o600}, "a file that others may read": {"third-key\n", 0o644}} {
		write(bad.text, bad.mode)
		if err := target.RenewAPIKey(); err == nil {
			t.Errorf("%s was taken", what)
		}
		if got := shown(); got != "Bearer second-key" {
			t.Errorf("after %s: sent %q", what, got)
		}
	}
}
