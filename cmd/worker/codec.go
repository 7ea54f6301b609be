package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/internal/dial"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/localsocket"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

// hasPayloadKey checks that the worker's keys can read the zone's pool, which exists before
// any session. Without the keys, all tasks that the worker takes would fail.
func hasPayloadKey(ctx context.Context, c client.Client, codec *payload.Codec, namespace, zone string, log *slog.Logger) error {
	return patiently(ctx, log, "the record of zone "+zone, func(ctx context.Context) error {
		err := dial.Readable(ctx, c, namespace, codec, protocol.PoolID(zone))
		var refused *payload.Error
		if errors.As(err, &refused) {
			return final(err)
		}
		return err
	})
}

// A codecEndpoint decodes payloads for Temporal's UI and CLI.
type codecEndpoint struct {
	url    string        // empty if none
	token  func() string // nil for a socket, whose file says who may connect
	socket string        // empty for a host:port
	made   os.FileInfo
	server *http.Server
	done   chan struct{}
}

// serveCodec serves the codec endpoint if the config wants one, with the API's certificate and
// tokens. The endpoint can be closed even after an error.
func serveCodec(conf *config.Config, own *apiSecrets, codec *payload.Codec, log *slog.Logger) (*codecEndpoint, error) {
	e := &codecEndpoint{done: make(chan struct{})}
	if !conf.Codec() {
		close(e.done)
		return e, nil
	}
	ln, err := e.listen(conf, own, log)
	if err != nil {
		close(e.done)
		return e, fmt.Errorf("serve the codec endpoint: %w", err)
	}
	opts := payload.ServeOptions{Origins: conf.API.CodecOrigins, Loopback: conf.CodecLoopback(), Token: e.token}
	e.server = &http.Server{Handler: codec.Handler(opts), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	log.Info("codec endpoint served", "url", e.url)
	go func() {
		defer close(e.done)
		if err := e.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			log.Error("codec endpoint stopped", "err", err)
		}
	}()
	return e, nil
}

// listen sets url and token, too.
func (e *codecEndpoint) listen(conf *config.Config, own *apiSecrets, log *slog.Logger) (net.Listener, error) {
	if path, ok := strings.CutPrefix(conf.API.CodecListen, "unix://"); ok {
		e.url = conf.API.CodecListen
		return e.listenUnix(path, log)
	}
	if e.token = own.token; own.token() == "" {
		return nil, errors.New("others can reach " + conf.API.CodecListen + ": it needs api.token_file")
	}
	ln, err := net.Listen("tcp", conf.API.CodecListen)
	if err != nil {
		return nil, err
	}
	scheme := "http"
	if !conf.CodecLoopback() {
		scheme, ln = "https", tls.NewListener(ln, own.tls())
	}
	e.url = scheme + "://" + ln.Addr().String() + payload.Path
	return ln, nil
}

// listenUnix replaces the socket of an earlier worker. The socket gets its name after its
// mode, so that nobody else can connect before.
func (e *codecEndpoint) listenUnix(path string, log *slog.Logger) (net.Listener, error) {
	if err := localsocket.MakeFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ln, err := localsocket.Listen(fresh, func(err error) { log.Warn("the codec endpoint refused a connection", "err", err) })
	if err != nil {
		return nil, err
	}
	ln.SetUnlinkOnClose(false)
	if err = os.Chmod(fresh, 0o600); err == nil {
		err = os.Rename(fresh, path)
	}
	if err == nil {
		e.made, err = os.Lstat(path)
	}
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	e.socket = path
	return ln, nil
}

// Close removes the socket, unless a later worker has replaced it.
func (e *codecEndpoint) Close() error {
	var err error
	if e.server != nil {
		err = e.server.Close()
	}
	<-e.done
	if e.socket != "" {
		if now, statErr := os.Lstat(e.socket); statErr == nil && os.SameFile(now, e.made) {
			err = errors.Join(err, os.Remove(e.socket))
		}
	}
	return err
}
