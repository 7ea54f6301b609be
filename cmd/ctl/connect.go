package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"

	"fairlead.dev/fairlead/cmd/internal/dial"
	"fairlead.dev/fairlead/internal/stack"
)

// connectWait bounds the first contact with Temporal: long enough for a server
// that is just being restarted.
const connectWait = 5 * time.Second

// answerWait is how long ctl waits for a worker to answer.
const answerWait = 10 * time.Second

// A temporal is a connection to Temporal whose errors are ctl's own.
type temporal struct {
	client.Client
	app       *app
	address   string
	namespace string
	from      string // flags, environment, config, stack
	silence   silence
}

// endpoint is where Temporal is said to be.
func (a *app) endpoint() (client.Options, string, error) {
	env, err := dial.Environment()
	if err != nil {
		return client.Options{}, "", usage("%v", err).hinted("check TEMPORAL_CONFIG_FILE and TEMPORAL_PROFILE")
	}
	conf, err := a.config()
	if err != nil {
		return client.Options{}, "", err
	}
	fromFile, err := dial.Config(conf)
	if err != nil {
		return client.Options{}, "", usage("%v", err)
	}
	sources := []dial.Source{dial.Flags(a.flags.address, a.flags.namespace), env, fromFile}
	info, err := a.stack()
	switch {
	case err == nil:
		sources = append(sources, dial.Stack(info.Temporal.Address, info.Temporal.Namespace))
	case !errors.Is(err, stack.ErrNone):
		return client.Options{}, "", failed("%v", err)
	}
	opts, from, err := dial.Resolve(sources...)
	if err != nil {
		return opts, "", usage("%v", err)
	}
	if opts.HostPort == "" {
		return opts, "", unreachable("reach Temporal: no address is known").
			hinted("`ctl up` starts a server on this machine; --address or TEMPORAL_ADDRESS names another")
	}
	return opts, from, nil
}

// stack reads what a local stack left in the state folder; stack.ErrNone where
// there is none.
func (a *app) stack() (*stack.Info, error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	return stack.Read(dir)
}

// stackRuns says whether the local stack has a supervisor.
func (a *app) stackRuns() bool {
	dir, err := a.stateDir()
	if err != nil {
		return false
	}
	running, err := stack.Running(dir)
	return err == nil && running
}

// temporal connects, within a bounded time. The connection ends with ctl.
func (a *app) temporal(ctx context.Context) (*temporal, error) {
	opts, from, err := a.endpoint()
	if err != nil {
		return nil, err
	}
	opts.Logger = temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	opts.Identity = "ctl@" + hostname()
	ctx, cancel := context.WithTimeout(ctx, min(connectWait, a.wait(connectWait)))
	defer cancel()
	c, err := client.DialContext(ctx, opts)
	for err != nil && from == "stack" && a.stackRuns() && ctx.Err() == nil {
		// Its supervisor is just bringing the server back.
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
			c, err = client.DialContext(ctx, opts)
		}
	}
	if err != nil {
		hint := "is the server up? check the address"
		if from == "stack" {
			hint = "`ctl up` starts it; `ctl doctor` says what is wrong"
		}
		return nil, unreachable("reach Temporal at %s (from %s): %s", opts.HostPort, from, firstSentence(err)).hinted("%s", hint).because(err)
	}
	a.onClose(closer(c.Close))
	return &temporal{Client: c, app: a, address: opts.HostPort, namespace: opts.Namespace, from: from}, nil
}

type closer func()

func (c closer) Close() error { c(); return nil }
