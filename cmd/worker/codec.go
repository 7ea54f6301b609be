package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/internal/dial"
	"fairlead.dev/fairlead/internal/config"
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
	url    string // empty if none
	server *http.Server
	done   chan struct{}
}

// serveCodec serves the codec endpoint if the config wants one. The endpoint can be closed
// even after an error.
func serveCodec(conf *config.Config, codec *payload.Codec, log *slog.Logger) (*codecEndpoint, error) {
	e := &codecEndpoint{done: make(chan struct{})}
	if !conf.Codec() {
		close(e.done)
		return e, nil
	}
	opts := payload.ServeOptions{Origins: conf.API.CodecOrigins, Loopback: conf.CodecLoopback()}
	scheme := "http"
	ln, err := net.Listen("tcp", conf.API.CodecListen)
	if err != nil {
		close(e.done)
		return e, fmt.Errorf("serve the codec endpoint: %w", err)
	}
	if !opts.Loopback {
		own, err := apiOptions(conf)
		if err != nil {
			close(e.done)
			return e, errors.Join(err, ln.Close())
		}
		ln, scheme, opts.Token = tls.NewListener(ln, own.TLS), "https", own.Token
	}
	e.url = scheme + "://" + ln.Addr().String() + payload.Path
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

func (e *codecEndpoint) Close() error {
	var err error
	if e.server != nil {
		err = e.server.Close()
	}
	<-e.done
	return err
}
