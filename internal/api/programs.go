package api

import (
	"errors"
	"net/http"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/owned"
)

// Programs are the routes for programs; package httpapi has them. The server finds out who
// calls and whether they may, as for its own routes.
type Programs interface {
	http.Handler
	Places() []Place
	// Fail answers a request that does not reach the handler.
	Fail(w http.ResponseWriter, r *http.Request, err *Error)
}

// A Place is one of these routes.
type Place struct {
	Pattern string // of http.ServeMux
	// Open says that it also answers callers without a principal.
	Open bool
	// Verb is what its caller needs; without one, any principal may call it.
	Verb access.Verb
	// Session returns the session that a request is about; nil means none.
	Session func(*http.Request) (string, error)
	// Batch returns the batch that a request is about; nil means none.
	Batch func(*http.Request) (string, error)
	// Whole says that Verb is needed for all there is: no binding with a condition suffices.
	Whole bool
	// Owner returns what a file is uploaded for; nil means none. Verb is then needed for a session
	// that exists, and [access.SessionStart] for another one. A batch or a schedule needs its own verb.
	Owner func(*http.Request) (owned.Owner, error)
	// Begins says that Verb is for something that does not exist yet, or that the handler
	// judges with what it knows of the object: conditions are left out.
	Begins bool
}

const (
	openToAll     = "without authority: required, this place of the API answers over a unix socket, or over TLS with the worker's token: every user of this machine can reach a loopback address"
	openToAllHint = "let the worker listen on a unix socket, or set api.tls and api.token_file, or set authority: required"
)

// openToAll reports whether callers of whom nothing is known can reach the routes for programs,
// those to hosts and those that link accounts: a unix socket serves its owner alone, and a token
// says that somebody may.
func (s *Server) openToAll() bool { return !s.local && (!s.secure || s.opts.Token == "") }

// programRoutes makes the routes of Options.Programs.
func programRoutes(s *Server) (all []route) {
	if s.opts.Programs == nil {
		return nil
	}
	s.programs = s.opts.Programs(&Records{s})
	for _, p := range s.programs.Places() {
		all = append(all, route{pattern: p.Pattern, open: p.Open, program: &p, needs: p.needs, serve: serveProgram})
	}
	return all
}

func serveProgram(s *Server, w http.ResponseWriter, r *http.Request) { s.programs.ServeHTTP(w, r) }

func (p *Place) needs(r *http.Request) (need, error) {
	switch {
	case p.Begins:
		return need{begins: p.Verb}, nil
	case p.Whole:
		return need{verb: p.Verb, object: access.Object{Unknown: true}}, nil
	case p.Owner != nil:
		owner, err := p.Owner(r)
		if err != nil {
			return need{}, problem(http.StatusBadRequest, ErrBadInput, "%v", err)
		}
		n := ownerOf(owner)
		if n.verb != "" {
			n.verb = p.Verb
		}
		return n, nil
	case p.Batch != nil:
		id, err := p.Batch(r)
		if err != nil {
			return need{}, problem(http.StatusBadRequest, ErrBadInput, "%v", err)
		}
		return need{verb: p.Verb, batch: id}, nil
	case p.Session == nil:
		return need{verb: p.Verb}, nil
	}
	id, err := p.Session(r)
	if err != nil {
		return need{}, problem(http.StatusBadRequest, ErrBadInput, "%v", err)
	}
	return need{verb: p.Verb, session: id}, nil
}

// failAt answers a refused request in the form of its route.
func failAt(s *Server, w http.ResponseWriter, r *http.Request, err error) {
	var e *Error
	if s.programs == nil || !errors.As(err, &e) || !isProgram(s, r) {
		s.fail(w, err)
		return
	}
	s.programs.Fail(w, r, e)
}

func isProgram(s *Server, r *http.Request) bool {
	_, pattern := s.mux.Handler(r)
	for _, p := range s.programs.Places() {
		if p.Pattern == pattern {
			return true
		}
	}
	return false
}
