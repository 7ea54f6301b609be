package protocol

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Selector is one requirement on a host's labels:
//
//	k=v  k!=v       the label is v; the label is not v, or the host does not have it
//	k>=n k<=n k>n k<n  the label is a number, and compares as one: 9 is less than 32
//	k    !k         the host has the label, or does not
//
// Numbers are decimal. If one of two numbers has two dots or more, as in a program's
// version, both are compared part by part: 0.160.0 is more than 0.99.0.
type Selector struct {
	Key   string
	Op    string // one of = != >= <= > <; "" for k, "!" for !k
	Value string
}

func (s Selector) Ordered() bool { return strings.ContainsAny(s.Op, "<>") }

func (s Selector) String() string {
	if s.Op == "!" {
		return "!" + s.Key
	}
	return s.Key + s.Op + s.Value
}

// Meets reports whether labels meet the selector.
func (s Selector) Meets(labels map[string]string) bool {
	have, ok := labels[s.Key]
	switch s.Op {
	case "":
		return ok
	case "!":
		return !ok
	case "=":
		return ok && have == s.Value
	case "!=":
		return !ok || have != s.Value
	}
	a, isNumber := NumberOf(have)
	b, _ := NumberOf(s.Value)
	if !ok || !isNumber {
		return false
	}
	switch c := a.compare(b); s.Op {
	case ">=":
		return c >= 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	default:
		return c < 0
	}
}

func (s Selector) Lacks(labels map[string]string) string {
	have, ok := labels[s.Key]
	switch _, isNumber := NumberOf(have); {
	case !ok:
		return s.String() + " (it has no " + s.Key + ")"
	case s.Ordered() && !isNumber:
		return fmt.Sprintf("%s (its %s is %s, which is no number)", s, s.Key, cut(have, 60))
	}
	return fmt.Sprintf("%s (its %s is %s)", s, s.Key, cut(have, 60))
}

// ParseSelector reads one selector.
func ParseSelector(text string) (Selector, error) {
	bad := func(format string, args ...any) (Selector, error) {
		return Selector{}, fmt.Errorf("selector %q: %s (k=v, k!=v, k>=n, k<=n, k>n, k<n, k or !k)", cut(text, MaxSelector), fmt.Sprintf(format, args...))
	}
	switch {
	case len(text) > MaxSelector:
		return bad("it has %d bytes, at most %d", len(text), MaxSelector)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return bad("it has characters that cannot be printed")
	}
	key, absent := strings.CutPrefix(text, "!")
	end := strings.IndexFunc(key, notOfKeys)
	if end < 0 {
		end = len(key)
	}
	rest := key[end:]
	key = key[:end]
	switch {
	case key == "":
		return bad("it has no label")
	case rest == "" && absent:
		return Selector{Key: key, Op: "!"}, nil
	case rest == "":
		return Selector{Key: key}, nil
	case absent:
		return bad("!k takes no value")
	}
	i := slices.IndexFunc(selectorOps, func(op string) bool { return strings.HasPrefix(rest, op) })
	if i < 0 {
		return bad("%q is not an operator", cut(rest, 20))
	}
	s := Selector{Key: key, Op: selectorOps[i], Value: rest[len(selectorOps[i]):]}
	if s.Ordered() {
		if _, ok := NumberOf(s.Value); !ok {
			return bad("%q is not a number", cut(s.Value, MaxSelector))
		}
	} else if strings.HasPrefix(s.Value, "=") {
		return bad("%q is not an operator", s.Op+"=")
	}
	return s, nil
}

// ParseSelectors parses all texts, or fails with the first bad one's error.
func ParseSelectors(texts []string) ([]Selector, error) {
	if len(texts) > MaxSelectors {
		return nil, fmt.Errorf("%d selectors, at most %d", len(texts), MaxSelectors)
	}
	all := make([]Selector, 0, len(texts))
	for _, text := range texts {
		s, err := ParseSelector(text)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Bounds of one selector in bytes, and of their number.
const (
	MaxSelector  = 200
	MaxSelectors = 32
)

// NumberOf parses digits with dots between them. A minus sign may come first if there is at
// most one dot.
func NumberOf(text string) (number, bool) {
	digits, negative := strings.CutPrefix(text, "-")
	parts := strings.Split(digits, ".")
	for _, p := range parts {
		if p == "" || strings.ContainsFunc(p, func(r rune) bool { return r < '0' || r > '9' }) {
			return number{}, false
		}
	}
	if len(parts) > 2 {
		return number{parts: parts, value: math.NaN()}, !negative
	}
	value, err := strconv.ParseFloat(text, 64)
	return number{parts: parts, value: value}, err == nil
}

// selectorOps has longer operators first, so that >= is not taken for >.
var selectorOps = []string{"!=", ">=", "<=", "=", ">", "<"}

func notOfKeys(r rune) bool {
	return r == '=' || r == '!' || r == '<' || r == '>' || unicode.IsSpace(r)
}

// A number is a label's value and its parts between dots.
type number struct {
	value float64
	parts []string
}

func (n number) compare(m number) int {
	if len(n.parts) > 2 || len(m.parts) > 2 {
		return slices.CompareFunc(n.parts, m.parts, comparePart)
	}
	switch {
	case n.value < m.value:
		return -1
	case n.value > m.value:
		return 1
	}
	return 0
}

// comparePart compares digits of any length.
func comparePart(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// cut returns at most n bytes of whole letters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
