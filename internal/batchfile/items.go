package batchfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

var itemKeys = []string{"id", "vars", "prompt"}

func (r *reader) list(items node) {
	if n := len(items.values); n > MaxItems {
		r.add(items.values[MaxItems].at, "%d items are too many: at most %d", n, MaxItems)
		return
	}
	width := len(fmt.Sprint(len(items.values)))
	for i, n := range items.values {
		r.item(n, fmt.Sprintf("%0*d", width, i+1))
	}
}

// item reads one item. A plain value is the value of the variable item.
func (r *reader) item(n node, number string) {
	it := Item{ID: number, Line: n.at.line, Column: n.at.column}
	own := node{kind: mapping}
	prompt, at := r.prompt, n.at
	switch n.kind {
	case scalar:
		own.keys, own.values = []key{{"item", n.at}}, []node{n}
		it.Flags = r.defaults
	case mapping:
		it.Flags = put(slices.Clone(r.defaults), r.flags(n, "an item", itemKeys)...)
		if v, ok := n.get("id"); ok {
			it.ID, at = v.text, v.at
			if v.kind != scalar {
				it.ID = ""
			}
		}
		if v, ok := n.get("vars"); ok {
			if own = v; v.kind != mapping {
				r.add(v.at, "vars is %s: it takes names with values", v.what())
				return
			}
			r.twice(v)
		}
		if v, ok := n.get("prompt"); ok {
			prompt = v
		}
	default:
		r.add(n.at, "an item is %s: it takes keys with values, or one text", n.what())
		return
	}
	r.finish(it, at, prompt, own)
}

func (r *reader) finish(it Item, at place, prompt, own node) {
	switch first, twice := r.ids[it.ID]; {
	case !idPattern.MatchString(it.ID):
		r.add(at, "id %q of an item: %s", cut(it.ID), idRule)
	case tryPattern.MatchString(it.ID):
		r.add(at, "id %q of an item: an id must not end in .t and a number, which marks later tries", it.ID)
	case twice:
		r.add(at, "id %q: the item of line %d has it already", it.ID, first.line)
	}
	r.ids[it.ID] = at
	vars := map[string]any{"id": it.ID}
	maps.Copy(vars, r.vars)
	for i, k := range own.keys {
		vars[k.name] = own.values[i].value()
	}
	it.Prompt = r.render(prompt, it, vars)
	if len(r.f.Items) < MaxItems {
		r.f.Items = append(r.f.Items, it)
	}
	if r.o.Check == nil {
		return
	}
	flag, err := r.o.Check(it)
	if err == nil {
		return
	}
	where := place{it.Line, it.Column}
	for _, f := range it.Flags {
		if f.Name == flag {
			where = place{f.Line, f.Column}
		}
	}
	r.add(where, "%v", err)
}

func (r *reader) matrix(n node) {
	if n.kind != mapping || len(n.keys) == 0 {
		r.add(n.at, "matrix is %s: it takes names with lists of values, such as go: [\"1.25\", \"1.26\"]", n.what())
		return
	}
	r.twice(n)
	total := 1
	for i, k := range n.keys {
		v := n.values[i]
		if v.kind != list || len(v.values) == 0 {
			r.add(v.at, "%s is %s: a matrix takes a list of values for each name", cut(k.name), v.what())
			return
		}
		for _, e := range v.values {
			if e.kind != scalar {
				r.add(e.at, "%s: a value of a matrix is one text, and not %s", cut(k.name), e.what())
				return
			}
		}
		if total *= len(v.values); total > MaxItems {
			r.add(k.at, "the matrix makes more than %d items", MaxItems)
			return
		}
	}
	for i := range total {
		r.combination(n, i)
	}
}

func (r *reader) combination(n node, i int) {
	own := node{kind: mapping, keys: n.keys, values: make([]node, len(n.keys))}
	for k := len(n.keys) - 1; k >= 0; k-- {
		of := n.values[k].values
		own.values[k] = of[i%len(of)]
		i /= len(of)
	}
	words := make([]string, len(own.values))
	for k, v := range own.values {
		words[k] = v.text
	}
	it := Item{ID: r.free(plain(strings.Join(words, "-"))), Flags: r.defaults, Line: n.at.line, Column: n.at.column}
	r.finish(it, n.at, r.prompt, own)
}

// maxPlain leaves room for the batch's id and a number.
const maxPlain = 30

func plain(s string) string {
	s = strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.', c == '_':
			return c
		case c >= 'A' && c <= 'Z':
			return c - 'A' + 'a'
		}
		return '-'
	}, s)
	s = strings.Trim(s, "-._")
	if len(s) > maxPlain {
		s = strings.Trim(s[:maxPlain], "-._")
	}
	if s == "" || tryPattern.MatchString(s) {
		s = strings.ReplaceAll("x"+s, ".", "-")
	}
	return s
}

// free returns id, with a number added if it is taken.
func (r *reader) free(id string) string {
	if _, taken := r.ids[id]; !taken {
		return id
	}
	for n := max(r.numbers[id], 2); ; n++ {
		next := fmt.Sprintf("%s-%d", id, n)
		if _, taken := r.ids[next]; !taken {
			r.numbers[id] = n + 1
			return next
		}
	}
}

func (r *reader) render(prompt node, it Item, vars map[string]any) string {
	at := place{it.Line, it.Column}
	if prompt.kind != scalar || prompt.at == (place{}) && prompt.text == "" {
		r.add(at, "item %s has no prompt, and the batch has none for it", cut(it.ID))
		return ""
	}
	t := r.template(key{"prompt", prompt.at}, prompt)
	if t == nil {
		return ""
	}
	out := bounded{}
	if err := t.Execute(&out, vars); err != nil {
		r.add(at, "item %s: %s", cut(it.ID), whyNot(err, slices.Sorted(maps.Keys(vars))))
		return ""
	}
	text := out.String()
	switch {
	case strings.TrimSpace(text) == "":
		r.add(at, "item %s: its prompt is empty", cut(it.ID))
	case utf8.RuneCountInString(text) > MaxPrompt:
		r.add(at, "item %s: its prompt has more than the %d characters that codex takes", cut(it.ID), MaxPrompt)
	}
	return text
}
