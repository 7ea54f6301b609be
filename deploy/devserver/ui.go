package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	stdlog "log"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	uiapi "github.com/temporalio/ui-server/v2/server/api"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/csrf"
	uiheaders "github.com/temporalio/ui-server/v2/server/headers"
	uiroute "github.com/temporalio/ui-server/v2/server/route"
	"github.com/temporalio/ui-server/v2/ui"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// webUI may be nil.
type webUI struct {
	server *http.Server
	done   chan struct{}
	url    string
}

// startUI serves the Web UI behind a guard.
func startUI(o *options, logger log.Logger) (*webUI, error) {
	if o.headless {
		return nil, nil
	}
	g, err := newGuard(o)
	if err != nil {
		return nil, fmt.Errorf("start the Web UI: %w", err)
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(o.uiIP, strconv.Itoa(o.uiPort)))
	if err != nil {
		return nil, fmt.Errorf("start the Web UI: %w", err)
	}
	u := &webUI{
		server: &http.Server{
			Handler: g, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
			ErrorLog: stdlog.New(io.Discard, "", 0),
		},
		done: make(chan struct{}),
		url:  "http://" + hostPort(o.uiIP, o.uiPort),
	}
	go func() {
		defer close(u.done)
		if err := u.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("the Web UI stopped", tag.Error(err))
		}
	}()
	return u, nil
}

func newGuard(o *options) (*guard, error) {
	g := &guard{cookie: cookieName(o.uiPort)}
	if net.ParseIP(o.uiIP).IsLoopback() {
		g.hosts = ownHosts(o.uiIP, o.uiPort)
	}
	token := func(file string) (string, error) {
		if file == "" {
			return "", nil
		}
		return readToken(file)
	}
	var err error
	if g.token, err = token(o.codecToken); err != nil {
		return nil, fmt.Errorf("--ui-codec-token: %w", err)
	}
	if o.codecUpstream != "" {
		shown, err := token(o.codecUpstreamToken)
		if err != nil {
			return nil, fmt.Errorf("--ui-codec-upstream-token: %w", err)
		}
		if g.codec, err = newCodecProxy(o.codecUpstream, shown); err != nil {
			return nil, fmt.Errorf("--ui-codec-upstream: %w", err)
		}
	}
	if o.login != "" {
		if g.login, err = newLogin(o.login); err != nil {
			return nil, err
		}
	}
	g.next, err = uiHandler(o)
	return g, err
}

// uiHandler is the ui-server's own server.NewServer without a listener, which it cannot be
// kept from opening otherwise.
func uiHandler(o *options) (http.Handler, error) {
	address := hostPort(o.ip, o.port)
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	conf := &uiconfig.Config{
		TemporalGRPCAddress: address,
		EnableUI:            true,
		DefaultNamespace:    o.namespaces[0],
		Codec:               uiconfig.Codec{Endpoint: o.codec},
		CORS:                uiconfig.CORS{CookieInsecure: true}, // plain HTTP
		DisableNewsFetch:    true,
		HideLogs:            true,
	}
	if o.codecUpstream != "" {
		conf.Codec.Endpoint = cmp.Or(o.codec, codecPath) // of the page's own origin
	}
	if o.tls.on() {
		conf.TLS = uiconfig.TLS{CaFile: o.tls.ca, CertFile: o.tls.cert, KeyFile: o.tls.key, ServerName: host, EnableHostVerification: true}
	}
	provider, err := uiconfig.NewConfigProviderWithRefresh(conf)
	if err != nil {
		return nil, err
	}
	assets, err := ui.Assets()
	if err != nil {
		return nil, err
	}
	if assets, err = fs.Sub(assets, "local"); err != nil {
		return nil, err
	}
	e := echo.New()
	e.Use(middleware.Recover(), middleware.Gzip(), middleware.Secure(),
		csrf.EnsureTokenCookie(false), middleware.CSRFWithConfig(csrf.MiddlewareConfig(provider, false)))
	uiroute.SetHealthRoute(e)
	if err := uiroute.SetAPIRoutes(e, provider, []uiapi.Middleware{uiheaders.WithForwardHeaders([]string{"Caller-Type"})}); err != nil {
		return nil, err
	}
	if err := uiroute.SetUIRoutes(e, "", assets, provider); err != nil {
		return nil, err
	}
	uiroute.SetRenderRoute(e, "/")
	return e, nil
}

func (u *webUI) address() string {
	if u == nil {
		return ""
	}
	return u.url
}

func (u *webUI) stop() {
	if u == nil {
		return
	}
	_ = u.server.Close() // what it serves ends with the process
	<-u.done
}
