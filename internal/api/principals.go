package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/tokens"
)

// Objects says what conditions of the access file see of things. If known is false, the thing
// does not exist any more, such as a session that Temporal has deleted. An error means that
// the object is not known now.
type Objects interface {
	Session(ctx context.Context, id string) (o access.Object, known bool, err error)
	Batch(ctx context.Context, id string) (o access.Object, known bool, err error)
	// Login returns the seed of a login that runs or ran on a host.
	Login(ctx context.Context, host, id string) (o access.Object, known bool, err error)
}

// A caller is who makes a request.
type caller struct {
	principal string
	groups    []string     // that its certificate names
	key       string       // fingerprint of the key that signed
	token     access.Token // with which it calls, or none
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
			to.serve(s, w, r)
			return
		}
		c, err := s.prove(r, to)
		if err != nil {
			var e *Error
			if to.open && !(errors.As(err, &e) && e.Kind == ErrOtherWorker) {
				to.serve(s, w, r.WithContext(context.WithValue(r.Context(), callerKey{}, &caller{})))
				return
			}
			s.fail(w, err)
			return
		}
		n, err := to.needs(r)
		if err == nil {
			n, err = s.allow(r.Context(), c, n)
		}
		if err != nil {
			s.log.Info("api request refused", "principal", c.principal, "method", r.Method, "path", r.URL.Path, "err", err)
			s.fail(w, err)
			return
		}
		ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), callerKey{}, c))
		defer cancel(nil)
		stop := s.watch(c, n, cancel)
		defer stop()
		to.serve(s, w, r.WithContext(ctx))
	}
}

// prove finds out who makes a request.
func (s *Server) prove(r *http.Request, to route) (*caller, error) {
	now := time.Now()
	unauthorized := func(err error) error {
		return problem(http.StatusUnauthorized, ErrUnauthorized, "this request does not count: %v", err).hinted(signHint)
	}
	if secret, ok := apiToken(r); ok {
		c, err := s.proveToken(secret)
		if err != nil {
			return nil, unauthorized(err)
		}
		return c, nil
	}
	if len(r.Header.Values(command.RequestHeader)) > 1 {
		return nil, unauthorized(errors.New("it has several headers " + command.RequestHeader))
	}
	signed, err := command.CheckRequest(r.Header.Get(command.RequestHeader), r.Method, r.RequestURI, s.opts.Authority.Current(), now)
	if err != nil {
		return nil, unauthorized(err)
	}
	if signed.Worker != s.id {
		return nil, problem(http.StatusUnauthorized, ErrOtherWorker, "this request does not count: it was signed for another worker process, or for this one before it started again").hinted("send it again, signed for the process that the header " + command.WorkerHeader + " names")
	}
	if signed.ByWorker && !to.worker {
		return nil, problem(http.StatusForbidden, ErrForbidden, "the key of a worker reads the status of workers, and nothing else")
	}
	if err := s.nonces.use(signed, now); err != nil {
		return nil, unauthorized(err)
	}
	if !to.head {
		r.Body = command.SignedBody(r.Body, signed.Body)
	}
	return &caller{principal: signed.Principal, groups: signed.Groups, key: signed.Fingerprint, body: signed.Body, holds: func() string {
		return cmp.Or(s.opts.Authority.Current().Revoked(signed.Key), s.opts.Authority.Ended(signed.Principal))
	}}, nil
}

// apiToken returns the API token of a request.
func apiToken(r *http.Request) (string, bool) {
	secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return secret, ok && strings.HasPrefix(secret, tokens.Prefix)
}

func (s *Server) proveToken(secret string) (*caller, error) {
	switch {
	case s.opts.Tokens == nil:
		return nil, errors.New("this worker takes no API tokens")
	case !s.secure:
		return nil, errors.New("API tokens are taken over a unix socket or TLS only")
	}
	t, err := s.opts.Tokens.Shown(secret)
	if err != nil {
		return nil, err
	}
	who := t.Principal()
	if why := s.opts.Authority.Ended(who); why != "" {
		return nil, errors.New(why)
	}
	return &caller{principal: who, token: t, holds: func() string { return s.opts.Authority.Ended(who) }}, nil
}

// allow refuses what a principal may not do. The need that it returns has all that is known
// of the object.
func (s *Server) allow(ctx context.Context, c *caller, n need) (need, error) {
	switch {
	case n.verb == "" && n.begins == "":
		return n, nil
	case n.verb == "":
		return n, s.refusal(n, s.opts.Authority.Could(c.asks(n.begins, access.Object{})))
	}
	if n.session == "" && n.batch == "" && n.command == "" {
		return n, s.refusal(n, s.judge(c, n))
	}
	// Most principals need no condition, and then nobody has to be asked.
	blind := n
	blind.object = access.Object{Session: n.session, Host: n.object.Host, Unknown: true}
	if n.begins == "" && s.judge(c, blind).Allowed {
		return blind, nil
	}
	if n.command != "" {
		if a := s.opts.Authority.Could(c.asks(n.verb, access.Object{})); !a.Allowed {
			return n, s.refusal(n, a)
		}
	}
	o, known, err := s.find(ctx, n)
	switch {
	case err != nil:
		return n, problem(http.StatusServiceUnavailable, ErrStore, "find out whether %s may do this: %v", c.principal, err).hinted("try again when a worker of its zone answers")
	case known:
		n.object, n.begins = o, ""
	case n.begins != "":
		return n, s.refusal(n, s.opts.Authority.Could(c.asks(n.begins, access.Object{})))
	default:
		n = blind
	}
	return n, s.refusal(n, s.judge(c, n))
}

func (s *Server) find(ctx context.Context, n need) (access.Object, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, objectWait)
	defer cancel()
	switch {
	case s.opts.Objects == nil:
		return access.Object{}, false, nil
	case n.session != "":
		return s.findSession(ctx, n.session)
	case n.batch != "":
		return s.opts.Objects.Batch(ctx, n.batch)
	case n.object.Host == "":
		return access.Object{}, false, nil
	}
	if strings.HasPrefix(n.command, protocol.LoginPrefix) {
		return s.findLogin(ctx, n.object.Host, n.command)
	}
	return s.findCommand(ctx, n.object.Host, n.command)
}

// findLogin returns what a login is about. Its workflow knows that before its command runs.
func (s *Server) findLogin(ctx context.Context, host, id string) (access.Object, bool, error) {
	o, known, err := s.opts.Objects.Login(ctx, host, id)
	if err != nil || !known {
		return o, known, err
	}
	p, ran, err := records.ExecPlaceOf(ctx, s.opts.Store, id)
	if ran && p.Host == host {
		o.HostLabels = p.Labels
	}
	return o, err == nil && (!ran || p.Host == host), err
}

// findCommand confirms that a command runs or ran on a host. Anybody's workflow can have an
// id that says so; the record was made where the command ran.
func (s *Server) findCommand(ctx context.Context, host, id string) (access.Object, bool, error) {
	for end := time.Now().Add(beginWait); ; {
		p, known, err := records.ExecPlaceOf(ctx, s.opts.Store, id)
		switch {
		case err != nil:
			return access.Object{}, false, err
		case known && p.Host == host:
			return access.Object{Host: p.Host, HostLabels: p.Labels}, true, nil
		case known || time.Now().After(end):
			return access.Object{}, false, nil
		}
		select { // it begins
		case <-ctx.Done():
			return access.Object{}, false, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// beginWait is how long a session may take to begin before its object is not known.
const beginWait = 3 * time.Second

// findSession returns the object of the session whose data the store has. A later session
// of its id does not make them somebody else's.
func (s *Server) findSession(ctx context.Context, id string) (access.Object, bool, error) {
	for end := time.Now().Add(beginWait); ; {
		o, known, err := s.opts.Objects.Session(ctx, id)
		if err != nil {
			return o, known, err
		}
		first, owned, err := records.OwnerOf(ctx, s.opts.Store, id)
		switch {
		case err != nil:
			return o, known, err
		case owned && known && !o.Unknown && o.Owner == first.Owner && o.Tenant == first.Tenant:
			return o, true, nil
		case owned:
			return access.Object{Session: id, Owner: first.Owner, Labels: first.Labels, Tenant: first.Tenant, HostUnknown: true, SeedUnknown: true}, true, nil
		case !known || !o.Unknown || time.Now().After(end):
			return o, known, nil
		}
		select { // it begins
		case <-ctx.Done():
			return o, known, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// objectWait bounds the wait for a workflow that says what conditions see of it.
const objectWait = 10 * time.Second

func (c *caller) asks(verb access.Verb, o access.Object) access.Request {
	return access.Request{Who: c.principal, Groups: c.groups, Verb: verb, Object: o}
}

func (s *Server) judge(c *caller, n need) access.Answer {
	return s.opts.Authority.Decide(c.asks(n.verb, n.object))
}

func (s *Server) refusal(n need, a access.Answer) error {
	if a.Allowed {
		return nil
	}
	hint := "`ctl access why` says which bindings were looked at"
	if n.verb == "" {
		hint = "a binding of the access file can allow it"
	}
	return problem(http.StatusForbidden, ErrForbidden, "%s", a.Reason).hinted(hint)
}

// watch cancels a request once its caller may not make it any more.
func (s *Server) watch(c *caller, n need, cancel context.CancelCauseFunc) (stop func()) {
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		t := time.NewTicker(s.opts.Recheck)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
			}
			why := c.holds()
			if a := s.judgeAgain(c, n); why == "" && !a.Allowed {
				why = a.Reason
			}
			if why != "" {
				cancel(problem(http.StatusForbidden, ErrForbidden, "%s", why))
				return
			}
		}
	})
	return func() {
		close(done)
		ended.Wait()
	}
}

func (s *Server) judgeAgain(c *caller, n need) access.Answer {
	switch {
	case n.verb == "" && n.begins == "":
		return access.Answer{Allowed: true}
	case n.begins != "":
		return s.opts.Authority.Could(c.asks(n.begins, access.Object{}))
	}
	return s.judge(c, n)
}

// may reports whether the caller may do something to a session, for handlers that show
// several. A session whose object is not known now is one that the caller may not see.
func (s *Server) may(ctx context.Context, verb access.Verb, session string) bool {
	_, err := s.allow(ctx, callerOf(ctx), need{verb: verb, session: session})
	return err == nil
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
