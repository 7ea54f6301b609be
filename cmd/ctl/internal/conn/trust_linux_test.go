package conn

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/lab/stranger"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

const token = "a-token-of-some-length"

// An authority is a CA. It makes certificates for 127.0.0.1.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, file: filepath.Join(t.TempDir(), "ca.pem")}
	made := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "workers"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.key = made.PrivateKey.(*ecdsa.PrivateKey)
	var err error
	if a.cert, err = x509.ParseCertificate(made.Certificate[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]}), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// sign signs a certificate; the first one signs itself.
func (a *authority) sign(template *x509.Certificate) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) issue() tls.Certificate {
	a.t.Helper()
	return a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "worker"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"worker"}})
}

// A sink answers as a worker of a zone would, and records what it is sent.
type sink struct {
	mu   sync.Mutex
	got  bytes.Buffer
	zone string
}

func (s *sink) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.String()
}

type tapped struct {
	net.Conn
	to *sink
}

func (r tapped) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.to.mu.Lock()
	defer r.to.mu.Unlock()
	r.to.got.Write(p[:n])
	return n, err
}

type recorder struct {
	net.Listener
	to *sink
}

func (r recorder) Accept() (net.Conn, error) {
	c, err := r.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tapped{c, r.to}, nil
}

// serve answers on ln until the test ends. What is recorded is in the clear also with TLS.
func (s *sink) serve(t *testing.T, ln net.Listener, cert *tls.Certificate) {
	t.Helper()
	if cert != nil {
		ln = tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{*cert}})
	}
	srv := &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"identity":"w/7 unix:///x","ready":true,"pid":7,"zone":%q,"task_queues":[%q]}`, s.zone, protocol.TaskQueueOf(s.zone))
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(recorder{ln, s}) }()
	t.Cleanup(func() { srv.Close(); <-done })
}

// holding is a session with one activity that does not end.
func holding(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Hour})
	return workflow.ExecuteActivity(ctx, "hold").Get(ctx, nil)
}

// Whoever may poll a task queue can put any address into Temporal. ctl sends its token only
// to one that the config names, or that proves to be a worker.
func TestARoguePollerGetsNoToken(t *testing.T) {
	srv, err := testsuite.StartDevServer(t.Context(), testsuite.DevServerOptions{
		ExistingPath: realparts.DevServer(t), LogLevel: "error", Stdout: io.Discard, Stderr: os.Stderr,
		ClientOptions: &client.Options{Logger: temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler))},
	})
	if err != nil {
		t.Fatalf("start the Temporal server: %v (run `make build`)", err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "FAIRLEAD_CONFIG", "FAIRLEAD_STATE"} {
		t.Setenv(name, "")
	}
	t.Setenv("TEMPORAL_CONFIG_FILE", os.DevNull)
	ours, other := newAuthority(t), newAuthority(t)
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tcp := func(t *testing.T, s *sink, cert *tls.Certificate) string {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.serve(t, ln, cert)
		if cert != nil {
			return "https://" + ln.Addr().String()
		}
		return "http://" + ln.Addr().String()
	}
	good, bad := ours.issue(), other.issue()
	for i, c := range []struct {
		name   string
		listen func(*testing.T, *sink) (address string)
		api    string // the rest of the section api; %s is the address
		why    string // the reason of the refusal; empty means that ctl asks the worker
	}{
		{"http", func(t *testing.T, s *sink) string { return tcp(t, s, nil) }, "", "plain HTTP"},
		{"http that the config names", func(t *testing.T, s *sink) string { return tcp(t, s, nil) }, ", workers: [%q]", ""},
		{"a socket of another user", func(t *testing.T, s *sink) string {
			path := filepath.Join(stranger.Folder(t), "s")
			s.serve(t, stranger.Listen(t, path), nil)
			return "unix://" + path
		}, "", "uid 65534"},
		{"a socket of the user that the config names", func(t *testing.T, s *sink) string {
			path := filepath.Join(stranger.Folder(t), "s")
			s.serve(t, stranger.Listen(t, path), nil)
			return "unix://" + path
		}, ", owner: nobody", ""},
		{"a socket of ours", func(t *testing.T, s *sink) string {
			path := filepath.Join(t.TempDir(), "s")
			ln, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			s.serve(t, ln, nil)
			return "unix://" + path
		}, "", ""},
		{"https without a CA", func(t *testing.T, s *sink) string { return tcp(t, s, &good) }, "", "api.tls.ca"},
		{"https with another CA", func(t *testing.T, s *sink) string { return tcp(t, s, &bad) }, ", tls: {ca: " + ours.file + "}", "certificate"},
		{"https with another name", func(t *testing.T, s *sink) string { return tcp(t, s, &good) }, ", tls: {ca: " + ours.file + ", server_name: other}", "certificate"},
		{"https with our CA", func(t *testing.T, s *sink) string { return tcp(t, s, &good) }, ", tls: {ca: " + ours.file + ", server_name: worker}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &sink{zone: fmt.Sprintf("z%d", i)}
			address := c.listen(t, s)
			section := c.api
			if strings.Contains(section, "%") {
				section = fmt.Sprintf(section, address)
			}
			config := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(config, []byte(fmt.Sprintf("zone: %s\napi: {token_file: %s%s}\n", s.zone, tokenFile, section)), 0o600); err != nil {
				t.Fatal(err)
			}
			identity := api.Identity{Name: "w", PID: 7, API: address}
			rogue, err := client.Dial(client.Options{HostPort: srv.FrontendHostPort(), Identity: identity.String(), Logger: temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
			if err != nil {
				t.Fatal(err)
			}
			defer rogue.Close()
			polls := worker.New(rogue, protocol.TaskQueueOf(s.zone), worker.Options{Identity: identity.String()})
			polls.RegisterWorkflowWithOptions(holding, workflow.RegisterOptions{Name: protocol.TypeSession})
			holds, release := make(chan struct{}), make(chan struct{})
			polls.RegisterActivityWithOptions(func() error { close(holds); <-release; return nil }, activity.RegisterOptions{Name: "hold"})
			if err := polls.Start(); err != nil {
				t.Fatal(err)
			}
			defer polls.Stop()
			defer close(release)
			if _, err := rogue.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: protocol.SessionID(s.zone), TaskQueue: protocol.TaskQueueOf(s.zone)}, protocol.TypeSession); err != nil {
				t.Fatal(err)
			}
			<-holds

			var notes bytes.Buffer
			a := &core.App{Err: &notes, Flags: core.Flags{Address: srv.FrontendHostPort(), Config: config, State: t.TempDir()}}
			defer a.Close()
			tt, err := Open(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			_, anyErr := AnyWorker(t.Context(), a, tt)
			_, sessionErr := WorkerFor(t.Context(), a, tt, s.zone)
			views, statuses, err := Workers(t.Context(), a, tt)
			if err != nil || len(views) != 1 {
				t.Fatalf("the list of workers is %+v, %v", views, err)
			}
			if c.why == "" {
				if anyErr != nil || sessionErr != nil || len(statuses) != 1 || views[0].Refused || notes.Len() > 0 {
					t.Errorf("any: %v, of the session: %v, list: %+v, notes: %s", anyErr, sessionErr, views, notes.String())
				}
				if !strings.Contains(s.text(), "Bearer "+token) {
					t.Errorf("a worker that proved itself got %q", s.text())
				}
				return
			}
			for of, err := range map[string]error{"any": anyErr, "of the session": sessionErr} {
				if core.ExitCode(err) != core.ExitUnreachable || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), c.why) {
					t.Errorf("%s: %v, want the address and %q", of, err, c.why)
				}
			}
			if n := notes.String(); !strings.Contains(n, address) || !strings.Contains(n, c.why) {
				t.Errorf("the user is told %q", n)
			}
			if len(statuses) != 0 || !views[0].Refused || !strings.Contains(views[0].Problem, c.why) {
				t.Errorf("the list of workers is %+v", views)
			}
			if got := s.text(); got != "" {
				t.Errorf("the rogue got %q", got)
			}
		})
	}
}
