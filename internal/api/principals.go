package api

import (
	"context"
	"errors"
	"net/http"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/authority"
)

// Objects says what conditions of the access file see of things. If known is false, the thing
// does not exist any more, such as a session that Temporal has deleted. An error means that
// the object is not known now.
type Objects interface {
	Session(ctx context.Context, id string) (o access.Object, known bool, err error)
	Batch(ctx context.Context, id string) (o access.Object, known bool, err error)
	// Host returns a host of this worker's zone.
	Host(ctx context.Context, name string) (o access.Object, known bool, err error)
	// Login returns the seed of a login that runs or ran on a host.
	Login(ctx context.Context, host, id string) (o access.Object, known bool, err error)
}

// A caller is who makes a request.
type caller struct {
	principal string
	groups    []string     // that its certificate names
	key       string       // fingerprint of the key that signed
	token     access.Token // with which it calls, or none
	source    string       // how the principal is known, as in audit records
	body      string       // digest, as signed; empty if the caller signed nothing
	// holds says why the proof does not count any more, or returns "".
	holds func() string
}

type callerKey struct{}

// callerOf returns who makes a request, or nil if the worker has no authority.
func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}

// by returns the principal of a request, or what the request itself says where the worker
// has no authority.
func by(ctx context.Context, said string) string {
	if c := callerOf(ctx); c != nil {
		return c.principal
	}
	return said
}

// ErrOtherWorker is the kind of an error: a request was signed for another worker. A Client
// signs it anew.
const ErrOtherWorker = "other_worker"

const signHint = "each request must prove who makes it: set principal and sign_with, or token_file, in the config of ctl; an older ctl cannot sign requests"

// locked returns the handler of a route for those who may use it.
func (s *Server) locked(to route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.opts.Authority == nil {
			if (to.program != nil || to.strict) && !to.open && s.openToAll() && insideOf(r) == nil {
				failAt(s, w, r, problem(http.StatusForbidden, ErrForbidden, openToAll).hinted(openToAllHint))
				return
			}
			to.serve(s, w, r)
			return
		}
		c, err := s.callers.proveAny(r, to)
		if err != nil {
			var e *Error
			if to.open && !(errors.As(err, &e) && e.Kind == ErrOtherWorker) {
				to.serve(s, w, r.WithContext(context.WithValue(r.Context(), callerKey{}, &caller{})))
				return
			}
			if !to.open {
				refused(&s.opts, c, to, r, err)
			}
			failAt(s, w, r, err)
			return
		}
		known := context.WithValue(r.Context(), callerKey{}, c)
		n, err := to.needs(r.WithContext(known)) // which refuses a folder of somebody else
		if err == nil {
			n, err = s.callers.allow(r.Context(), c, n)
		}
		if err != nil {
			s.log.Info("api request refused", "principal", c.principal, "method", r.Method, "path", r.URL.Path, "err", err)
			if !to.open {
				refused(&s.opts, c, to, r, err)
			}
			failAt(s, w, r, err)
			return
		}
		ctx, cancel := context.WithCancelCause(known)
		defer cancel(nil)
		stop := s.callers.watch(c, n, cancel)
		defer stop()
		to.serve(s, w, r.WithContext(ctx))
	}
}

// An Authority says whose requests count; *[authority.Keeper] implements it.
type Authority interface {
	Current() *access.Access
	Decide(access.Request) access.Answer
	Could(access.Request) access.Answer
	// Ended says why a principal does not count any more, or returns "".
	Ended(who string) string
}

var _ Authority = (*authority.Keeper)(nil)
