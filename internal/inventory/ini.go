package inventory

import (
	"net"
	"regexp"
	"strings"
	"unicode/utf8"
)

// sectionPattern matches a section header: [group], [group:children], [group:vars].
var sectionPattern = regexp.MustCompile(`^\[([^:\]\s]+)(?::(\w+))?\]\s*(?:[#;].*)?$`)

// ini reads an inventory in Ansible's INI format.
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
				r.add(at, "%q is not a section: there are [group], [group:children] and [group:vars]", cut(text))
				what = "" // the following lines belong to no known group
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

// isBracketed reports whether a line that starts with a bracket is a host line: an
// IPv6 address, or a name that starts with a range.
func isBracketed(text string) bool {
	inside, rest, closed := strings.Cut(text[1:], "]")
	return closed && (net.ParseIP(inside) != nil || rest != "" && rest[0] != ' ' && rest[0] != '\t')
}

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

// unquoted returns a value as Ansible reads it: quotes are Python's, and a comment
// may follow them.
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
