package api

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/login"
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
	rec := audit.Record{Source: audit.Workflow, Verb: string(verb), Object: object, Outcome: audit.Refused, Reason: e.Message, Access: inForce(o)}
	if c != nil {
		rec.Principal, rec.Source = c.principal, c.source
	}
	record(rec)
}

// accepted records what a worker did for a caller, where no workflow records it. The signature
// of a request does not cover the record, so the record has no signature.
func accepted[V ~string](o *Options, c *caller, verb V, object, reason string) {
	if o.Record == nil {
		return
	}
	rec := audit.Record{Source: audit.Unix, Verb: string(verb), Object: object, Outcome: audit.Accepted, Reason: reason, Access: inForce(o)}
	if c != nil {
		rec.Principal, rec.Source = c.principal, audit.Workflow
	}
	o.Record(rec)
}

// inForce returns the digest of the access file by which requests are judged now, or "".
func inForce(o *Options) string {
	switch {
	case o.Authority != nil:
		return o.Authority.Current().Digest
	case o.Access != nil:
		return o.Access().Digest
	}
	return ""
}

// loginObject is the object of the records of refused logins, which have no certificate's id.
const loginObject = "login"

// maxLoginReason bounds, in bytes, why a login was refused. What its token claims comes after that.
const maxLoginReason = 400

// refusedLogin records that somebody got no certificate. why is the reason, and told is what
// the caller gets. There is no record if this worker offers no login, the issuer does not
// answer, or the worker cannot sign.
//
// The record names a principal only if the ID token is valid. Otherwise it has the token's
// claims, marked as unverified.
func refusedLogin(o *Options, why, told error) {
	var e *Error
	if !errors.As(told, &e) || e.Kind != ErrBadInput && e.Kind != ErrRefused {
		return
	}
	recordRefusal(o, audit.CertificateIssue, e.Message, why)
}

// recordRefusal records a login that was refused for a reason, which a *login.Denied in why
// says more about.
func recordRefusal(o *Options, verb, reason string, why error) {
	rec := audit.Record{Source: audit.Workflow, Verb: verb, Object: loginObject, Outcome: audit.Refused, Reason: reason, Access: inForce(o)}
	if len(rec.Reason) > maxLoginReason {
		rec.Reason = strings.ToValidUTF8(rec.Reason[:maxLoginReason], "") + "…"
	}
	record := o.RecordStranger
	var denied *login.Denied
	if errors.As(why, &denied) {
		if rec.Principal = denied.Person.Principal; rec.Principal != "" {
			record = o.Record
		} else if denied.Claimed != "" {
			rec.Reason += "; its token claims, which nobody has verified: " + denied.Claimed
		}
	}
	if record != nil {
		record(rec)
	}
}

// objectOf returns the object of a request: its workflow, or otherwise its path. It leaves out
// the query, which may contain what readers of the audit records may not see.
func objectOf(n need, r *http.Request) string {
	switch {
	case n.session != "":
		return protocol.SessionID(n.session)
	case n.batch != "":
		return protocol.BatchID(n.batch)
	case n.host:
		return tunnelObject(n.object.Host)
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
