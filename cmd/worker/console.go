package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"fairlead.dev/fairlead/cmd/internal/apiflows"
	"fairlead.dev/fairlead/cmd/internal/inbox"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/console"
	"fairlead.dev/fairlead/internal/login"
	"fairlead.dev/fairlead/internal/passkey"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/secretfile"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/workflows/session"
)

// rebindConsole is how often a worker tries to listen at the console's address, which a worker
// before it may still have.
const rebindConsole = time.Second

// serveConsole serves the console until ctx ends, if the config has one. The returned function
// ends it, too. A console that cannot listen yet stops no session.
func serveConsole(ctx context.Context, conf *config.Config, server *api.Server, programs *apiflows.Backend, open *inbox.Inbox, blobs *store.Store, keys *passkey.Book, changing *credentials, log *slog.Logger) (func(), error) {
	k := &conf.Console
	if k.Listen == "" {
		return func() {}, nil
	}
	secure := k.TLS != nil
	o := console.Options{API: api.Insiders(server), Inbox: consoleInbox{open}, Store: blobs, Passkeys: keys, URL: k.Address(), TLS: secure || strings.HasPrefix(k.URL, "https:"), Lifetime: k.Lifetime, Logger: log}
	o.Hosts = append(o.Hosts, console.HostOf(o.URL), k.Listen)
	if k.Loopback() {
		o.Hosts = append(o.Hosts, console.LoopbackHosts(k.Listen)...)
	}
	o.Cookie = "__Host-fairlead"
	if !o.TLS {
		_, port, _ := net.SplitHostPort(k.Listen)
		o.Cookie = "fairlead-console-" + port // ports of a machine share their cookies
	}
	o.Challenge = func(ap protocol.Approval, d protocol.Decide) ([]byte, error) {
		message, err := session.SignedMessage(ap.Session, ap.AskedAt, d)
		return passkey.Challenge(message), err
	}
	if k.LinkKey != "" {
		o.Link = func() ([]byte, error) { return linkKey(k.LinkKey) }
	}
	closeLogin := func() {}
	if l := conf.Login; l.Configured() && conf.Authority == config.AuthorityRequired {
		id := l.ClientID
		if k.ClientID != "" {
			id = k.ClientID
		}
		b := login.NewBrowser(login.Settings{Issuer: l.Issuer, ClientID: id, Scopes: l.Scopes}, login.Claims{Principal: l.PrincipalClaim, Groups: l.GroupsClaim})
		o.Login, closeLogin = b, b.Close
	}
	var certificate *servedPair
	if secure {
		certificate = &servedPair{whose: "the console's", cert: k.TLS.Cert, key: k.TLS.Key}
		if err := certificate.read(ctx); err != nil {
			return nil, err
		}
		changing.keep("console.tls", certificate.read, k.TLS.Cert, k.TLS.Key)
	}
	ctx, cancel := context.WithCancel(ctx)
	o.Looking, o.Owner = console.NewLooking(blobs), owner()
	slots := &slotHistory{}
	o.Slots = slots.of
	sampled := make(chan struct{})
	go func() {
		defer close(sampled)
		slots.keep(ctx, programs.Pools, log)
	}()
	web := &http.Server{
		Handler: console.New(o), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    stdlog.New(io.Discard, "", 0),
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for told := false; ctx.Err() == nil; {
			ln, err := net.Listen("tcp", k.Listen)
			if err == nil {
				if secure {
					ln = tls.NewListener(ln, certificate.config())
				}
				log.Info("console ready", "url", o.URL)
				if err = web.Serve(ln); errors.Is(err, http.ErrServerClosed) {
					return
				}
			}
			if !told {
				log.Error("no console: it cannot listen; it is tried again every second", "listen", k.Listen, "err", err)
				told = true
			}
			select {
			case <-ctx.Done():
			case <-time.After(rebindConsole):
			}
		}
	}()
	return func() {
		cancel()
		_ = web.Close()
		<-served
		<-sampled
		closeLogin()
	}, nil
}

// consoleInbox is the Inbox of the console.
type consoleInbox struct{ *inbox.Inbox }

func (b consoleInbox) Next(ctx context.Context, after uint64) (uint64, map[string]string, bool, error) {
	s, err := b.Inbox.Next(ctx, after)
	return s.Version, s.Asks, s.Stale, err
}

func (b consoleInbox) Recent() ([]protocol.Approval, map[string]string, bool) {
	open, s, known := b.Inbox.Recent()
	return open, s.Asks, known
}

// linkKey reads the key of one-time links.
func linkKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the key of the console's links: %w", err)
	}
	defer f.Close()
	if i, err := f.Stat(); err != nil || !i.Mode().IsRegular() || secretfile.Exposed(i) {
		return nil, fmt.Errorf("read the key of the console's links: %s must be a file that nobody else can read: chmod 600 it", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return nil, fmt.Errorf("read the key of the console's links: %w", err)
	}
	key, err := base64.RawURLEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) < 32 {
		return nil, fmt.Errorf("read the key of the console's links: %s holds none", path)
	}
	return key, nil
}
