package conn

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/internal/dial"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/cmd/internal/traces"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/stack"
)

// connectWait bounds the first connection. A server may be restarting.
const connectWait = 5 * time.Second

// A Conn is a connection to Temporal that returns ctl's own errors.
type Conn struct {
	*flows.Conn
	App    *core.App
	From   string   // source of the address: flags, environment, config or stack
	warned sync.Map // addresses of workers that are not asked
}

// With returns a connection over a client.
func With(a *core.App, c client.Client, codec *payload.Codec) *Conn {
	t := &Conn{App: a}
	t.Conn = &flows.Conn{Client: c, Codec: codec, Side: side{t}}
	return t
}

func endpoint(a *core.App) (*dial.Target, error) {
	env, err := dial.Environment()
	if err != nil {
		return nil, core.Usage("%v", err).Hinted("check TEMPORAL_CONFIG_FILE and TEMPORAL_PROFILE")
	}
	conf, err := a.Config()
	if err != nil {
		return nil, err
	}
	fromFile, err := dial.Config(conf)
	if err != nil {
		return nil, core.Usage("%v", err)
	}
	sources := []dial.Source{dial.Flags(a.Flags.Address, a.Flags.Namespace), env, fromFile}
	info, err := Stack(a)
	switch {
	case err == nil:
		sources = append(sources, dial.Stack(info.Temporal.Address, info.Temporal.Namespace, info.PayloadKey, info.PayloadsSince, info.TLS()))
	case !errors.Is(err, stack.ErrNone):
		return nil, stackFailure(err)
	}
	target, err := dial.Resolve(sources...)
	if err != nil {
		return nil, core.Usage("%v", err)
	}
	if target.HostPort == "" {
		return nil, core.Unreachable("reach Temporal: no address is known").
			Hinted("`ctl up` starts a server on this machine; --address or TEMPORAL_ADDRESS names another")
	}
	return target, nil
}

// Stack reads the description of the local stack from the state folder. Without one it
// returns stack.ErrNone.
func Stack(a *core.App) (*stack.Info, error) {
	dir, err := a.StateDir()
	if err != nil {
		return nil, err
	}
	return stack.Read(dir)
}

// stackFailure keeps an error of ctl's own, with its hint.
func stackFailure(err error) error {
	var e *core.Error
	if errors.As(err, &e) {
		return err
	}
	return core.Failed("%v", err)
}

func stackRuns(a *core.App) bool {
	dir, err := a.StateDir()
	if err != nil {
		return false
	}
	running, err := stack.Running(dir)
	return err == nil && running
}

// Open connects to Temporal within a bounded time. The connection is closed when ctl ends.
func Open(ctx context.Context, a *core.App) (*Conn, error) {
	target, err := endpoint(a)
	if err != nil {
		return nil, err
	}
	opts, from := target.Options, target.From
	if info, err := Stack(a); from == "stack" && err == nil && info.Certificates == nil {
		return nil, core.Unreachable("reach Temporal at %s (from %s): an earlier version runs this stack, and cannot read what this ctl sends", opts.HostPort, from).
			Hinted("`ctl down`, then `ctl up`: sessions go on")
	}
	opts.Logger = temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	opts.Identity = "ctl@" + core.Hostname()
	spans, err := openTraces(ctx, a)
	if err != nil {
		return nil, err
	}
	opts.Interceptors = append(spans.Interceptors(), opts.Interceptors...)
	ctx, cancel := context.WithTimeout(ctx, min(connectWait, a.Wait(connectWait)))
	defer cancel()
	c, err := client.DialContext(ctx, opts)
	for err != nil && from == "stack" && stackRuns(a) && ctx.Err() == nil {
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
		if opts.ConnectionOptions.TLS == nil && wantsTLS(err) {
			hint = "the server wants TLS, as that of `ctl up` does: name the stack's state folder (--state), or set temporal.tls in the config"
		}
		return nil, core.Unreachable("reach Temporal at %s (from %s): %s", opts.HostPort, from, FirstSentence(err)).Hinted("%s", hint).Because(err)
	}
	a.OnClose(closer(c.Close))
	t := With(a, c, target.Codec)
	t.Address, t.Namespace, t.From = opts.HostPort, opts.Namespace, from
	return t, t.maySend(ctx)
}

// openTraces begins to record traces if the config asks for them. The spans that wait are sent when
// ctl ends.
func openTraces(ctx context.Context, a *core.App) (*traces.Traces, error) {
	conf, err := a.Config()
	if err != nil {
		return nil, err
	}
	spans, err := traces.Open(ctx, conf.Traces, "fairlead-ctl", nil)
	if err != nil {
		return nil, core.Usage("%v", err)
	}
	if spans == nil {
		return nil, nil
	}
	a.OnClose(closer(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), spansWait)
		defer cancel()
		spans.Close(ctx)
	}))
	return spans, nil
}

// spansWait bounds sending the last spans.
const spansWait = 2 * time.Second

// wantsTLS reports whether a server answered, but not in the clear.
func wantsTLS(err error) bool {
	text := err.Error()
	return strings.Contains(text, "reading server preface") && !strings.Contains(text, "connection refused")
}

// maySend returns an error if the workers have a payload key and ctl has none. Otherwise
// Temporal would keep ctl's messages unencrypted, and ctl could not read the answers.
func (t *Conn) maySend(ctx context.Context) error {
	if _, ok := t.Codec.Encrypts(); ok {
		return nil
	}
	conf, err := t.App.Config()
	if err != nil {
		return err
	}
	err = dial.Readable(ctx, t.Client, t.Namespace, t.Codec, protocol.PoolID(conf.Zone))
	if errors.Is(err, payload.ErrNoKey) {
		return core.Usage("use Temporal at %s: its payloads are encrypted, and ctl has no payload key", t.Address).
			Hinted("name a copy of the workers' key file as temporal.payload_key in the config; a stack of `ctl up` has it in its state folder (--state)").Because(err)
	}
	return nil // the command reports other failures better
}

type closer func()

func (c closer) Close() error { c(); return nil }
