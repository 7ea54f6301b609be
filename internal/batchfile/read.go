package batchfile

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
)

type reader struct {
	o         Options
	f         *File
	problems  []Problem
	prompt    node // for items without one
	vars      map[string]any
	defaults  []Flag
	templates map[place]*template.Template // nil for an invalid one
	ids       map[string]place
	numbers   map[string]int // to append to ids
}

func (r *reader) add(at place, format string, args ...any) {
	r.problems = append(r.problems, Problem{at.line, at.column, fmt.Sprintf(format, args...)})
}

func (r *reader) take(err error) {
	var e *Error
	if errors.As(err, &e) {
		r.problems = append(r.problems, e.Problems...)
	}
}

var (
	idPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	// tryPattern matches the suffix of the sessions of later tries.
	tryPattern = regexp.MustCompile(`\.t[0-9]+$`)
)

const idRule = "use a-z, 0-9, dot, dash, underscore; at most 63, the first a letter or a digit"

var batchKeys = []string{"id", "window", "stop_after", "retry", "prompt", "vars", "defaults"}

func (r *reader) whole(root node) {
	if root.kind == list { // only items
		r.list(root)
		return
	}
	if root.kind != mapping {
		r.add(root.at, "a batch is a mapping with items, such as\n    prompt: say {{.item}}\n    items: [hello, goodbye]")
		return
	}
	r.batch(root, append(slices.Clone(batchKeys), "items", "matrix"))
	items, hasItems := root.get("items")
	matrix, hasMatrix := root.get("matrix")
	switch {
	case hasItems && hasMatrix:
		r.add(matrix.at, "items and matrix: a batch has one of them")
	case hasItems && items.kind != list:
		r.add(items.at, "items is %s: it takes a list", items.what())
	case hasItems:
		r.list(items)
	case hasMatrix:
		r.matrix(matrix)
	}
}

func (r *reader) lines(data []byte) {
	var items []node
	first := true
	for n, line := range bytes.Split(data, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		v, err := fromJSONLine(line, n+1)
		if err != nil {
			r.take(err)
			continue
		}
		if about, ok := v.get("batch"); ok && first && len(v.keys) == 1 {
			r.batch(about, batchKeys)
		} else {
			items = append(items, v)
		}
		first = false
	}
	r.list(node{kind: list, values: items})
}

func (r *reader) batch(n node, known []string) {
	if n.kind != mapping {
		r.add(n.at, "batch is %s: it takes keys with values", n.what())
		return
	}
	r.twice(n)
	for i, k := range n.keys {
		v := n.values[i]
		if v.kind == null && slices.Contains(known, k.name) {
			continue // `key:` without a value keeps the default
		}
		switch k.name {
		case "items", "matrix":
			if !slices.Contains(known, k.name) {
				r.unknown(k, known)
			}
		case "id":
			if r.f.ID = r.word(k, v); r.f.ID != "" && !idPattern.MatchString(r.f.ID) {
				r.add(v.at, "id %q: %s", cut(r.f.ID), idRule)
			}
		case "window":
			r.f.Window = r.number(k, v, 1, MaxWindow)
		case "stop_after":
			r.f.StopAfter = r.number(k, v, 0, MaxItems)
		case "retry":
			r.retry(v)
		case "prompt":
			r.prompt = v
			r.template(k, v)
		case "vars":
			if v.kind != mapping {
				r.add(v.at, "vars is %s: it takes names with values", v.what())
				continue
			}
			r.twice(v)
			r.vars, _ = v.value().(map[string]any)
		case "defaults":
			r.defaults = r.flags(v, "defaults", nil)
		default:
			r.unknown(k, known)
		}
	}
}

func (r *reader) unknown(k key, known []string) {
	r.add(k.at, "%s: no such key%s", cut(k.name), nearest(k.name, known))
}

func (r *reader) twice(n node) {
	seen := make(map[string]bool, len(n.keys))
	for _, k := range n.keys {
		if seen[k.name] {
			r.add(k.at, "%s: this key stands here twice", cut(k.name))
		}
		seen[k.name] = true
	}
}

func (r *reader) retry(n node) {
	if n.kind != mapping {
		r.add(n.at, "retry is %s: it takes attempts, on, wait, after_effects", n.what())
		return
	}
	r.twice(n)
	known := []string{"attempts", "on", "wait", "after_effects"}
	r.f.Retry.Attempts, r.f.Retry.Wait = 2, defaultWait
	for i, k := range n.keys {
		v := n.values[i]
		switch k.name {
		case "attempts":
			r.f.Retry.Attempts = r.number(k, v, 1, MaxTries)
		case "on":
			r.f.Retry.On = r.kinds(v)
		case "wait":
			d, err := time.ParseDuration(r.word(k, v))
			if err != nil || d < 0 || d > maxWait {
				r.add(v.at, "wait %q is not a time such as 30s, of at most %v", cut(v.text), maxWait)
			}
			r.f.Retry.Wait = d
		case "after_effects":
			if v.truth == nil {
				r.add(v.at, "after_effects is %s: it takes true or false", v.what())
				continue
			}
			r.f.Retry.AfterEffects = *v.truth
		default:
			r.unknown(k, known)
		}
	}
}

func (r *reader) kinds(n node) []string {
	all := []node{n}
	if n.kind == list {
		all = n.values
	}
	var out []string
	for _, v := range all {
		switch {
		case v.kind != scalar:
			r.add(v.at, "on takes kinds of failures, and not %s", v.what())
		case r.o.Kinds != nil && !slices.Contains(r.o.Kinds, v.text):
			r.add(v.at, "on: %q is not a kind of failure%s", cut(v.text), nearest(v.text, r.o.Kinds))
		default:
			out = append(out, v.text)
		}
	}
	return out
}

func (r *reader) word(k key, v node) string {
	if v.kind != scalar {
		r.add(v.at, "%s is %s: it takes one value", k.name, v.what())
		return ""
	}
	return v.text
}

func (r *reader) number(k key, v node, least, most int) int {
	n, err := strconv.Atoi(v.text)
	if v.kind != scalar || err != nil || n < least || n > most {
		r.add(v.at, "%s takes a whole number from %d to %d", k.name, least, most)
		return least
	}
	return n
}

// flags reads a mapping of flags, except for the keys in own.
func (r *reader) flags(n node, what string, own []string) []Flag {
	if n.kind != mapping {
		r.add(n.at, "%s is %s: it takes flags of a session by their names, such as seed: team", what, n.what())
		return nil
	}
	r.twice(n)
	var out []Flag
	for i, k := range n.keys {
		v := n.values[i]
		switch {
		case slices.Contains(own, k.name):
		case k.name == "workspace":
			out = put(out, r.flags(v, "workspace", nil)...)
		case k.name == "labels" && v.kind == mapping:
			out = put(out, r.labels(k, v))
		default:
			if f, ok := r.flag(k, v, own); ok {
				out = put(out, f)
			}
		}
	}
	return out
}

// put lets a new flag replace one of the same name.
func put(flags []Flag, more ...Flag) []Flag {
	for _, m := range more {
		flags = slices.DeleteFunc(slices.Clone(flags), func(f Flag) bool { return f.Name == m.Name })
		flags = append(flags, m)
	}
	return flags
}

func (r *reader) labels(k key, n node) Flag {
	f := Flag{Name: "label", Line: k.at.line, Column: k.at.column}
	for i, l := range n.keys {
		v := n.values[i]
		if v.kind != scalar {
			r.add(v.at, "label %s is %s: it takes one value", cut(l.name), v.what())
		}
		f.Values = append(f.Values, l.name+"="+v.text)
	}
	return f
}

func (r *reader) flag(k key, v node, own []string) (Flag, bool) {
	f := Flag{Name: strings.ReplaceAll(k.name, "_", "-"), Line: v.at.line, Column: v.at.column}
	switch kind := r.o.Flags(f.Name); {
	case kind == NoFlag:
		r.add(k.at, "%s: a session has no such flag%s", cut(k.name), nearest(f.Name, append(slices.Clone(own), r.o.Names...)))
		return f, false
	case v.kind == null:
		return f, false
	case kind == Many && v.kind == list:
		f.Line, f.Column = k.at.line, k.at.column
		for _, e := range v.values {
			if e.kind != scalar {
				r.add(e.at, "%s takes texts, and not %s", k.name, e.what())
				return f, false
			}
			f.Values = append(f.Values, e.text)
		}
		return f, true
	case v.kind != scalar:
		r.add(v.at, "%s is %s: it takes one value", k.name, v.what())
		return f, false
	case kind == Truth && v.truth == nil:
		r.add(v.at, "%s takes true or false", k.name)
		return f, false
	}
	f.Values = []string{v.text}
	return f, true
}

func cut(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

func nearest(word string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		d := Distance(word, k)
		if letters(word) == letters(k) {
			d = min(d, 1) // two letters were swapped
		}
		if d < least {
			best, least = k, d
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf(": is %s meant?", best)
	case len(known) <= 12:
		return ": there are " + strings.Join(known, ", ")
	}
	return ""
}

func letters(s string) string {
	b := []byte(s)
	slices.Sort(b)
	return string(b)
}

// Distance returns the edit distance of two words; 9 if one is longer than 40 bytes.
func Distance(a, b string) int {
	if len(a) > 40 || len(b) > 40 {
		return 9
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
