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
	"github.com/nicholas-fedor/shoutrrr/pkg/types"
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

// guard lets the guard watch a service's connections. It reports whether it can.
func guard(service types.Service, client *http.Client) bool {
	switch known := service.(type) {
	case guarded:
		known.SetHTTPClient(client)
	case *discord.Service:
		known.HTTPClient = client
	case *rocketchat.Service:
		known.Client = client
	default:
		return false
	}
	return true
}

// Phases of an attempt.
const (
	beginning int32 = iota // nothing of the message was sent
	underway
	late // it is not to be sent any more
)

// shoutrrr sends a message by a service that shoutrrr knows. Its errors may hold the URL, which
// is the secret, so they are not told.
func (s *Sender) shoutrrr(ctx context.Context, r *Rules, c channel, m Message) Outcome {
	url, err := r.secret(c.URLFile)
	if err != nil {
		return unsent(err)
	}
	var all router.ServiceRouter
	// Locate may already dial, so it comes after this look at the URL's scheme.
	const useless = "shoutrrr cannot use the URL in url_file"
	scheme, _, err := all.ExtractServiceName(url)
	if err != nil {
		return failed(useless)
	}
	blank, err := all.NewService(scheme)
	if err != nil {
		return failed(useless)
	}
	client, wire := r.watched()
	seen := &answered{RoundTripper: client.Transport}
	client.Transport = seen
	name, watched := blank.GetID(), guard(blank, client)
	if !watched && !c.Unguarded {
		return failed("shoutrrr's service %s dials by itself, so private addresses cannot be refused: set unguarded: true to allow that", name)
	}
	var phase atomic.Int32
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("shoutrrr failed")
			}
		}()
		service, err := all.Locate(url)
		if err == nil && watched && !guard(service, client) {
			err = errPrivate
		}
		if err != nil || !phase.CompareAndSwap(beginning, underway) {
			done <- err
			return
		}
		done <- service.Send(strings.TrimSpace(m.Text(r.Inbox())), nil)
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		if phase.CompareAndSwap(beginning, late) {
			return Outcome{Result: Retry, Reason: "the service " + name + " cannot be reached in time"}
		}
		return Outcome{Result: Unknown, Reason: "the service gave no answer in time"}
	}
	if phase.Load() == beginning {
		if watched { // it did not dial
			return failed(useless)
		}
		return Outcome{Result: Retry, Reason: "the service " + name + " lets nobody log in, or its URL in url_file is wrong"}
	}
	code := int(seen.code.Load())
	switch {
	case err == nil:
		return Outcome{Result: Sent}
	case !watched:
		return Outcome{Result: Unknown, Reason: "the service " + name + " reported an error"}
	case code >= 300:
		return status(code, "")
	case code == 0 && errors.Is(err, errPrivate):
		return failed("%v", errPrivate)
	case code == 0 && !wire.wrote.Load():
		return Outcome{Result: Retry, Reason: "the service " + name + " cannot be reached"}
	}
	return Outcome{Result: Unknown, Reason: "the service " + name + " answered what shoutrrr does not understand"}
}
