package batchfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"fairlead.dev/fairlead/internal/strictyaml"
)

type kind int

const (
	scalar kind = iota
	list
	mapping
	null
)

type node struct {
	kind   kind
	at     place
	text   string // as written
	truth  *bool  // of true and false
	keys   []key
	values []node
}

type key struct {
	name string
	at   place
}

// A place is a line and a column, from 1; 0 if unknown.
type place struct{ line, column int }

func (n node) get(name string) (node, bool) {
	for i, k := range n.keys {
		if k.name == name {
			return n.values[i], true
		}
	}
	return node{}, false
}

func (n node) what() string {
	switch {
	case n.kind == list:
		return "a list"
	case n.kind == mapping:
		return "a mapping"
	case n.kind == null:
		return "nothing"
	case n.truth != nil:
		return n.text
	}
	return "a text"
}

// value returns the node for a template. Numbers stay texts, because 1.10 may be a version.
func (n node) value() any {
	switch n.kind {
	case list:
		out := make([]any, 0, len(n.values))
		for _, v := range n.values {
			out = append(out, v.value())
		}
		return out
	case mapping:
		out := map[string]any{}
		for i, k := range n.keys {
			out[k.name] = n.values[i].value()
		}
		return out
	case null:
		return ""
	}
	if n.truth != nil {
		return *n.truth
	}
	return n.text
}

// Bounds against slow files; no real batch exceeds them.
const (
	maxNodes   = 3_000_000
	maxAliased = 100_000 // repeated by aliases
	maxKeys    = 5_000   // of one mapping
)

func readable(data []byte) error {
	if len(data) > MaxFile {
		return fmt.Errorf("%d bytes are too many: at most %d", len(data), MaxFile)
	}
	return strictyaml.Shallow(data, maxDepth, true)
}

const maxDepth = 200

func fromYAML(data []byte) (n node, err error) {
	defer func() {
		if p := recover(); p != nil { // the parser panics on some invalid YAML
			n, err = node{}, &Error{Problems: []Problem{{Text: "it cannot be read as YAML"}}}
		}
	}()
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return node{}, &Error{Problems: []Problem{yamlProblem(err)}}
	}
	docs := file.Docs[:0:0]
	for _, d := range file.Docs {
		if d.Body != nil {
			docs = append(docs, d)
		}
	}
	switch len(docs) {
	case 0:
		return node{kind: null}, nil
	case 1:
	default:
		return node{}, &Error{Problems: []Problem{{Line: lineOf(docs[1].Body).line, Text: "more than one YAML document: use one"}}}
	}
	c := converter{anchors: map[string]node{}}
	return c.node(docs[0].Body, 0)
}

func yamlProblem(err error) Problem {
	var y yaml.Error
	if !errors.As(err, &y) {
		return Problem{Text: "it cannot be read as YAML: " + firstLine(err.Error())}
	}
	p := Problem{Text: "it cannot be read as YAML: " + firstLine(y.GetMessage())}
	if t := y.GetToken(); t != nil && t.Position != nil {
		p.Line, p.Column = t.Position.Line, t.Position.Column
	}
	return p
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

type converter struct {
	anchors map[string]node
	made    int
	aliased int
}

func (c *converter) node(in ast.Node, depth int) (node, error) {
	at := lineOf(in)
	if c.made++; c.made > maxNodes || depth > maxDepth {
		return node{}, mistake(at, "the file has too many values, or is nested too deep")
	}
	switch v := in.(type) {
	case *ast.AnchorNode:
		n, err := c.node(v.Value, depth+1)
		if err == nil {
			c.anchors[v.Name.GetToken().Value] = n
		}
		return n, err
	case *ast.AliasNode:
		name := v.Value.GetToken().Value
		n, ok := c.anchors[name]
		if !ok {
			return node{}, mistake(at, "*%s: there is no &%s before it", name, name)
		}
		return n, c.count(n, at)
	case *ast.TagNode:
		return c.node(v.Value, depth+1)
	case *ast.SequenceNode:
		n := node{kind: list, at: at}
		for _, e := range v.Values {
			m, err := c.node(e, depth+1)
			if err != nil {
				return node{}, err
			}
			n.values = append(n.values, m)
		}
		return n, nil
	case *ast.NullNode:
		return node{kind: null, at: at}, nil
	case *ast.BoolNode:
		b := v.Value
		return node{at: at, text: v.GetToken().Value, truth: &b}, nil
	case *ast.StringNode:
		return node{at: at, text: v.Value}, nil
	case *ast.LiteralNode:
		at.line++ // the text begins on the next line
		at.column = 0
		return node{at: at, text: v.Value.Value}, nil
	case ast.MapNode:
		return c.mapping(v, at, depth)
	case ast.ScalarNode:
		return node{at: at, text: v.GetToken().Value}, nil
	}
	return node{}, mistake(at, "a batch has no use for %s here", strings.ToLower(in.Type().String()))
}

// count bounds the nodes that aliases repeat.
func (c *converter) count(n node, at place) error {
	if c.aliased++; c.aliased > maxAliased {
		return mistake(at, "the file has too many values, because of its aliases")
	}
	for _, v := range n.values {
		if err := c.count(v, at); err != nil {
			return err
		}
	}
	return nil
}

func (c *converter) mapping(v ast.MapNode, at place, depth int) (node, error) {
	n := node{kind: mapping, at: at}
	var merged []node
	for it := v.MapRange(); it.Next(); {
		value, err := c.node(it.Value(), depth+1)
		if err != nil {
			return node{}, err
		}
		if _, ok := it.Key().(*ast.MergeKeyNode); ok {
			more, err := mergeable(value, lineOf(it.Key()))
			if err != nil {
				return node{}, err
			}
			merged = append(merged, more...)
			continue
		}
		k := key{it.Key().GetToken().Value, lineOf(it.Key())}
		if len(n.keys) == 0 {
			n.at = k.at
		}
		n.keys, n.values = append(n.keys, k), append(n.values, value)
	}
	if len(n.keys) > maxKeys {
		return node{}, mistake(n.at, "%d keys in one mapping: at most %d", len(n.keys), maxKeys)
	}
	if len(merged) == 0 {
		return n, nil
	}
	seen := make(map[string]bool, len(n.keys))
	for _, k := range n.keys {
		seen[k.name] = true
	}
	for _, m := range merged {
		for i, k := range m.keys {
			if !seen[k.name] {
				seen[k.name] = true
				n.keys, n.values = append(n.keys, k), append(n.values, m.values[i])
			}
		}
	}
	if len(n.keys) > maxKeys {
		return node{}, mistake(n.at, "%d keys in one mapping: at most %d", len(n.keys), maxKeys)
	}
	return n, nil
}

// mergeable returns the mappings that << merges. The first one that has a key wins.
func mergeable(n node, at place) ([]node, error) {
	all := []node{n}
	if n.kind == list {
		all = n.values
	}
	for _, m := range all {
		if m.kind != mapping {
			return nil, mistake(at, "<< is %s: it takes a mapping, or a list of them", m.what())
		}
	}
	return all, nil
}

func lineOf(n ast.Node) place {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return place{t.Position.Line, t.Position.Column}
	}
	return place{}
}

func fromJSONLine(data []byte, line int) (node, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	r := jsonReader{d: d, data: data, line: line}
	n, err := r.value(0)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = mistake(r.place(), "more than one JSON value in the line")
		}
	}
	var own *Error
	if err == nil || errors.As(err, &own) {
		return n, err
	}
	at := r.place()
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at = r.placeOf(syntax.Offset - 1)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the line ends within it")
	}
	return node{}, mistake(at, "it is not JSON: %v", err)
}

type jsonReader struct {
	d    *json.Decoder
	data []byte
	line int
}

func (r *jsonReader) place() place { return r.placeOf(r.d.InputOffset()) }

// placeOf skips spaces, commas and colons at offset.
func (r *jsonReader) placeOf(offset int64) place {
	o := max(min(int(offset), len(r.data)), 0)
	for o < len(r.data) && strings.IndexByte(" \t\r,:", r.data[o]) >= 0 {
		o++
	}
	return place{r.line, utf8.RuneCount(r.data[:o]) + 1}
}

func (r *jsonReader) value(depth int) (node, error) {
	at := r.place()
	if depth > maxDepth {
		return node{}, mistake(at, "it nests too deep")
	}
	t, err := r.d.Token()
	if err != nil {
		return node{}, err
	}
	switch v := t.(type) {
	case json.Delim:
		if v == '[' {
			return r.list(at, depth)
		}
		return r.object(at, depth)
	case bool:
		return node{at: at, text: strconv.FormatBool(v), truth: &v}, nil
	case json.Number:
		return node{at: at, text: v.String()}, nil
	case string:
		return node{at: at, text: v}, nil
	}
	return node{kind: null, at: at}, nil
}

func (r *jsonReader) list(at place, depth int) (node, error) {
	n := node{kind: list, at: at}
	for r.d.More() {
		v, err := r.value(depth + 1)
		if err != nil {
			return node{}, err
		}
		n.values = append(n.values, v)
	}
	_, err := r.d.Token()
	return n, err
}

func (r *jsonReader) object(at place, depth int) (node, error) {
	n := node{kind: mapping, at: at}
	for r.d.More() {
		where := r.place()
		t, err := r.d.Token()
		if err != nil {
			return node{}, err
		}
		name, _ := t.(string)
		if len(n.keys) > maxKeys {
			return node{}, mistake(at, "more than %d keys in one mapping", maxKeys)
		}
		if _, twice := n.get(name); twice {
			return node{}, mistake(where, "%s: this key stands here twice", name)
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return node{}, err
		}
		n.keys, n.values = append(n.keys, key{name, where}), append(n.values, v)
	}
	_, err := r.d.Token()
	return n, err
}
