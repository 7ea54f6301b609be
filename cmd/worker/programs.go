package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"time"

	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"

	"fairlead.dev/fairlead/cmd/internal/apiflows"
	"fairlead.dev/fairlead/cmd/internal/dial"
	"fairlead.dev/fairlead/cmd/internal/inbox"
	"fairlead.dev/fairlead/cmd/internal/traces"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/passkey"
)

// offerPrograms serves the HTTP API for programs. Its commands need connectPrograms, too. The inbox
// is of the same connection.
func offerPrograms(ctx context.Context, opts *api.Options, conf *config.Config, keys *passkey.Book, log *slog.Logger) (*apiflows.Backend, *inbox.Inbox, error) {
	o := apiflows.Options{Owner: owner(), Passkeys: keys, Zone: conf.Zone, Logger: log, Workers: colleagues(conf, opts)}
	if conf.Authority == config.AuthorityRequired {
		key, err := signingKey(conf)
		if err != nil {
			return nil, nil, err
		}
		o.Key, o.Keeper = key, func() *authority.Keeper { return bystander(conf) }
	}
	var open *inbox.Inbox
	o.Asking = func() []string { return open.Open() }
	b := apiflows.New(o)
	open = inbox.New(ctx, b, log)
	opts.Programs = func(r *api.Records) api.Programs {
		b.Keep(r)
		return httpapi.New(b, r)
	}
	return b, open, nil
}

// bystander returns a keeper that judges commands which Temporal keeps and no worker has judged
// yet. It does not judge whether old runs may go on: workers do. It is nil if the access file
// cannot be used now.
func bystander(conf *config.Config) *authority.Keeper {
	k, err := authority.Open(conf.Access, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil
	}
	k.AllowBefore(time.Now().AddDate(1, 0, 0))
	return k
}

// owner returns user@machine, as ctl names its user.
func owner() string {
	name := "somebody"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	machine, err := os.Hostname()
	if err != nil {
		machine = fmt.Sprintf("pid%d", os.Getpid())
	}
	return name + "@" + machine
}

// connectPrograms gives the API for programs a client over the worker's connection. It writes
// without the keys of workers, as ctl does, so nothing that a program asks for counts as a
// worker's.
func connectPrograms(ctx context.Context, conf *config.Config, c client.Client, b *apiflows.Backend, spans *traces.Traces, log *slog.Logger) (client.Client, *dial.Target, error) {
	opts, err := target(conf)
	if err != nil {
		return nil, nil, err
	}
	opts.Logger = temporallog.NewStructuredLogger(log)
	opts.Interceptors = append(spans.Interceptors(), opts.Interceptors...)
	own, err := client.NewClientFromExistingWithContext(ctx, c, opts.Options)
	if err != nil {
		return nil, nil, fmt.Errorf("connect the API for programs: %w", err)
	}
	b.Connect(own, opts.Codec, opts.HostPort, opts.Namespace)
	return own, opts, nil
}

// target says how to reach Temporal.
func target(conf *config.Config) (*dial.Target, error) {
	env, err := dial.Environment()
	if err != nil {
		return nil, err
	}
	file, err := dial.Config(conf)
	if err != nil {
		return nil, err
	}
	return dial.Resolve(env, file, dial.Stack(client.DefaultHostPort, "", "", time.Time{}, nil))
}
