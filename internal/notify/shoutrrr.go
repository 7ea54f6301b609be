package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/discord"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/rocketchat"
)

// guarded is a service of shoutrrr whose connections the guard can watch.
type guarded interface{ SetHTTPClient(*http.Client) }

// An answered client remembers the last status that a server gave.
type answered struct {
	http.RoundTripper
	code atomic.Int64
}

func (a *answered) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := a.RoundTripper.RoundTrip(req)
	if err == nil {
		a.code.Store(int64(resp.StatusCode))
	}
	return resp, err
}

// shoutrrr sends a message by a service that shoutrrr knows. Its errors may hold the URL, which
// is the secret, so they are not told.
func (s *Sender) shoutrrr(ctx context.Context, r *Rules, c channel, m Message) Outcome {
	url, err := r.secret(c.URLFile)
	if err != nil {
		return unsent(err)
	}
	var all router.ServiceRouter
	service, err := all.Locate(url)
	if err != nil {
		return failed("shoutrrr cannot use the URL in url_file")
	}
	client, wire := r.watched()
	seen := &answered{RoundTripper: client.Transport}
	client.Transport = seen
	watched := true
	switch known := service.(type) {
	case guarded:
		known.SetHTTPClient(client)
	case *discord.Service:
		known.HTTPClient = client
	case *rocketchat.Service:
		known.Client = client
	default:
		watched = false
		if !c.Unguarded {
			return failed("shoutrrr's service %s dials by itself, so private addresses cannot be refused: set unguarded: true to allow that", service.GetID())
		}
	}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("shoutrrr failed")
			}
		}()
		done <- service.Send(strings.TrimSpace(m.Text(r.Inbox())), nil)
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		return Outcome{Result: Unknown, Reason: "the service gave no answer in time"}
	}
	code := int(seen.code.Load())
	switch {
	case err == nil:
		return Outcome{Result: Sent}
	case !watched:
		return Outcome{Result: Unknown, Reason: "the service " + service.GetID() + " reported an error"}
	case code >= 300:
		return status(code, "")
	case code == 0 && errors.Is(err, errPrivate):
		return failed("%v", errPrivate)
	case code == 0 && !wire.wrote.Load():
		return Outcome{Result: Retry, Reason: "the service " + service.GetID() + " cannot be reached"}
	}
	return Outcome{Result: Unknown, Reason: "the service " + service.GetID() + " answered what shoutrrr does not understand"}
}
