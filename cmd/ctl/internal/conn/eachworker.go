package conn

import (
	"context"
	"errors"
	"slices"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/stack"
)

// EachWorker asks the workers of the config's zone, until ask returns nil for one of them.
// It needs no status of a worker, and so no token of its API. First come the addresses of
// the config and of the state folder, then those that Temporal names and ctl may ask. The
// error is that of the first worker that answered, or else says which workers did not.
func EachWorker(ctx context.Context, a *core.App, ask func(context.Context, *api.Client) error) error {
	conf, err := a.Config()
	if err != nil {
		return err
	}
	queue := protocol.TaskQueueOf(conf.Zone)
	s := &search{app: a, queue: queue}
	var said error
	var own *core.Error // of ctl's own key or token, so the next worker cannot help
	try := func(endpoint string, open func(*core.App, string) (*api.Client, error)) bool {
		if slices.Contains(s.tried, endpoint) {
			return false
		}
		s.tried = append(s.tried, endpoint)
		c, err := open(a, endpoint)
		if err == nil {
			err = ask(ctx, c)
		}
		var answer *api.Error
		switch {
		case err == nil:
			return true
		case errors.As(err, &own):
		case errors.As(err, &answer) && said == nil:
			said = err
		case distrusts(err), c == nil:
			s.refused = append(s.refused, endpoint+": "+err.Error())
		}
		return false
	}
	endpoints := configured(conf.API)
	switch info, err := Stack(a); {
	case err == nil:
		for _, w := range info.Workers {
			if w.API != "" {
				endpoints = append(endpoints, w.API)
			}
		}
	case !errors.Is(err, stack.ErrNone):
		return stackFailure(err)
	}
	for _, endpoint := range endpoints {
		if try(endpoint, apiClient) {
			return nil
		}
		if own != nil {
			return own
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case said != nil: // all workers of a zone have one configuration
		return said
	}
	t, err := Open(ctx, a)
	if err == nil {
		for _, endpoint := range t.apisOf(ctx, queue) {
			if try(endpoint, hinted) {
				return nil
			}
			if own != nil {
				return own
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case said != nil:
		return said
	case len(s.tried) == 0 && err != nil:
		return err
	}
	return s.failure()
}
