package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/certs"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
	"fairlead.dev/fairlead/internal/store"
)

// Content that cannot be used is refused, and the metric says so until the file is mended. Content
// that could not be tried is tried again, even if it has not changed.
func TestContentThatCannotBeUsedIsToldUntilItIsMended(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	inForce, tries := "first", 0
	var away error
	c := newCredentials(slog.New(slog.DiscardHandler))
	c.keep("a.secret", func(context.Context) error {
		tries++
		if away != nil {
			return away
		}
		text, err := os.ReadFile(file)
		if err == nil && string(text) == "bad" {
			err = errors.New("it is bad")
		}
		if err == nil {
			inForce = string(text)
		}
		return err
	}, file, "")
	c.keep("nothing", func(context.Context) error { t.Error("a credential without a file was read"); return nil }, "")
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	check := func(what, want string, broken float64, tried int) {
		t.Helper()
		c.look(t.Context())
		got := seriesOf(t, r)
		if v, ok := got["fairlead_credential_broken{credential=a.secret}"]; !ok || v != broken || len(got) != 1 || inForce != want || tries != tried {
			t.Errorf("%s: %q is in force, want %q; broken %v, want %v; %d tries, want %d", what, inForce, want, got, broken, tries, tried)
		}
	}
	check("as it was", "first", 0, 0)
	write("second")
	check("changed", "second", 0, 1)
	write("bad")
	check("bad", "second", 1, 2)
	check("still bad", "second", 1, 2)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("gone", "second", 1, 2)
	write("third")
	check("mended", "third", 0, 3)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("gone again", "third", 1, 3)
	write("third")
	check("back as it was", "third", 0, 3)
	away = fmt.Errorf("%w: the store is away", errNotNow)
	write("fourth")
	check("not tried", "third", 1, 4)
	away = nil
	check("tried again", "fourth", 0, 5)
	write(strings.Repeat("x", maxCredential+1))
	check("too large", "fourth", 1, 5)
}

// rotated replaces a file as a whole, as tools that renew certificates do.
func rotated(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// said returns a field of the first line of a worker's log with this message.
func said(w *process, msg, field string) string {
	for line := range strings.Lines(w.log.String()) {
		var one map[string]any
		if json.Unmarshal([]byte(line), &one) == nil && one["msg"] == msg {
			text, _ := one[field].(string)
			return text
		}
	}
	return ""
}

// A worker takes new certificates, tokens and keys while it runs. It goes on with the former ones
// if the new ones cannot be used, and says so. Its Temporal server asks for certificates.
func TestCredentialsAreRenewedWhileAWorkerRuns(t *testing.T) {
	authority, served := t.TempDir(), t.TempDir()
	for _, dir := range []string{authority, served} {
		if _, err := certs.Ensure(dir, certs.Validity{}); err != nil {
			t.Fatal(err)
		}
	}
	temporal, own := certs.In(authority), certs.In(served)
	port, err := hosttest.TakePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = port.Release() })
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port.Number))
	database := filepath.Join(t.TempDir(), "t.db")
	begin := func() *process {
		return start(t, exec.Command(realparts.DevServer(t), "server", "start-dev", "--headless", "--port", strconv.Itoa(port.Number), "--db-filename", database,
			"--tls-ca", temporal.CA, "--tls-cert", temporal.Server, "--tls-key", temporal.Server))
	}
	server := begin()

	p := newPlace(t, "")
	in := func(name string) string { return filepath.Join(p.dir, name) }
	const first, second, third = "the-first-token-of-the-api", "the-second-token-of-the-api", "the-third-token-of-the-api"
	rotated(t, in("token"), []byte(first+"\n"))
	key, err := payload.GenerateKey(in("payload.key"))
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, fmt.Sprintf(`authority: local
store: {url: "file://%s", identity: id.txt}
codex: {source: %q}
api: {listen: "127.0.0.1:0", token_file: token, codec_listen: "127.0.0.1:0", tls: {cert: %q, key: %q}}
metrics: {listen: "127.0.0.1:0", fleet: false}
temporal: {address: %q, payload_key: payload.key, tls: {ca: %q, cert: %q, key: %q}}
`, in("store"), realparts.Codex(t), own.Server, own.Server, address, temporal.CA, temporal.Client, temporal.Client))
	w := runWorker(t, "--config", p.config)
	wait(t, "the worker is ready", func() bool { return said(w, "worker ready", "api") != "" })
	metrics, endpoint, apiAddress := metricsAddress(t, w), said(w, "codec endpoint served", "url"), strings.TrimPrefix(said(w, "worker ready", "api"), "https://")

	broken := func(credential string) string {
		res, err := http.Get(metrics + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, fmt.Sprintf("fairlead_credential_broken{credential=%q} ", credential)); ok {
				return strings.TrimSpace(value)
			}
		}
		return "none"
	}
	serial := func() string {
		c, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", apiAddress)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	plain := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	status := func(token string) (st api.Status, code int) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+apiAddress+"/v1/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := plain.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode == http.StatusOK {
			if err := json.NewDecoder(res.Body).Decode(&st); err != nil {
				t.Fatal(err)
			}
		}
		return st, res.StatusCode
	}

	// The API's certificate.
	before, good := serial(), content(t, own.Server)
	rotated(t, own.Server, []byte("no certificate\n"))
	wait(t, "the worker says that the certificate cannot be used", func() bool { return broken("api.tls") == "1" })
	if serial() != before {
		t.Error("the former certificate is not shown any more")
	}
	fresh := t.TempDir()
	if _, err := certs.Ensure(fresh, certs.Validity{}); err != nil {
		t.Fatal(err)
	}
	rotated(t, own.Server, content(t, certs.In(fresh).Server))
	wait(t, "the new certificate is shown", func() bool { return serial() != before && broken("api.tls") == "0" })
	rotated(t, own.Server, good)
	wait(t, "the first certificate is shown again", func() bool { return serial() == before })

	// The token of the API and of the codec endpoint.
	rotated(t, in("token"), []byte(second+"\n"))
	wait(t, "the new token counts", func() bool { _, code := status(second); return code == http.StatusOK })
	if _, code := status(first); code != http.StatusUnauthorized {
		t.Errorf("the former token: %d", code)
	}
	wait(t, "the codec endpoint takes the new token", func() bool {
		code, _ := decode(t, endpoint, "Bearer "+second, `{"payloads":[]}`)
		return code == http.StatusOK
	})
	if code, _ := decode(t, endpoint, "Bearer "+first, `{"payloads":[]}`); code != http.StatusUnauthorized {
		t.Errorf("the former token at the codec endpoint: %d", code)
	}
	rotated(t, in("token"), []byte("short\n"))
	wait(t, "the worker says that the token cannot be used", func() bool { return broken("api.token_file") == "1" })
	if _, code := status(second); code != http.StatusOK {
		t.Errorf("after a bad one, the token that was in force: %d", code)
	}
	rotated(t, in("token"), []byte(third+"\n"))
	wait(t, "the third token counts", func() bool {
		_, code := status(third)
		return code == http.StatusOK && broken("api.token_file") == "0"
	})

	// The payload key, as the manual says: first the last line, then the first one.
	newest, err := payload.GenerateKey(in("new.key"))
	if err != nil {
		t.Fatal(err)
	}
	old, more := content(t, in("payload.key")), content(t, in("new.key"))
	rotated(t, in("payload.key"), append(append([]byte{}, old...), more...))
	rotated(t, in("payload.key"), append(append([]byte{}, more...), old...))
	wait(t, "the new key encrypts", func() bool { st, _ := status(third); return st.PayloadKey == newest.ID() })
	if st, _ := status(third); st.PayloadKey == key.ID() {
		t.Error("the former key encrypts")
	}
	rotated(t, in("payload.key"), []byte("nothing\n"))
	wait(t, "the worker says that the keys cannot be used", func() bool { return broken("temporal.payload_key") == "1" })
	rotated(t, in("payload.key"), append(append([]byte{}, more...), old...))
	wait(t, "the keys can be used again", func() bool { return broken("temporal.payload_key") == "0" })

	// The store's identity: a second one, beside the first.
	if _, err := store.GenerateIdentity(in("id2.txt")); err != nil {
		t.Fatal(err)
	}
	identity := content(t, in("id.txt"))
	rotated(t, in("id.txt"), content(t, in("id2.txt"))) // without the old one, the store cannot be opened
	wait(t, "the worker says that the identity does not open the store", func() bool { return broken("store.identity") == "1" })
	rotated(t, in("id.txt"), append(append([]byte{}, content(t, in("id2.txt"))...), identity...))
	wait(t, "the store is encrypted for both", func() bool {
		st, _ := status(third)
		return len(st.Recipients) == 2 && broken("store.identity") == "0"
	})

	// Everything of the connection to Temporal, also the authority; first a file that is none.
	rotated(t, temporal.Client, []byte("nothing\n"))
	wait(t, "the worker says that its certificate cannot be used", func() bool { return broken("temporal.tls") == "1" })
	if err := os.Remove(temporal.AuthorityKey); err != nil {
		t.Fatal(err)
	}
	if _, err := certs.Ensure(authority, certs.Validity{}); err != nil {
		t.Fatal(err)
	}
	wait(t, "the new certificate can be used", func() bool { return broken("temporal.tls") == "0" })
	_ = server.Process.Kill()
	<-server.done
	begin()
	opts := client.Options{HostPort: address, Logger: temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler))}
	opts.ConnectionOptions.TLS = certs.Client(temporal.CA, temporal.Client, temporal.Client, "127.0.0.1")
	keys, err := payload.LoadKeys(in("payload.key"))
	if err != nil {
		t.Fatal(err)
	}
	payload.NewCodec(client.DefaultNamespace, keys...).Use(&opts)
	var hosts []protocol.HostView
	wait(t, "the worker answers through the server that has the new certificates", func() bool {
		c, err := client.DialContext(t.Context(), opts)
		if err != nil {
			return false
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		v, err := c.QueryWorkflow(ctx, protocol.PoolID(""), "", protocol.QueryHosts)
		return err == nil && v.Get(&hosts) == nil
	})
	stop(t, w)
	secrets := []string{first, second, third, "AGE-SECRET-KEY", "PRIVATE KEY"}
	for _, text := range [][]byte{old, more} {
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "FAIRLEAD-PAYLOAD-KEY-") {
				secrets = append(secrets, line)
			}
		}
	}
	if len(secrets) != 7 {
		t.Errorf("%d secrets are looked for in the log", len(secrets))
	}
	for _, secret := range secrets {
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("the log has %.24s…", secret)
		}
	}
}
