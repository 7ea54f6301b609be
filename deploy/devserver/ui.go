package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
)

// webUI may be nil.
type webUI struct {
	server *uiserver.Server
	done   chan struct{}
	url    string
}

// startUI serves the Web UI and returns when it answers. The port must be free: the UI
// server ends the process if it cannot listen.
func startUI(ctx context.Context, o *options) (*webUI, error) {
	if o.headless {
		return nil, nil
	}
	host := o.uiIP
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	u := &webUI{
		server: uiserver.NewServer(uioptions.WithConfigProvider(&uiconfig.Config{
			Host:                host,
			Port:                o.uiPort,
			TemporalGRPCAddress: hostPort(o.ip, o.port),
			EnableUI:            true,
			DefaultNamespace:    o.namespaces[0],
			Codec:               uiconfig.Codec{Endpoint: o.codec},
			CORS:                uiconfig.CORS{CookieInsecure: true}, // plain HTTP
			DisableNewsFetch:    true,
			HideLogs:            true,
		})),
		done: make(chan struct{}),
		url:  "http://" + hostPort(o.uiIP, o.uiPort),
	}
	go func() {
		defer close(u.done)
		u.server.Start() // its only error ends the process
	}()
	if err := u.wait(ctx); err != nil {
		u.stop()
		return nil, err
	}
	return u, nil
}

func (u *webUI) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url+"/healthz", nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("it answers %s", res.Status)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("start the Web UI at %s: %w", u.url, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
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
	u.server.Stop()
	<-u.done
}
