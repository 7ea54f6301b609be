package audit

import (
	"os/user"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/command"
)

// UnixUser returns the user of this process. Workflow code records it.
var UnixUser = sync.OnceValue(func() string {
	u, err := user.Current()
	if err != nil {
		return "unknown"
	}
	return u.Username
})

// OfCommand returns the record of a command, without principal and outcome: only the
// caller that verified the signature knows the principal.
func OfCommand(workflow, name, verb string, raw []byte, at time.Time) Record {
	r := Record{At: TimeText(at), Verb: verb, Object: workflow, Source: Unix}
	e, err := command.EvidenceOf(workflow, name, raw)
	if err != nil {
		return r // it cannot be read, which is why it was refused
	}
	r.Evidence = Evidence{Args: e.Args, Message: string(e.Message)}
	if e.Auth != nil {
		r.Evidence.Signature, r.Evidence.Certificate = e.Auth.Signature, e.Auth.Certificate
		if r.Source = Key; e.Certified {
			r.Source = Certificate
		}
	}
	return r
}
