package inventory

import (
	"net"
	"regexp"
	"strings"
	"unicode/utf8"
)

// sectionPattern is a section's head: [group], [group:children], [group:vars].
var sectionPattern = regexp.MustCompile(`^\[([^:\]\s]+)(?::(\w+))?\]\s*(?:[#;].*)?$`)

// ini reads an inventory in Ansible's kind of INI.
func (r *reader) ini(data []byte) {
	g := newGroups(r)
	of, what := g.group("ungrouped", Place{Line: 1, Column: 1}), "hosts"
	of.said = true
	varsOf := map[*hostGroup]Place{}
	number := 0
	for raw := range strings.Lines(string(data)) {
		number++
		raw = strings.TrimRight(raw, "\r\n")
		text := strings.TrimSpace(raw)
		column := utf8.RuneCountInString(raw[:len(raw)-len(strings.TrimLeft(raw, " \t\f\v\u00a0\u0085"))]) + 1
		at := Place{Line: number, Column: column}
		if text == "" || text[0] == '#' || text[0] == ';' {
			continue
		}
		m := sectionPattern.FindStringSubmatch(text)
		if m != nil || text[0] == '[' && !isBracketed(text) {
			if m == nil {
				r.add(at, "%q is no section: there are [group], [group:children] and [group:vars]", cut(text))
				what = "" // whose lines these are, nobody knows
				continue
			}
			of, what = g.group(m[1], at), m[2]
			switch what {
			case "":
				what, of.said = "hosts", true
			case "children":
				of.said = true
			case "vars":
				if _, there := varsOf[of]; !there {
					varsOf[of] = at
				}
			default:
				r.add(at, "[%s:%s]: there are children and vars", cut(m[1]), cut(what))
				what = ""
			}
			continue
		}
		switch what {
		case "hosts":
			g.iniHosts(of, raw, at)
		case "children":
			name, _, _ := strings.Cut(strings.Fields(text)[0], "#")
			if name != "" {
				of.children = append(of.children, key{name, at})
			}
		case "vars":
			k, v, ok := strings.Cut(text, "=")
			if !ok {
				r.add(at, "%q is not name=value", cut(text))
				continue
			}
			of.vars[strings.TrimSpace(k)] = node{kind: scalar, at: at, text: unquoted(strings.TrimSpace(v))}
		}
	}
	for _, of := range g.inTurn {
		if at, ok := varsOf[of]; ok && !of.said && of.name != "all" {
			r.add(at, "[%s:vars]: there is no group %s", cut(of.name), cut(of.name))
		}
	}
	g.finish()
}

// isBracketed says that a line that begins with a bracket is one of hosts: an
// IPv6 address, or a range that a name begins with.
func isBracketed(text string) bool {
	inside, rest, closed := strings.Cut(text[1:], "]")
	return closed && (net.ParseIP(inside) != nil || rest != "" && rest[0] != ' ' && rest[0] != '\t')
}

// iniHosts reads a line of a host or of a range of them, with variables.
func (g *groups) iniHosts(of *hostGroup, line string, at Place) {
	words, err := split(line)
	if err != nil {
		g.r.add(at, "%v", err)
		return
	}
	if len(words) == 0 {
		return
	}
	vars := map[string]node{}
	for _, w := range words[1:] {
		place := Place{Line: at.Line, Column: w.column}
		k, v, ok := strings.Cut(w.text, "=")
		if !ok || k == "" {
			g.r.add(place, "%q is not name=value", cut(w.text))
			continue
		}
		vars[k] = node{kind: scalar, at: place, text: unquoted(v)}
	}
	g.add(of, words[0].text, Place{Line: at.Line, Column: words[0].column}, vars)
}

// unquoted is a text as Ansible takes it, which reads quoted ones as Python
// does; what follows the quotes is a comment.
func unquoted(s string) string {
	if s == "" || s[0] != '"' && s[0] != '\'' {
		return s
	}
	end := strings.IndexByte(s[1:], s[0])
	if end < 0 {
		return s
	}
	inside, rest := s[1:1+end], strings.TrimSpace(s[2+end:])
	if rest != "" && rest[0] != '#' || strings.Contains(inside, `\`) {
		return s
	}
	return inside
}
