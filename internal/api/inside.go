package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/login"
)

// A Person is somebody who has proved to another part of this process who they are, such as
// by a login at the console.
type Person struct {
	Principal string
	Groups    []string // that the issuer of their login named
	// Holds says why the proof does not count any more, or returns "".
	Holds func() string
}

type insideKey struct{}

// An Insider makes requests to the API of its own process, for persons.
type Insider struct{ s *Server }

// Insiders returns the Insider of a server.
func Insiders(s *Server) Insider { return Insider{s} }

// Inside returns the API for requests that this process itself makes for a person. They are
// judged and recorded as the person's own; only their proof is p. Without an authority, whoever
// the caller lets in is the owner of the stack, and has no principal.
func (i Insider) Inside(p Person) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.s.opts.Authority == nil {
			if err := i.Counts(p); err != nil {
				failAt(i.s, w, r, err)
				return
			}
		}
		i.s.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), insideKey{}, &p)))
	})
}

// May reports whether a person may do something: to a session, or to anything at all where
// session is empty. It is for what a page offers; each request is judged again.
func (i Insider) May(ctx context.Context, p Person, verb access.Verb, session string) bool {
	if i.s.opts.Authority == nil {
		return i.Counts(p) == nil
	}
	c, err := i.s.callers.vouched(&p)
	if err != nil {
		return false
	}
	n := need{begins: verb}
	if session != "" {
		n = need{verb: verb, session: session}
	}
	_, err = i.s.callers.allow(ctx, c, n)
	return err == nil
}

// Counts says why a person who has logged in does not count, or returns nil.
func (i Insider) Counts(p Person) error {
	if i.s.opts.Authority != nil {
		_, err := i.s.callers.vouched(&p)
		return err
	}
	if p.Holds != nil {
		if why := p.Holds(); why != "" {
			return uncounted(errors.New(why))
		}
	}
	if p.Principal != "" {
		return uncounted(errors.New("it was made under another authority"))
	}
	return nil
}

func uncounted(why error) error {
	return problem(http.StatusUnauthorized, ErrUnauthorized, "this login does not count: %v", why).hinted("log in again")
}

// Admits says why a person whom the issuer of logins named may not log in, or returns nil. It
// judges them as a login at the API does, also by what the access file lets the certificate
// key of this worker say (authorities). The error wraps one of login's if it is not of Counts.
func (i Insider) Admits(p Person) error {
	if err := i.Counts(p); err != nil {
		return err
	}
	if i.s.opts.Login == nil {
		return fmt.Errorf("%w: people do not log in at this worker", login.ErrRefused)
	}
	return i.s.opts.Login.Admits(login.Person{Principal: p.Principal, Groups: p.Groups})
}

// LoggedIn records that a person has logged in at the console, or was refused that. how says
// by what. A refusal may be of somebody who is not known. err is not to be an error of the
// issuer or of this worker, as these are no refusals.
func (i Insider) LoggedIn(p Person, how string, err error) {
	if err != nil {
		recordRefusal(&i.s.opts, audit.ConsoleLogin, "by "+how+": "+err.Error(), &login.Denied{Err: err, Person: login.Person{Principal: p.Principal, Groups: p.Groups}})
		return
	}
	var c *caller
	if p.Principal != "" {
		c = &caller{principal: p.Principal}
	}
	reason := "login at the console by " + how
	if len(p.Groups) > 0 {
		reason += fmt.Sprintf(", groups %v", p.Groups)
	}
	accepted(&i.s.opts, c, audit.ConsoleLogin, loginObject, reason)
}

// Recorded puts on record what was done for a person or, with err, that it was refused, where no
// workflow records it.
func (i Insider) Recorded(p Person, verb, object, reason string, err error) {
	var c *caller
	if p.Principal != "" {
		c = &caller{principal: p.Principal}
	}
	if err == nil {
		accepted(&i.s.opts, c, verb, object, reason)
		return
	}
	if i.s.opts.Record == nil {
		return
	}
	rec := audit.Record{Source: audit.Unix, Verb: verb, Object: object, Outcome: audit.Refused, Reason: err.Error(), Access: inForce(&i.s.opts)}
	if c != nil {
		rec.Principal, rec.Source = c.principal, audit.Workflow
	}
	i.s.opts.Record(rec)
}

// insideOf returns for whom this process makes a request, or nil if it came from outside.
func insideOf(r *http.Request) *Person {
	p, _ := r.Context().Value(insideKey{}).(*Person)
	return p
}

// vouched returns the caller of a request from inside.
func (j *callers) vouched(p *Person) (*caller, error) {
	holds := func() string {
		if p.Holds != nil {
			if why := p.Holds(); why != "" {
				return why
			}
		}
		if j.authority.Current().RevokedPerson(p.Principal) {
			return p.Principal + " is revoked"
		}
		return j.authority.Ended(p.Principal)
	}
	c := &caller{principal: p.Principal, groups: p.Groups, source: audit.Workflow, holds: holds}
	err := error(nil)
	if p.Principal == "" || p.Principal == access.Worker {
		err = errors.New("nobody has logged in")
	} else if why := holds(); why != "" {
		err = errors.New(why)
	}
	if err != nil {
		return c, uncounted(err)
	}
	return c, nil
}
