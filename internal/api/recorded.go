package api

import (
	"cmp"
	"errors"
	"net/http"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
)

// sourceOf says how a request seems to be signed. It verifies nothing.
func sourceOf(r *http.Request) string {
	header := r.Header.Get(command.RequestHeader)
	if header == "" {
		return audit.Workflow // the worker refuses it, and nobody signed it
	}
	if p, err := command.ParseProof(header); err == nil && p.Certified() {
		return audit.Certificate
	}
	return audit.Key
}

// refused puts a request on record that its caller may not make. What is not found, is wrong or
// cannot be answered now was not refused. A request that was signed for another process is no
// refusal either: clients sign it anew.
func refused(record func(audit.Record), c *caller, to route, r *http.Request, err error) {
	n, nerr := to.needs(r)
	if nerr != nil {
		n = need{}
	}
	refusedFor(record, c, cmp.Or(string(n.verb), string(n.begins), audit.APIRequest), objectOf(n, r), err)
}

// refusedFor does the same for a request to a handler that asks for more than its route does.
func refusedFor[V ~string](record func(audit.Record), c *caller, verb V, object string, err error) {
	var e *Error
	if record == nil || !errors.As(err, &e) || e.Kind != ErrForbidden && e.Kind != ErrUnauthorized {
		return
	}
	rec := audit.Record{Source: audit.Workflow, Verb: string(verb), Object: object, Outcome: audit.Refused, Reason: e.Message}
	if c != nil {
		rec.Principal, rec.Source = c.principal, c.source
	}
	record(rec)
}

// accepted puts on record what a worker did for a caller and no workflow has on record. The
// signature of a request is none of a record, so the record has none.
func accepted[V ~string](record func(audit.Record), c *caller, verb V, object, reason string) {
	if record == nil {
		return
	}
	rec := audit.Record{Source: audit.Unix, Verb: string(verb), Object: object, Outcome: audit.Accepted, Reason: reason}
	if c != nil {
		rec.Principal, rec.Source = c.principal, audit.Workflow
	}
	record(rec)
}

// objectOf names what a request is about: a workflow if it has one. The query may have more than
// others should read, so it is left out.
func objectOf(n need, r *http.Request) string {
	switch {
	case n.session != "":
		return protocol.SessionID(n.session)
	case n.batch != "":
		return protocol.BatchID(n.batch)
	case n.object.Seed != "":
		return protocol.SeedID(n.object.Seed)
	}
	return r.URL.Path
}

func tokenObject(name string) string { return "api-token/" + name }
