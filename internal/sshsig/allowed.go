package sshsig

import (
	"bytes"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"
)

const (
	maxAllowed   = 256 << 10
	maxPrincipal = 256
)

// Allowed is the set of people who may sign, as in ssh-keygen's allowed_signers. It is
// immutable and safe for concurrent use. If nil, nobody may sign.
type Allowed struct {
	lines  []allowedLine
	people map[string]string // names on lines of plain keys → the line's first name
	owners map[string]string // plain keys → the line's first name
}

type allowedLine struct {
	number     int
	principals []string // patterns for an authority, otherwise names
	authority  bool
	namespaces []string // patterns; none means any
	after      time.Time
	before     time.Time
	key        []byte
	name       string // fingerprint
}

// A LineError is a mistake in a line.
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("allowed signers, line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// ParseAllowed parses allowed signers. If a line is wrong, the error is a *[LineError].
func ParseAllowed(text []byte) (*Allowed, error) {
	if len(text) > maxAllowed {
		return nil, fmt.Errorf("allowed signers of %d bytes are too long: %d at most", len(text), maxAllowed)
	}
	a := &Allowed{people: map[string]string{}, owners: map[string]string{}}
	for i, raw := range strings.Split(string(text), "\n") {
		raw = strings.Trim(raw, " \t\r")
		if raw == "" || raw[0] == '#' {
			continue
		}
		l, err := parseLine(raw)
		if err != nil {
			return nil, &LineError{i + 1, err}
		}
		l.number = i + 1
		if err := a.own(l); err != nil {
			return nil, &LineError{i + 1, err}
		}
		a.lines = append(a.lines, l)
	}
	return a, nil
}

// own records that a line's key and names belong to its first principal. None may belong to
// two people, so that nobody counts twice.
func (a *Allowed) own(l allowedLine) error {
	if l.authority {
		return nil
	}
	person := l.principals[0]
	if o, ok := a.owners[string(l.key)]; ok && o != person {
		return fmt.Errorf("key %s belongs to %s already: one key stands for one principal", l.name, o)
	}
	a.owners[string(l.key)] = person
	for _, name := range l.principals {
		if o, ok := a.people[name]; ok && o != person {
			return fmt.Errorf("%s stands for %s already, and here for %s: one name stands for one principal", name, o, person)
		}
		a.people[name] = person
	}
	return nil
}

// person returns the principal for a name, by default the name itself.
func (a *Allowed) person(name string) string {
	if a != nil {
		if p, ok := a.people[name]; ok {
			return p
		}
	}
	return name
}

// Principals returns the first principals of the plain keys, each once, in order.
func (a *Allowed) Principals() []string {
	var names []string
	for _, l := range a.all() {
		if !l.authority && !slices.Contains(names, l.principals[0]) {
			names = append(names, l.principals[0])
		}
	}
	return names
}

// Authority reports whether certificates count. Then there may be more principals than the
// file names.
func (a *Allowed) Authority() bool {
	return slices.ContainsFunc(a.all(), func(l allowedLine) bool { return l.authority })
}

// Certifies reports whether a key is that of a certificate authority.
func (a *Allowed) Certifies(key ssh.PublicKey) bool {
	return slices.ContainsFunc(a.all(), func(l allowedLine) bool { return l.authority && bytes.Equal(l.key, key.Marshal()) })
}

// MayCertify reports whether the list has an authority whose certificates may have a name.
func (a *Allowed) MayCertify(name string) bool {
	return slices.ContainsFunc(a.all(), func(l allowedLine) bool { return l.authority && MatchPrincipal(l.principals, name) })
}

// Has reports whether the list has this key itself, not only as the key of an authority.
func (a *Allowed) Has(key ssh.PublicKey) bool {
	return slices.ContainsFunc(a.all(), func(l allowedLine) bool { return !l.authority && bytes.Equal(l.key, key.Marshal()) })
}

// Same reports whether two names are one person's.
func (a *Allowed) Same(one, other string) bool { return a.person(one) == a.person(other) }

func (a *Allowed) all() []allowedLine {
	if a == nil {
		return nil
	}
	return a.lines
}

// who returns the principal of the first line that allows a key, or the error of the last
// line with this key.
func (a *Allowed) who(key ssh.PublicKey, namespace string, at time.Time) (string, error) {
	missing := fmt.Errorf("%w: %s", ErrNotAllowed, ssh.FingerprintSHA256(key))
	cert, _ := key.(*ssh.Certificate)
	signer := key.Marshal()
	if cert != nil {
		signer = cert.SignatureKey.Marshal()
	}
	for _, l := range a.all() {
		if l.authority != (cert != nil) || !bytes.Equal(l.key, signer) {
			continue
		}
		principal := l.principals[0]
		err := l.check(namespace, at)
		if err == nil && cert != nil {
			principal, err = a.certified(l, cert, at)
		}
		if err == nil {
			return principal, nil
		}
		missing = err
	}
	return "", missing
}

func (l allowedLine) check(namespace string, at time.Time) error {
	if l.namespaces != nil && !matchList(l.namespaces, namespace) {
		return fmt.Errorf("%w: line %d allows key %s other namespaces than %q", ErrNotAllowed, l.number, l.name, namespace)
	}
	if !l.after.IsZero() && at.Unix() < l.after.Unix() {
		return fmt.Errorf("%w: key %s is valid from %s", ErrNotNow, l.name, l.after.Format(time.RFC3339))
	}
	if !l.before.IsZero() && at.Unix() > l.before.Unix() {
		return fmt.Errorf("%w: key %s was valid until %s", ErrNotNow, l.name, l.before.Format(time.RFC3339))
	}
	return nil
}

// certified checks a certificate by a line's authority. If a line of a plain key has the
// certificate's key or name, the certificate counts for that person.
func (a *Allowed) certified(l allowedLine, cert *ssh.Certificate, at time.Time) (string, error) {
	refuse := func(kind error, format string, args ...any) (string, error) {
		return "", fmt.Errorf("%w: certificate %q by %s %s", kind, cert.KeyId, l.name, fmt.Sprintf(format, args...))
	}
	if cert.CertType != ssh.UserCert {
		return refuse(ErrNotAllowed, "is not a user's")
	}
	if !formatFits(cert.SignatureKey, cert.Signature.Format) {
		return refuse(ErrNotAllowed, "is signed as %q", cert.Signature.Format)
	}
	name, people := "", []string{}
	for _, p := range cert.ValidPrincipals {
		if checkPrincipal(p) == nil && matchList(l.principals, p) {
			name, people = p, append(people, a.person(p))
		}
	}
	if owner, ok := a.owners[string(cert.Key.Marshal())]; ok && len(people) > 0 {
		people = []string{owner}
	}
	slices.Sort(people)
	switch people = slices.Compact(people); {
	case len(people) == 0:
		return refuse(ErrNotAllowed, "names no principal that line %d allows", l.number)
	case len(people) > 1:
		return refuse(ErrNotAllowed, "names %d principals that line %d allows: who of them signed is left open", len(people), l.number)
	}
	// The checker's own errors about time have no type.
	if s := uint64(max(at.Unix(), 0)); s < cert.ValidAfter || cert.ValidBefore != ssh.CertTimeInfinity && s >= cert.ValidBefore {
		return refuse(ErrNotNow, "is not valid at %s", at.UTC().Format(time.RFC3339))
	}
	check := ssh.CertChecker{Clock: func() time.Time { return at }}
	if err := check.CheckCert(name, cert); err != nil {
		return refuse(ErrNotAllowed, "does not hold: %v", err)
	}
	return people[0], nil
}

func parseLine(raw string) (allowedLine, error) {
	var l allowedLine
	field, rest, err := cutField(raw)
	if err != nil {
		return l, err
	}
	l.principals = strings.Split(strings.Trim(field, `"`), ",")
	field, rest, err = cutField(rest)
	if err != nil {
		return l, err
	}
	if !slices.Contains(keyTypes, field) && strings.ContainsAny(rest, " \t") {
		if err := l.options(field); err != nil {
			return l, err
		}
		if field, rest, err = cutField(rest); err != nil {
			return l, err
		}
	}
	text, _, err := cutField(rest)
	if err != nil {
		return l, err
	}
	if err := l.setKey(field, text); err != nil {
		return l, err
	}
	return l, l.checkPrincipals()
}

func (l *allowedLine) setKey(kind, text string) error {
	if !slices.Contains(keyTypes, kind) {
		return fmt.Errorf("%q is no type of key that counts: PRINCIPAL [OPTIONS] KEYTYPE BASE64 is a line", kind)
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return errors.New("the key is no base64")
	}
	key, err := ssh.ParsePublicKey(raw)
	if err != nil {
		return fmt.Errorf("the key cannot be read: %w", err)
	}
	if key.Type() != kind {
		return fmt.Errorf("the key is of type %s, the line says %s", key.Type(), kind)
	}
	if err := checkKey(key); err != nil {
		return err
	}
	l.key, l.name = key.Marshal(), ssh.FingerprintSHA256(key)
	return nil
}

func (l *allowedLine) checkPrincipals() error {
	for _, p := range l.principals {
		if l.authority {
			p = strings.TrimPrefix(p, "!")
		} else if strings.ContainsAny(p, "*?!") {
			return fmt.Errorf("principal %q is a pattern: the principal of a key is who decided, and must be a name (patterns are for cert-authority)", p)
		}
		if err := checkPrincipal(p); err != nil {
			return err
		}
	}
	return nil
}

// checkPrincipal keeps principals readable in records.
func checkPrincipal(p string) error {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' || r == '"' || r == ',' }
	if p == "" || len(p) > maxPrincipal || !utf8.ValidString(p) || strings.ContainsFunc(p, odd) {
		return fmt.Errorf("%.40q is no principal", p)
	}
	return nil
}

func (l *allowedLine) options(field string) error {
	seen := map[string]bool{}
	for field != "" {
		one, rest := cutOption(field)
		field = rest
		name, value, has := strings.Cut(one, "=")
		name = strings.ToLower(name)
		if seen[name] {
			return fmt.Errorf("option %s stands there twice", name)
		}
		seen[name] = true
		if err := l.option(name, value, has); err != nil {
			return err
		}
	}
	if !l.after.IsZero() && !l.before.IsZero() && !l.after.Before(l.before) {
		return errors.New("valid-before is not after valid-after")
	}
	return nil
}

func (l *allowedLine) option(name, value string, has bool) error {
	if name == "cert-authority" {
		if has {
			return errors.New("cert-authority takes no value")
		}
		l.authority = true
		return nil
	}
	if !slices.Contains([]string{"namespaces", "valid-after", "valid-before"}, name) {
		return fmt.Errorf("%.40q is no option: there are cert-authority, namespaces, valid-after, valid-before", name)
	}
	if len(value) < 3 || value[0] != '"' || value[len(value)-1] != '"' || strings.Contains(value[1:len(value)-1], `"`) {
		return fmt.Errorf(`option %s takes a value in quotes, as in %s="…"`, name, name)
	}
	value = value[1 : len(value)-1]
	var err error
	switch name {
	case "namespaces":
		l.namespaces = strings.Split(value, ",")
	case "valid-after":
		l.after, err = moment(name, value)
	case "valid-before":
		l.before, err = moment(name, value)
	}
	return err
}

func moment(name, value string) (time.Time, error) {
	digits, utc := strings.CutSuffix(strings.ToUpper(value), "Z")
	layout := "20060102150405"
	if n := len(digits); n == 8 || n == 12 || n == 14 {
		if t, err := time.Parse(layout[:n], digits); err == nil && t.Unix() > 0 {
			if !utc {
				return t, fmt.Errorf("%s=%q names no time zone: write %sZ (machines differ, and decisions must not)", name, value, digits)
			}
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s=%q is no moment such as 20260131Z or 202601311200Z", name, value)
}

// cutField ends a field at a blank outside of quotes.
func cutField(s string) (field, rest string, err error) {
	s = strings.TrimLeft(s, " \t")
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case !quoted && (s[i] == ' ' || s[i] == '\t'):
			return s[:i], strings.Trim(s[i:], " \t"), nil
		}
	}
	if quoted {
		return "", "", errors.New("a quote is not closed")
	}
	if s == "" {
		return "", "", errors.New("it ends too early: PRINCIPAL [OPTIONS] KEYTYPE BASE64 is a line")
	}
	return s, "", nil
}

// cutOption ends an option at a comma outside of quotes.
func cutOption(s string) (option, rest string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case !quoted && s[i] == ',':
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// matchList matches as ssh does: some pattern, and none with a leading !.
func matchList(patterns []string, s string) bool {
	found := false
	for _, p := range patterns {
		p, not := strings.CutPrefix(p, "!")
		if !match(p, s) {
			continue
		}
		if not {
			return false
		}
		found = true
	}
	return found
}

// match supports * and ?. Its time is bounded by the product of both lengths.
func match(pattern, s string) bool {
	p, i, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p, i = p+1, i+1
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

func rsaBits(key ssh.PublicKey) int {
	if c, ok := key.(ssh.CryptoPublicKey); ok {
		if k, ok := c.CryptoPublicKey().(*rsa.PublicKey); ok {
			return k.N.BitLen()
		}
	}
	return 0
}

// MatchPrincipal reports whether patterns, as of an authority's line, allow a principal.
func MatchPrincipal(patterns []string, name string) bool { return matchList(patterns, name) }
