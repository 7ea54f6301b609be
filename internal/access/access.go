package access

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/sshsig"
)

// Access is a parsed file.
type Access struct {
	// Digest is the SHA-256 of the file, in hex.
	Digest string
	// Warnings name parts of the file that are probably mistakes, with their lines.
	Warnings []string

	people   map[string]person
	revoked  revoked
	groups   map[string][]string // of each person or certificate name
	bindings []binding
	signers  *sshsig.Allowed
	workers  *sshsig.Allowed
}

type person struct {
	Name string   `yaml:"name"`
	Keys []string `yaml:"keys"`
}

type binding struct {
	name  string
	line  int
	roles []Role
	to    []string // names, group:NAME, or everybody
	when  string
	cond  cel.Program // nil: always
}

// A Request is what somebody wants to do to what.
type Request struct {
	Who    string
	Groups []string // those that the issuer of a login names, beside those of the file
	Verb   Verb
	Object Object
}

// An Object is what a request is about. Fields that do not apply are empty.
type Object struct {
	Session string            `json:"session,omitempty"`
	Owner   string            `json:"owner,omitempty"`  // who started the session, batch or schedule
	Labels  map[string]string `json:"labels,omitempty"` // of the session
	Host    string            `json:"host,omitempty"`
	// HostLabels are not known if Host is set and they are nil. Then no condition that
	// depends on them holds.
	HostLabels map[string]string `json:"host_labels,omitzero"`
	Seed       string            `json:"seed,omitempty"`
	// HostUnknown and SeedUnknown say that there is or will be one, and not which. Then no
	// condition that depends on it holds.
	HostUnknown bool   `json:"host_unknown,omitempty"`
	SeedUnknown bool   `json:"seed_unknown,omitempty"`
	Tenant      string `json:"tenant,omitempty"`
	// Unknown says that the object exists and its facts are not known. Then no binding with a
	// condition allows anything.
	Unknown bool `json:"unknown,omitempty"`
}

// An Answer says whether a request is allowed, and by what.
type Answer struct {
	Allowed bool   `json:"allowed"`
	Binding string `json:"binding,omitempty"` // the first that allows it
	Line    int    `json:"line,omitempty"`
	// Reason says why nothing allows it.
	Reason string `json:"reason,omitempty"`
	// Passed are the bindings that name the principal and do not allow the request.
	Passed []Passed `json:"passed,omitempty"`
	Access string   `json:"access"` // the file's digest
}

// Passed says why a binding does not allow a request.
type Passed struct {
	Binding string `json:"binding"`
	Line    int    `json:"line"`
	Reason  string `json:"reason"`
}

// Worker is the principal of what a worker does for nobody in particular.
const Worker = "worker"

// Workers are the keys that give commands for people whose login they have verified.
func (a *Access) Workers() *sshsig.Allowed { return a.workers }

// KnowsWorker reports whether the file lists a worker's key, and does not revoke it. The key
// is a private or a public one, as in a file. line is the public key.
func (a *Access) KnowsWorker(key []byte) (line string, known bool, err error) {
	pub, err := parseKey(string(key))
	if err != nil {
		signer, err := sshsig.ParseKey(key, nil)
		if err != nil {
			return "", false, err
		}
		pub = signer.PublicKey()
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(pub))), a.workers.Has(pub), nil
}

// Signers are those whose signatures count.
func (a *Access) Signers() *sshsig.Allowed { return a.signers }

// Revoked says why a key or certificate does not count any more, or returns "". The keys and
// certificates of a revoked person do not count.
//
//workflowcheck:ignore // a pure function
func (a *Access) Revoked(key ssh.PublicKey) string {
	if cert, _ := key.(*ssh.Certificate); cert != nil {
		if slices.Contains(a.revoked.Certificates, cert.KeyId) {
			return fmt.Sprintf("certificate %.100q is revoked", cert.KeyId)
		}
		if i := slices.IndexFunc(cert.ValidPrincipals, a.RevokedPerson); i >= 0 {
			return fmt.Sprintf("%s is revoked", cert.ValidPrincipals[i])
		}
		if print := ssh.FingerprintSHA256(cert.SignatureKey); slices.Contains(a.revoked.Keys, print) {
			return fmt.Sprintf("key %s, which signed certificate %.100q, is revoked", print, cert.KeyId)
		}
		key = cert.Key
	}
	if print := ssh.FingerprintSHA256(key); slices.Contains(a.revoked.Keys, print) {
		return fmt.Sprintf("key %s is revoked", print)
	}
	for _, name := range a.revoked.People {
		if slices.ContainsFunc(a.people[name].Keys, func(line string) bool { return sameKey(line, key) }) {
			return fmt.Sprintf("%s is revoked", name)
		}
	}
	return ""
}

// Lists reports whether the file lists a plain key among those of a person.
func (a *Access) Lists(who string, key ssh.PublicKey) bool {
	return slices.ContainsFunc(a.people[who].Keys, func(line string) bool { return sameKey(line, key) })
}

// Groups returns the groups that the file puts a principal into.
func (a *Access) Groups(who string) []string { return slices.Clone(a.groups[who]) }

// Roles returns the roles that bindings give to a principal, whatever their conditions.
func (a *Access) Roles(who string, groups []string) (all []Role) {
	for _, r := range Roles {
		if slices.ContainsFunc(a.bindings, func(b binding) bool { return slices.Contains(b.roles, r) && a.names(b, who, groups) }) {
			all = append(all, r)
		}
	}
	return all
}

// Decide answers a request.
func (a *Access) Decide(r Request) Answer { return a.decide(r, a.holds) }

func (a *Access) decide(r Request, holds func(binding, Request) string) Answer {
	no := Answer{Access: a.Digest}
	switch {
	case r.Who == "":
		no.Reason = "nobody is named as principal"
		return no
	case a.revoked.person(r.Who):
		no.Reason = fmt.Sprintf("%s is revoked", r.Who)
		return no
	case !slices.Contains(Verbs, r.Verb):
		no.Reason = fmt.Sprintf("%.40q is none of the verbs: %s", r.Verb, names(Verbs))
		return no
	}
	named := false
	for _, b := range a.bindings {
		if !a.names(b, r.Who, r.Groups) {
			continue
		}
		named = true
		if !slices.ContainsFunc(b.roles, func(role Role) bool { return slices.Contains(role.Verbs(), r.Verb) }) {
			no.Passed = append(no.Passed, Passed{b.name, b.line, fmt.Sprintf("its roles do not allow %s: %s", r.Verb, names(b.roles))})
			continue
		}
		if why := holds(b, r); why != "" {
			no.Passed = append(no.Passed, Passed{b.name, b.line, why})
			continue
		}
		return Answer{Allowed: true, Binding: b.name, Line: b.line, Passed: no.Passed, Access: a.Digest}
	}
	no.Reason = fmt.Sprintf("no binding that names %s allows %s here", r.Who, r.Verb)
	if !named {
		no.Reason = fmt.Sprintf("no binding names %s or a group that %s is in", r.Who, r.Who)
	}
	return no
}

// Could answers a request about an object that does not exist yet: whether a binding allows
// the verb, whatever its condition.
func (a *Access) Could(r Request) Answer {
	return a.decide(r, func(binding, Request) string { return "" })
}

func (a *Access) names(b binding, who string, groups []string) bool {
	return slices.ContainsFunc(b.to, func(to string) bool {
		group, is := groupName(to)
		switch {
		case to == everybody:
			return true
		case is:
			return slices.Contains(groups, group) || slices.Contains(a.groups[who], group)
		}
		return to == who
	})
}

// holds returns why the condition of a binding is not met, or "".
func (a *Access) holds(b binding, r Request) string {
	if b.cond == nil {
		return ""
	}
	if r.Object.Unknown {
		return "what its condition asks about is not known: " + oneLine(b.when)
	}
	out, _, err := b.cond.Eval(facts{a, r})
	switch {
	case err != nil && strings.Contains(err.Error(), "no such attribute"):
		return fmt.Sprintf("what its condition asks about is not known (%.200s): %s", oneLine(err.Error()), oneLine(b.when))
	case err != nil:
		return fmt.Sprintf("its condition failed: %.200s", oneLine(err.Error()))
	case out != types.True:
		return "its condition does not hold: " + oneLine(b.when)
	}
	return ""
}
