package access

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/sshsig"
	"fairlead.dev/fairlead/internal/strictyaml"
)

const (
	// MaxFile bounds a file, in bytes.
	MaxFile     = 1 << 20
	maxPeople   = 5000
	maxGroups   = 500
	maxBindings = 500
	maxKeys     = 20
	maxDepth    = 20
	maxName     = 256
)

// everybody in a binding means each authenticated principal.
const everybody = "everybody"

// groupName returns the group of a binding's "group:NAME".
func groupName(to string) (string, bool) { return strings.CutPrefix(to, "group:") }

// A BrokenError has every mistake of a file.
type BrokenError struct{ Problems []strictyaml.Problem }

func (e *BrokenError) Error() string { return strictyaml.Tell("access file", e.Problems) }

type file struct {
	People      []person    `yaml:"people"`
	Authorities []authority `yaml:"authorities"`
	// Workers are keys of workers and APIs, which give commands for people whose login
	// they have verified.
	Workers  []string      `yaml:"workers"`
	Groups   []group       `yaml:"groups"`
	Bindings []fileBinding `yaml:"bindings"`
	Revoked  revoked       `yaml:"revoked"`
}

// An authority's certificates count for the names that they carry, if Names allow them.
type authority struct {
	Key   string   `yaml:"key"`
	Names []string `yaml:"names"` // patterns with * and ?
}

type group struct {
	Name    string   `yaml:"name"`
	Members []string `yaml:"members"`
}

type fileBinding struct {
	Name  string   `yaml:"name"`
	Roles []string `yaml:"roles"`
	To    []string `yaml:"to"`
	When  string   `yaml:"when"`
}

type revoked struct {
	People       []string `yaml:"people"`       // also token:NAME
	Keys         []string `yaml:"keys"`         // fingerprints, SHA256:…
	Certificates []string `yaml:"certificates"` // key ids
}

func (r revoked) person(name string) bool { return slices.Contains(r.People, name) }

// Parse reads an access file. The error is a *[BrokenError].
func Parse(data []byte) (*Access, error) {
	broken := func(text string) error { return &BrokenError{[]strictyaml.Problem{{Text: text}}} }
	if len(data) > MaxFile {
		return nil, broken(fmt.Sprintf("%d bytes are too many: %d at most", len(data), MaxFile))
	}
	if err := strictyaml.Shallow(data, maxDepth, false); err != nil {
		return nil, broken(err.Error())
	}
	var f file
	sum := sha256.Sum256(data)
	c := checker{File: strictyaml.Read(data, &f), f: f,
		a: &Access{Digest: hex.EncodeToString(sum[:]), people: map[string]person{}, groups: map[string][]string{}, revoked: f.Revoked}}
	c.readPeople()
	c.readGroups()
	c.readBindings()
	c.readRevoked()
	c.readSigners()
	if len(c.Problems) > 0 {
		strictyaml.Sort(c.Problems)
		return nil, &BrokenError{c.Problems}
	}
	c.seekAdmin()
	return c.a, nil
}

// A checker finds mistakes beyond the file's form.
type checker struct {
	*strictyaml.File
	f file
	a *Access
}

func (c *checker) line(key string) int { return strictyaml.LineOf(c.Lines, key) }

func (c *checker) warn(key, format string, args ...any) {
	c.a.Warnings = append(c.a.Warnings, fmt.Sprintf("line %d: %s: %s", c.line(key), key, fmt.Sprintf(format, args...)))
}

func checkName(name string) error {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(` ",:*?!`, r) }
	if name == "" || len(name) > maxName || name == everybody || strings.ContainsFunc(name, odd) {
		return fmt.Errorf("a name has 1 to %d printable characters, no space, quote, comma, colon or wildcard, and is not %q", maxName, everybody)
	}
	return nil
}

func (c *checker) readPeople() {
	if len(c.f.People) > maxPeople {
		c.Add("people", "%d are too many: %d at most", len(c.f.People), maxPeople)
		return
	}
	owner := map[string]string{}
	for i, p := range c.f.People {
		key := fmt.Sprintf("people[%d]", i)
		if err := checkName(p.Name); err != nil {
			c.Add(key+".name", "%v", err)
			continue
		}
		if _, ok := c.a.people[p.Name]; ok {
			c.Add(key+".name", "%s is named before: each person once", p.Name)
		}
		c.a.people[p.Name] = p
		if len(p.Keys) > maxKeys {
			c.Add(key+".keys", "%d are too many: %d at most", len(p.Keys), maxKeys)
			continue
		}
		for j, line := range p.Keys {
			at := fmt.Sprintf("%s.keys[%d]", key, j)
			pub, err := parseKey(line)
			if err != nil {
				c.Add(at, "%v", err)
				continue
			}
			print := ssh.FingerprintSHA256(pub)
			if other, ok := owner[print]; ok {
				c.Add(at, "key %s belongs to %s already: a key stands for one person", print, other)
			}
			owner[print] = p.Name
		}
	}
}

// parseKey reads a public key as in authorized_keys, without options.
func parseKey(line string) (ssh.PublicKey, error) {
	pub, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
	switch {
	case err != nil || len(options) > 0 || len(strings.TrimSpace(string(rest))) > 0:
		return nil, errors.New("not one public key, as a .pub file has it: KEYTYPE BASE64")
	case strings.Contains(pub.Type(), "-cert-"):
		return nil, errors.New("a certificate: give its key, or name its authority under authorities")
	}
	return pub, nil
}

func (c *checker) readGroups() {
	if len(c.f.Groups) > maxGroups {
		c.Add("groups", "%d are too many: %d at most", len(c.f.Groups), maxGroups)
		return
	}
	seen := map[string]bool{}
	for i, g := range c.f.Groups {
		key := fmt.Sprintf("groups[%d]", i)
		if err := checkName(g.Name); err != nil {
			c.Add(key+".name", "%v", err)
			continue
		}
		if seen[g.Name] {
			c.Add(key+".name", "%s is named before: each group once", g.Name)
		}
		seen[g.Name] = true
		for j, m := range g.Members {
			if !c.known(m) {
				c.Add(fmt.Sprintf("%s.members[%d]", key, j), "%.100q is not under people, and no authority may name it", m)
				continue
			}
			c.a.groups[m] = append(c.a.groups[m], g.Name)
		}
	}
}

// known reports whether a name can be a principal's.
func (c *checker) known(name string) bool {
	if isToken(name) {
		return true
	}
	if checkName(name) != nil {
		return false
	}
	if slices.ContainsFunc(c.f.People, func(p person) bool { return p.Name == name }) {
		return true
	}
	return slices.ContainsFunc(c.f.Authorities, func(a authority) bool { return sshsig.MatchPrincipal(a.Names, name) })
}

func (c *checker) readBindings() {
	if len(c.f.Bindings) > maxBindings {
		c.Add("bindings", "%d are too many: %d at most", len(c.f.Bindings), maxBindings)
		return
	}
	if len(c.f.Bindings) == 0 {
		c.Add("bindings", "there are none: nobody could do anything")
	}
	seen := map[string]bool{}
	for i, b := range c.f.Bindings {
		key := fmt.Sprintf("bindings[%d]", i)
		if strings.TrimSpace(b.Name) == "" || len(b.Name) > maxName || strings.ContainsFunc(b.Name, func(r rune) bool { return !unicode.IsPrint(r) }) {
			c.Add(key+".name", "a binding needs a name of 1 to %d printable characters: records name the binding", maxName)
		} else if seen[b.Name] {
			c.Add(key+".name", "another binding has it: records name the binding")
		}
		seen[b.Name] = true
		out := binding{name: b.Name, line: c.line(key), to: b.To, when: b.When}
		if len(b.Roles) == 0 {
			c.Add(key+".roles", "there are none: give one or more of %s", names(Roles))
		}
		for j, r := range b.Roles {
			if !slices.Contains(Roles, Role(r)) {
				c.Add(fmt.Sprintf("%s.roles[%d]", key, j), "%.40q is none of the roles: %s", r, names(Roles))
			}
			out.roles = append(out.roles, Role(r))
		}
		c.readTo(key, b.To)
		if strings.TrimSpace(b.When) != "" {
			program, err := compile(b.When)
			if err != nil {
				c.Add(key+".when", "%v", err)
			}
			out.cond = program
		}
		if slices.Contains(b.To, everybody) && slices.Contains(out.roles, Admin) && out.cond == nil {
			c.warn(key, "each principal becomes admin")
		}
		c.a.bindings = append(c.a.bindings, out)
	}
}

func (c *checker) readTo(key string, all []string) {
	if len(all) == 0 {
		c.Add(key+".to", "it names nobody: a person, group:NAME, or %s", everybody)
	}
	for j, to := range all {
		at := fmt.Sprintf("%s.to[%d]", key, j)
		g, is := groupName(to)
		switch {
		case to == everybody:
		case is && checkName(g) != nil:
			c.Add(at, "%v", checkName(g))
		case is:
			if !slices.ContainsFunc(c.f.Groups, func(have group) bool { return have.Name == g }) && len(c.f.Authorities) == 0 {
				c.Add(at, "group %.100q is not under groups", g)
			}
		case !c.known(to):
			c.Add(at, "%.100q is not under people, and no authority may name it", to)
		}
	}
}

func (c *checker) readRevoked() {
	for i, k := range c.f.Revoked.Keys {
		raw, ok := strings.CutPrefix(k, "SHA256:")
		if !ok || len(raw) != 43 {
			c.Add(fmt.Sprintf("revoked.keys[%d]", i), "not a fingerprint as ssh-keygen -l prints it: SHA256:…")
		}
	}
	for i, p := range c.f.Revoked.People {
		if checkName(p) != nil && !isToken(p) {
			c.Add(fmt.Sprintf("revoked.people[%d]", i), "%v", checkName(p))
		} else if !c.known(p) {
			c.warn(fmt.Sprintf("revoked.people[%d]", i), "%q is not under people, and no authority may name it: check the name, since a mistyped one revokes nothing", p)
		}
	}
	for i, id := range c.f.Revoked.Certificates {
		if odd := c.oddID(id); odd != "" {
			c.warn(fmt.Sprintf("revoked.certificates[%d]", i), "%s: this probably revokes nothing; `ctl whoami` shows the id of a certificate", odd)
		}
	}
}

// oddID says why an id is probably no certificate's, or returns "".
func (c *checker) oddID(id string) string {
	switch {
	case len(c.f.Authorities) == 0:
		return "no certificate counts, since there are no authorities"
	case id == "":
		return "an empty id"
	case strings.TrimSpace(id) != id:
		return fmt.Sprintf("%.100q begins or ends with a space", id)
	case strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Sprintf("%.100q has a character that does not print", id)
	case strings.HasPrefix(id, "SHA256:"):
		return fmt.Sprintf("%.100q is a fingerprint, which belongs under revoked.keys", id)
	case strings.ContainsAny(id, "*?"):
		return fmt.Sprintf("%.100q has a wildcard, and ids are compared as they stand", id)
	}
	return ""
}

// readSigners makes the set of signers out of the people's keys that are not revoked, and
// of the authorities.
func (c *checker) readSigners() {
	if len(c.Problems) > 0 {
		return
	}
	var b strings.Builder
	for _, p := range c.f.People {
		for _, line := range p.Keys {
			pub, err := parseKey(line)
			if err != nil || c.f.Revoked.person(p.Name) || slices.Contains(c.f.Revoked.Keys, ssh.FingerprintSHA256(pub)) {
				continue
			}
			fmt.Fprintf(&b, "%s %s", p.Name, ssh.MarshalAuthorizedKey(pub))
		}
	}
	for i, a := range c.f.Authorities {
		key := fmt.Sprintf("authorities[%d]", i)
		pub, err := parseKey(a.Key)
		switch {
		case err != nil:
			c.Add(key+".key", "%v", err)
		case len(a.Names) == 0:
			c.Add(key+".names", "there are none: give patterns, such as *@example.com")
		case !slices.Contains(c.f.Revoked.Keys, ssh.FingerprintSHA256(pub)):
			fmt.Fprintf(&b, "%s cert-authority %s", strings.Join(a.Names, ","), ssh.MarshalAuthorizedKey(pub))
		}
	}
	allowed, err := sshsig.ParseAllowed([]byte(b.String()))
	if err != nil {
		c.Add("people", "their keys: %v", err)
	}
	c.a.signers = allowed
	c.readWorkers()
}

func (c *checker) readWorkers() {
	if len(c.f.Workers) > maxPeople {
		c.Add("workers", "%d are too many: %d at most", len(c.f.Workers), maxPeople)
		return
	}
	var b strings.Builder
	for i, line := range c.f.Workers {
		key := fmt.Sprintf("workers[%d]", i)
		pub, err := parseKey(line)
		switch {
		case err != nil:
			c.Add(key, "%v", err)
		case slices.ContainsFunc(c.f.People, func(p person) bool {
			return slices.ContainsFunc(p.Keys, func(k string) bool { return sameKey(k, pub) })
		}),
			slices.ContainsFunc(c.f.Authorities, func(a authority) bool { return sameKey(a.Key, pub) }):
			c.Add(key, "it is also the key of a person or an authority: a worker gives commands for everybody, so it needs a key of its own")
		case !slices.Contains(c.f.Revoked.Keys, ssh.FingerprintSHA256(pub)):
			fmt.Fprintf(&b, "worker-%d %s", i, ssh.MarshalAuthorizedKey(pub))
		}
	}
	allowed, err := sshsig.ParseAllowed([]byte(b.String()))
	if err != nil {
		c.Add("workers", "their keys: %v", err)
	}
	c.a.workers = allowed
}

func sameKey(line string, key ssh.PublicKey) bool {
	pub, err := parseKey(line)
	return err == nil && bytes.Equal(pub.Marshal(), key.Marshal())
}

// seekAdmin warns if no binding gives the role admin to somebody whose signature counts.
func (c *checker) seekAdmin() {
	for _, b := range c.a.bindings {
		if slices.Contains(b.roles, Admin) && slices.ContainsFunc(b.to, c.reaches) {
			return
		}
	}
	c.warn("bindings", "nobody is admin, so nobody may ask what other people may do (%s), read audit records (%s) or make API tokens (%s): give the role admin to a person who has a key, or who can get a certificate", AccessRead, AuditRead, TokenWrite)
}

// reaches reports whether a name of a binding stands for somebody whose signature counts. A
// group may be one that certificates name.
func (c *checker) reaches(to string) bool {
	in, is := groupName(to)
	switch {
	case to == everybody || is && c.a.signers.Authority():
		return true
	case is:
		return slices.ContainsFunc(c.f.Groups, func(have group) bool { return have.Name == in && slices.ContainsFunc(have.Members, c.signs) })
	}
	return c.signs(to)
}

// signs reports whether a person has a key or can have a certificate. A token is no person.
func (c *checker) signs(name string) bool {
	if c.f.Revoked.person(name) || isToken(name) {
		return false
	}
	counts := func(line string) bool {
		pub, err := parseKey(line)
		return err == nil && !slices.Contains(c.f.Revoked.Keys, ssh.FingerprintSHA256(pub))
	}
	return slices.ContainsFunc(c.a.people[name].Keys, counts) ||
		slices.ContainsFunc(c.f.Authorities, func(a authority) bool { return sshsig.MatchPrincipal(a.Names, name) && counts(a.Key) })
}
