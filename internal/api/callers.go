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
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/internal/tokens"
)

// callers finds out who makes a request, and judges whether they may.
type callers struct {
	authority Authority
	objects   Objects // may be nil
	tokens    Tokens  // may be nil
	store     *store.Store
	recheck   time.Duration
	secure    bool   // nobody can eavesdrop
	id        string // of this process, for which requests are signed
	nonces    nonces
}

// proveAny is prove, and takes the word of this process for requests from inside.
func (j *callers) proveAny(r *http.Request, to route) (*caller, error) {
	if p := insideOf(r); p != nil {
		return j.vouched(p)
	}
	return j.prove(r, to)
}

// prove verifies who makes a request. With an error, the caller is only what is known so far,
// for the audit record: it may be nil, and has no rights.
func (j *callers) prove(r *http.Request, to route) (*caller, error) {
	now := time.Now()
	unauthorized := func(err error) error {
		return problem(http.StatusUnauthorized, ErrUnauthorized, "this request does not count: %v", err).hinted(signHint)
	}
	if secret, ok := apiToken(r); ok {
		c, err := j.proveToken(secret)
		if err != nil {
			return nil, unauthorized(err)
		}
		return c, nil
	}
	if len(r.Header.Values(command.RequestHeader)) > 1 {
		return nil, unauthorized(errors.New("it has several headers " + command.RequestHeader))
	}
	c := &caller{source: sourceOf(r)}
	signed, err := command.CheckRequest(r.Header.Get(command.RequestHeader), r.Method, r.RequestURI, j.authority.Current(), now)
	c.principal, c.groups, c.key, c.body = signed.Principal, signed.Groups, signed.Fingerprint, signed.Body
	if err != nil {
		return c, unauthorized(err)
	}
	if signed.Worker != j.id {
		return c, problem(http.StatusUnauthorized, ErrOtherWorker, "this request does not count: it was signed for another worker process, or for this one before it started again").hinted("send it again, signed for the process that the header " + command.WorkerHeader + " names")
	}
	if signed.ByWorker && !to.worker {
		return c, problem(http.StatusForbidden, ErrForbidden, "the key of a worker reads the status of workers, and nothing else")
	}
	if err := j.nonces.use(signed, now); err != nil {
		return c, unauthorized(err)
	}
	if !to.head {
		r.Body = command.SignedBody(r.Body, signed.Body)
	}
	c.holds = func() string {
		return cmp.Or(j.authority.Current().Revoked(signed.Key), j.authority.Ended(signed.Principal))
	}
	return c, nil
}

// apiToken returns the API token of a request.
func apiToken(r *http.Request) (string, bool) {
	secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return secret, ok && strings.HasPrefix(secret, tokens.Prefix)
}

func (j *callers) proveToken(secret string) (*caller, error) {
	switch {
	case j.tokens == nil:
		return nil, errors.New("this worker takes no API tokens")
	case !j.secure:
		return nil, errors.New("API tokens are taken over a unix socket or TLS only")
	}
	t, err := j.tokens.Shown(secret)
	if err != nil {
		return nil, err
	}
	who := t.Principal()
	if why := j.authority.Ended(who); why != "" {
		return nil, errors.New(why)
	}
	return &caller{principal: who, source: audit.Workflow, token: t, holds: func() string { return j.authority.Ended(who) }}, nil
}

// allow refuses what a principal may not do. The need that it returns has all that is known
// of the object.
func (j *callers) allow(ctx context.Context, c *caller, n need) (need, error) {
	switch {
	case n.verb == "" && n.begins == "":
		return n, nil
	case n.verb == "":
		return n, j.refusal(n, j.authority.Could(c.asks(n.begins, access.Object{})))
	}
	if n.session == "" && n.batch == "" && n.command == "" && !n.host {
		return n, j.refusal(n, j.judge(c, n))
	}
	// Most principals need no condition, and then nobody has to be asked.
	blind := n
	blind.object = access.Object{Session: n.session, Host: n.object.Host, Unknown: true}
	if n.begins == "" && j.judge(c, blind).Allowed {
		return blind, nil
	}
	if n.command != "" {
		if a := j.authority.Could(c.asks(n.verb, access.Object{})); !a.Allowed {
			return n, j.refusal(n, a)
		}
	}
	o, known, err := j.find(ctx, n)
	switch {
	case err != nil:
		return n, problem(http.StatusServiceUnavailable, ErrStore, "find out whether %s may do this: %v", c.principal, err).hinted("try again when a worker of its zone answers")
	case known:
		n.object, n.begins = o, ""
	case n.begins != "":
		return n, j.refusal(n, j.authority.Could(c.asks(n.begins, access.Object{})))
	default:
		n = blind
	}
	return n, j.refusal(n, j.judge(c, n))
}

func (j *callers) find(ctx context.Context, n need) (access.Object, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, objectWait)
	defer cancel()
	switch {
	case j.objects == nil:
		return access.Object{}, false, nil
	case n.session != "":
		return j.findSession(ctx, n.session)
	case n.batch != "":
		return j.objects.Batch(ctx, n.batch)
	case n.host:
		return j.objects.Host(ctx, n.object.Host)
	case n.object.Host == "":
		return access.Object{}, false, nil
	}
	if strings.HasPrefix(n.command, protocol.LoginPrefix) {
		return j.findLogin(ctx, n.object.Host, n.command)
	}
	return j.findCommand(ctx, n.object.Host, n.command)
}

// findLogin returns what a login is about. Its workflow knows that before its command runs.
func (j *callers) findLogin(ctx context.Context, host, id string) (access.Object, bool, error) {
	o, known, err := j.objects.Login(ctx, host, id)
	if err != nil || !known {
		return o, known, err
	}
	p, ran, err := records.ExecPlaceOf(ctx, j.store, id)
	if ran && p.Host == host {
		o.HostLabels = p.Labels
	}
	return o, err == nil && (!ran || p.Host == host), err
}

// findCommand confirms that a command runs or ran on a host. Anybody's workflow can have an
// id that says so; the record was made where the command ran.
func (j *callers) findCommand(ctx context.Context, host, id string) (access.Object, bool, error) {
	for end := time.Now().Add(beginWait); ; {
		p, known, err := records.ExecPlaceOf(ctx, j.store, id)
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
func (j *callers) findSession(ctx context.Context, id string) (access.Object, bool, error) {
	for end := time.Now().Add(beginWait); ; {
		o, known, err := j.objects.Session(ctx, id)
		if err != nil {
			return o, known, err
		}
		first, owned, err := records.OwnerOf(ctx, j.store, id)
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

func (j *callers) judge(c *caller, n need) access.Answer {
	return j.authority.Decide(c.asks(n.verb, n.object))
}

func (j *callers) refusal(n need, a access.Answer) error {
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
func (j *callers) watch(c *caller, n need, cancel context.CancelCauseFunc) (stop func()) {
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		t := time.NewTicker(j.recheck)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
			}
			why := c.holds()
			n = j.again(c, n)
			if a := j.judgeAgain(c, n); why == "" && !a.Allowed {
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

// again finds out what conditions see of a host now, if they were looked at. What is not known now
// stays as it was.
func (j *callers) again(c *caller, n need) need {
	if !n.host || n.object.Unknown {
		return n
	}
	o, known, err := j.find(context.Background(), n)
	switch {
	case err != nil:
	case known:
		n.object = o
	default:
		n.object = access.Object{Host: n.object.Host, Unknown: true}
	}
	return n
}

func (j *callers) judgeAgain(c *caller, n need) access.Answer {
	switch {
	case n.verb == "" && n.begins == "":
		return access.Answer{Allowed: true}
	case n.begins != "":
		return j.authority.Could(c.asks(n.begins, access.Object{}))
	}
	return j.judge(c, n)
}

// may reports whether the caller may do something to a session, for handlers that show
// several. A session whose object is not known now is one that the caller may not see.
func (j *callers) may(ctx context.Context, verb access.Verb, session string) bool {
	c := callerOf(ctx)
	if !j.authority.Could(c.asks(verb, access.Object{})).Allowed {
		return false // whatever the session is: nobody has to be asked
	}
	_, err := j.allow(ctx, c, need{verb: verb, session: session})
	return err == nil
}
