package authority

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/stranger"
	"fairlead.dev/fairlead/internal/protocol"
)

// secretFiles are files of the state folder whose content gives a right.
var secretFiles = []string{"payload.key", "workers.key", "identity.txt", "ui.key", "codec.token", "temporal.toml", "stack.json"}

// otherUser is another user of the machine. Its commands are signed by root and encrypted, so
// that nothing but the machine's own means speaks against them: Temporal's certificate, the
// login of the UI, and the modes of files and sockets.
func otherUser(t *testing.T) attempt {
	t.Helper()
	var st lab.Status
	if err := e2e.Lab.JSON(e2e.Within(t), &st, "status"); err != nil {
		t.Fatal(err)
	}
	for _, name := range secretFiles {
		if _, err := os.Stat(filepath.Join(e2e.Lab.State, name)); err != nil {
			t.Errorf("a file to try: %v", err)
		}
	}
	var clients []*caller
	for _, secure := range []bool{true, false} {
		opts := client.Options{HostPort: st.Temporal.Address, Namespace: st.Temporal.Namespace, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))}
		if secure {
			opts.ConnectionOptions.TLS = &tls.Config{InsecureSkipVerify: true}
		}
		scene.boss.codec.Use(&opts)
		lazy, err := client.NewLazyClient(opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(lazy.Close)
		c := *scene.boss
		c.temporal, c.patience = lazy, 2*time.Second
		clients = append(clients, &c)
	}
	u := &anotherUser{t: t, ui: strings.TrimPrefix(st.Temporal.UI, "http://"), temporal: st.Temporal.Address, clients: clients}
	// The same request is answered when we make it.
	if got, err := request(e2e.Within(t), overSocket(), http.MethodGet, "http://worker"+transcriptTarget, "worker", u.head(http.MethodGet, transcriptTarget, nil), nil); err != nil || !bytes.Contains(got, []byte(mark)) {
		t.Errorf("our own request is answered with %d bytes, %v", len(got), err)
	}
	return u.try
}

const transcriptTarget = "/v1/sessions/" + target + "/transcript?from=1"

type anotherUser struct {
	t        *testing.T
	ui       string
	temporal string
	clients  []*caller
}

func (u *anotherUser) try(ctx context.Context, deed, id string) (got []byte, err error) {
	errs := []error{u.steal(&got)}
	form := func(e error) { errs = append(errs, e) }
	for _, c := range u.clients {
		switch deed {
		case deedStart, deedMessage, deedDecide, deedExec:
			_, err := c.try(ctx, deed, id)
			form(err)
		case deedImport:
			cctx, cancel := context.WithTimeout(ctx, c.patience)
			form(c.putSeed(cctx, id, putSeed(id)))
			cancel()
		case deedExport:
			cctx, cancel := context.WithTimeout(ctx, c.patience)
			form(c.message(cctx, protocol.SeedID("team"), protocol.UpdateExportSeed, protocol.ExportSeed{By: id, Recipient: recipient(id)}))
			cancel()
		}
	}
	if deed != deedTranscript && deed != deedDecode {
		form(u.handshake())
	}
	switch deed {
	case deedImport:
		form(u.socket(apiSocket(), http.MethodPost, "/v1/seeds/"+id, scene.bundle, &got))
	case deedExport:
		form(u.socket(apiSocket(), http.MethodPost, "/v1/seeds/team/export", asJSON(api.ExportSeed{By: id, Recipient: recipient(id)}), &got))
	case deedTranscript:
		form(u.socket(apiSocket(), http.MethodGet, transcriptTarget, nil, &got))
		form(u.page(ctx, http.MethodGet, workflowPath(protocol.SessionID(target))+"/history", &got))
	case deedDecode:
		form(u.socket(filepath.Join(e2e.Lab.State, "codec.sock"), http.MethodPost, "/codec/decode", []byte(`{"payloads":[]}`), &got))
		form(u.page(ctx, http.MethodPost, "/codec/decode", &got))
	default:
		form(u.page(ctx, http.MethodPost, workflowPath(protocol.SessionID(target))+"/signal/"+protocol.SignalClose, &got))
	}
	return got, anyOf(errs...)
}

// steal reads what is in the state folder.
func (u *anotherUser) steal(got *[]byte) error {
	var errs []error
	stranger.Do(u.t, func() {
		for _, name := range append([]string{"."}, secretFiles...) {
			f, err := os.Open(filepath.Join(e2e.Lab.State, name))
			if err == nil {
				data, _ := io.ReadAll(f) // fails for the folder, which could be opened
				f.Close()
				*got = append(*got, data...)
			}
			errs = append(errs, err)
		}
	})
	return anyOf(errs...)
}

// handshake connects to Temporal without a certificate.
func (u *anotherUser) handshake() (err error) {
	stranger.Do(u.t, func() {
		var c *tls.Conn
		if c, err = tls.Dial("tcp", u.temporal, &tls.Config{InsecureSkipVerify: true}); err != nil {
			return
		}
		defer c.Close()
		_, err = c.Read(make([]byte, 1)) // the server's word on our certificate comes after the handshake
	})
	if err != nil && !strings.Contains(err.Error(), "certificate required") {
		u.t.Errorf("Temporal refuses a client without a certificate with %v", err)
	}
	return err
}

// socket makes a request that root has signed, at a socket of the stack.
func (u *anotherUser) socket(path, method, target string, body []byte, got *[]byte) error {
	if _, err := os.Stat(path); err != nil {
		u.t.Errorf("a socket to try: %v", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: worker\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", method, target, len(body))
	if err := u.head(method, target, body).Write(&b); err != nil {
		return err
	}
	b.WriteString("\r\n")
	b.Write(body)
	var answer []byte
	var err error
	stranger.Do(u.t, func() {
		var c net.Conn
		if c, err = net.Dial("unix", path); err != nil {
			return
		}
		defer c.Close()
		if _, err = c.Write(b.Bytes()); err == nil {
			answer, err = io.ReadAll(c)
		}
	})
	if err == nil && len(answer) == 0 {
		err = errors.New("the connection was closed without an answer")
	}
	*got = append(*got, answer...)
	return err
}

func (u *anotherUser) head(method, target string, body []byte) http.Header {
	text, err := signedByRoot(method, target, body)
	if err != nil {
		panic(err)
	}
	return http.Header{command.RequestHeader: {text}}
}

// page asks the UI's port as a program does, without a login.
func (u *anotherUser) page(ctx context.Context, method, path string, got *[]byte) error {
	out, err := request(ctx, http.DefaultClient, method, "http://"+u.ui+path, u.ui, http.Header{"Content-Type": {"application/json"}}, []byte(`{}`))
	if err == nil {
		*got = append(*got, out...)
	}
	return err
}
