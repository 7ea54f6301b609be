package api

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

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

// refused records a request that its caller may not make. Other errors are not recorded: the
// request was wrong, or was signed for another process, and the client signs it again.
func refused(o *Options, c *caller, to route, r *http.Request, err error) {
	n, nerr := to.needs(r)
	if nerr != nil {
		n = need{}
	}
	refusedFor(o, c, cmp.Or(string(n.verb), string(n.begins), audit.APIRequest), objectOf(n, r), err)
}

// refusedFor does the same for a request to a handler that asks for more than its route does.
func refusedFor[V ~string](o *Options, c *caller, verb V, object string, err error) {
	record := o.Record
	if c == nil || c.principal == "" {
		record = o.RecordStranger
	}
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

// accepted records what a worker did for a caller, where no workflow records it. The signature
// of a request does not cover the record, so the record has no signature.
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

// objectOf returns the object of a request: its workflow, or otherwise its path. It leaves out
// the query, which may contain what readers of the audit records may not see.
func objectOf(n need, r *http.Request) string {
	switch {
	case n.session != "":
		return protocol.SessionID(n.session)
	case n.batch != "":
		return protocol.BatchID(n.batch)
	case n.object.Seed != "":
		return protocol.SeedID(n.object.Seed)
	}
	return pathOf(r)
}

// maxPath bounds, in bytes, the path of a request in its record.
const maxPath = 200

// pathOf returns the path of a request, which a stranger may have made long.
func pathOf(r *http.Request) string {
	return strings.ToValidUTF8(r.URL.Path[:min(len(r.URL.Path), maxPath)], "\uFFFD")
}

func tokenObject(name string) string { return "api-token/" + name }
