package snapshots

import (
	"fmt"
	"path"
	"strings"
)

// An excluder matches paths as git does: the last matching pattern decides, and everything
// in an excluded folder is excluded, whatever other patterns say. Libraries for this are
// large or differ from git. A test compares an excluder with git.
type excluder struct {
	patterns []ignorePattern
	folders  pathFilter
}

type ignorePattern struct {
	text     string
	not      bool
	dirOnly  bool
	baseOnly bool // no other /: matches the name in any folder
}

func newExcluder(patterns []string) (*excluder, error) {
	x := &excluder{}
	x.folders.match = x.matches
	for _, line := range patterns {
		if strings.ContainsAny(line, "\n\x00") {
			return nil, fmt.Errorf("the pattern %q has a line break or a NUL in it", line)
		}
		line = trimPattern(strings.TrimSuffix(line, "\r"))
		if line == "" || line[0] == '#' {
			continue
		}
		var p ignorePattern
		line, p.not = strings.CutPrefix(line, "!")
		line, p.dirOnly = strings.CutSuffix(line, "/")
		p.baseOnly = !strings.Contains(line, "/")
		p.text = strings.TrimPrefix(line, "/")
		if p.text != "" {
			x.patterns = append(x.patterns, p)
		}
	}
	return x, nil
}

func trimPattern(s string) string {
	end := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
			if i >= len(s) {
				return s
			}
			end = i + 1
		case ' ':
		default:
			end = i + 1
		}
	}
	return s[:end]
}

func (x *excluder) excluded(p string, dir bool) bool {
	if len(x.patterns) == 0 {
		return false
	}
	return x.folders.inMatch(path.Dir(p)) || x.matches(p, dir)
}

func (x *excluder) matches(p string, dir bool) bool {
	for i := len(x.patterns) - 1; i >= 0; i-- {
		pat := &x.patterns[i]
		if pat.dirOnly && !dir {
			continue
		}
		name := p
		if pat.baseOnly {
			name = path.Base(p)
		}
		if wildmatch(pat.text, name) == wildYes {
			return !pat.not
		}
	}
	return false
}

// Results of a match. After wildNo, an earlier star may try to match more text. After
// wildAbortToSlash this is useless up to the next slash, and after wildAbort always.
const (
	wildYes = iota
	wildNo
	wildAbortToSlash
	wildAbort
)

// wildmatch is git's function of this name with WM_PATHNAME: * and ? do not match a slash,
// but ** does if it is a whole component of the path.
func wildmatch(pattern, text string) int {
	for p := pattern; ; {
		if p == "" {
			if text != "" {
				return wildNo
			}
			return wildYes
		}
		if text == "" && p[0] != '*' {
			return wildAbort
		}
		switch p[0] {
		case '\\':
			if p = p[1:]; p == "" || text[0] != p[0] {
				return wildNo
			}
		case '?':
			if text[0] == '/' {
				return wildNo
			}
		case '*':
			return wildStar(p, text, len(p) == len(pattern) || pattern[len(pattern)-len(p)-1] == '/')
		case '[':
			length, yes := wildClass(p, text[0])
			if length == 0 {
				return wildAbort
			}
			if !yes || text[0] == '/' {
				return wildNo
			}
			p = p[length-1:]
		default:
			if text[0] != p[0] {
				return wildNo
			}
		}
		p, text = p[1:], text[1:]
	}
}

// wildStar matches a pattern that begins with a star. first says that the star begins a
// component.
func wildStar(p, text string, first bool) int {
	rest := strings.TrimLeft(p, "*")
	slashes := false
	if len(p)-len(rest) >= 2 && first && (rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`)) {
		if rest != "" && rest[0] == '/' && wildmatch(rest[1:], text) == wildYes {
			return wildYes // "**/" also matches nothing
		}
		slashes = true
	}
	switch {
	case rest == "" && !slashes && strings.Contains(text, "/"):
		return wildAbortToSlash
	case rest == "":
		return wildYes
	case !slashes && rest[0] == '/':
		i := strings.IndexByte(text, '/')
		if i < 0 {
			return wildAbort
		}
		return wildmatch(rest[1:], text[i+1:])
	}
	for ; text != ""; text = text[1:] {
		if r := wildmatch(rest, text); r != wildNo {
			if !slashes || r != wildAbortToSlash {
				return r
			}
		} else if !slashes && text[0] == '/' {
			return wildAbortToSlash
		}
	}
	return wildAbort
}

// wildClass reports whether c is in the class "[...]" at the beginning of p, and its
// length, 0 for no class.
func wildClass(p string, c byte) (length int, yes bool) {
	at := func(i int) byte { // a NUL ends the text, as in C
		if i < len(p) {
			return p[i]
		}
		return 0
	}
	i := 1
	not := at(i) == '!' || at(i) == '^'
	if not {
		i++
	}
	for prev, begun := byte(0), i; i == begun || at(i) != ']'; i++ {
		ch := at(i)
		switch {
		case ch == 0:
			return 0, false
		case ch == '\\':
			i++
			if ch = at(i); ch == 0 {
				return 0, false
			}
			yes = yes || c == ch
		case ch == '-' && prev != 0 && at(i+1) != 0 && at(i+1) != ']':
			i++
			if at(i) == '\\' {
				i++
			}
			if at(i) == 0 {
				return 0, false
			}
			yes = yes || prev <= c && c <= at(i)
			ch = 0
		case ch == '[' && at(i+1) == ':':
			end := strings.IndexByte(p[i+2:], ']')
			if end < 0 {
				return 0, false
			}
			name, whole := strings.CutSuffix(p[i+2:i+2+end], ":")
			if !whole { // this '[' stands for itself
				yes = yes || c == ch
				break
			}
			in, known := classes[name]
			if !known {
				return 0, false
			}
			yes = yes || in(c)
			i += 2 + end
			ch = 0
		default:
			yes = yes || c == ch
		}
		prev = ch
	}
	return i + 1, yes != not
}

// classes are the POSIX classes for ASCII.
var classes = func() map[string]func(byte) bool {
	in := func(from, to byte) func(byte) bool { return func(c byte) bool { return from <= c && c <= to } }
	or := func(fs ...func(byte) bool) func(byte) bool {
		return func(c byte) bool {
			for _, f := range fs {
				if f(c) {
					return true
				}
			}
			return false
		}
	}
	upper, lower, digit := in('A', 'Z'), in('a', 'z'), in('0', '9')
	alpha, graph := or(upper, lower), in('!', '~')
	alnum := or(alpha, digit)
	return map[string]func(byte) bool{
		"alnum": alnum, "alpha": alpha, "digit": digit, "upper": upper, "lower": lower, "graph": graph,
		"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
		"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
		"print":  in(' ', '~'),
		"punct":  func(c byte) bool { return graph(c) && !alnum(c) },
		"space":  func(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' },
		"xdigit": or(digit, in('a', 'f'), in('A', 'F')),
	}
}()
