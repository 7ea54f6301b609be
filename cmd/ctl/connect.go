package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"

	"fairlead.dev/fairlead/cmd/internal/dial"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/stack"
	"fairlead.dev/fairlead/workflows"
)

// connectWait bounds the first connection to Temporal. It is long enough for a server that
// is restarting.
const connectWait = 5 * time.Second

// answerWait is how long ctl waits for a worker to answer.
const answerWait = 10 * time.Second

// A temporal is a connection to Temporal that returns ctl's own errors.
type temporal struct {
	client.Client
	app       *app
	address   string
	namespace string
	from      string // the source of the address: flags, environment, config or stack
	codec     *payload.Codec
	silence   silence
}

// endpoint finds the address of Temporal.
func (a *app) endpoint() (*dial.Target, error) {
	env, err := dial.Environment()
	if err != nil {
		return nil, usage("%v", err).hinted("check TEMPORAL_CONFIG_FILE and TEMPORAL_PROFILE")
	}
	conf, err := a.config()
	if err != nil {
		return nil, err
	}
	fromFile, err := dial.Config(conf)
	if err != nil {
		return nil, usage("%v", err)
	}
	sources := []dial.Source{dial.Flags(a.flags.address, a.flags.namespace), env, fromFile}
	info, err := a.stack()
	switch {
	case err == nil:
		sources = append(sources, dial.Stack(info.Temporal.Address, info.Temporal.Namespace, info.PayloadKey))
	case !errors.Is(err, stack.ErrNone):
		return nil, failed("%v", err)
	}
	target, err := dial.Resolve(sources...)
	if err != nil {
		return nil, usage("%v", err)
	}
	if target.HostPort == "" {
		return nil, unreachable("reach Temporal: no address is known").
			hinted("`ctl up` starts a server on this machine; --address or TEMPORAL_ADDRESS names another")
	}
	return target, nil
}

// stack reads the description of the local stack from the state folder. It returns
// stack.ErrNone if there is none.
func (a *app) stack() (*stack.Info, error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	return stack.Read(dir)
}

// stackRuns reports whether the supervisor of the local stack runs.
func (a *app) stackRuns() bool {
	dir, err := a.stateDir()
	if err != nil {
		return false
	}
	running, err := stack.Running(dir)
	return err == nil && running
}

// temporal connects to Temporal within a bounded time. The connection is closed when ctl
// ends.
func (a *app) temporal(ctx context.Context) (*temporal, error) {
	target, err := a.endpoint()
	if err != nil {
		return nil, err
	}
	opts, from := target.Options, target.From
	opts.Logger = temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	opts.Identity = "ctl@" + hostname()
	ctx, cancel := context.WithTimeout(ctx, min(connectWait, a.wait(connectWait)))
	defer cancel()
	c, err := client.DialContext(ctx, opts)
	for err != nil && from == "stack" && a.stackRuns() && ctx.Err() == nil {
		// The supervisor is restarting the server.
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
	t := &temporal{Client: c, app: a, address: opts.HostPort, namespace: opts.Namespace, from: from, codec: target.Codec}
	return t, t.maySend(ctx)
}

// maySend refuses to go on without a payload key if the workers have one. Temporal would
// keep what ctl sends unencrypted, and ctl could not read the answers.
func (t *temporal) maySend(ctx context.Context) error {
	if _, ok := t.codec.Encrypts(); ok {
		return nil
	}
	conf, err := t.app.config()
	if err != nil {
		return err
	}
	err = dial.Readable(ctx, t.Client, t.namespace, t.codec, workflows.PoolID(conf.Zone))
	if errors.Is(err, payload.ErrNoKey) {
		return usage("speak with Temporal at %s: its payloads are encrypted, and this ctl has no key", t.address).
			hinted("name a copy of the workers' key file as temporal.payload_key in the config; a stack of `ctl up` has it in its state folder (--state)").because(err)
	}
	return nil // other failures are reported better by the command itself
}

type closer func()

func (c closer) Close() error { c(); return nil }
