package inventory

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"fairlead.dev/fairlead/internal/strictyaml"
)

type kind int

const (
	null kind = iota
	scalar
	sequence
	mapping
	secret // readable only by Ansible
)

type node struct {
	kind   kind
	at     Place
	text   string // as written
	keys   []key
	values []node
}

type key struct {
	name string
	at   Place
}

func (n node) get(name string) (node, bool) {
	for i, k := range n.keys {
		if k.name == name {
			return n.values[i], true
		}
	}
	return node{}, false
}

func (n node) what() string {
	return [...]string{"nothing", "a text", "a list", "a mapping", "encrypted"}[n.kind]
}

// Bounds against slow files; no real inventory exceeds them.
const (
	maxDepth = 100
	maxNodes = 1_000_000
)

func fromYAML(data []byte) (n node, err error) {
	defer func() {
		if p := recover(); p != nil { // the parser panics on some invalid YAML
			n, err = node{}, &Error{Problems: []Problem{{Text: "it cannot be read as YAML"}}}
		}
	}()
	if err := strictyaml.Shallow(data, maxDepth, true); err != nil {
		return node{}, &Error{Problems: []Problem{{Text: err.Error()}}}
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		p := Problem{Text: "it cannot be read as YAML: " + firstLine(err.Error())}
		var y yaml.Error
		if errors.As(err, &y) {
			p.Text = "it cannot be read as YAML: " + firstLine(y.GetMessage())
			if t := y.GetToken(); t != nil && t.Position != nil {
				p.Line, p.Column = t.Position.Line, t.Position.Column
			}
		}
		return node{}, &Error{Problems: []Problem{p}}
	}
	var body ast.Node
	for _, d := range file.Docs {
		switch {
		case d.Body == nil:
		case body != nil:
			return node{}, mistake(placeOf(d.Body), "more than one YAML document: use one")
		default:
			body = d.Body
		}
	}
	if body == nil {
		return node{}, nil
	}
	c := converter{anchors: map[string]node{}}
	return c.node(body, 0)
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

func mistake(at Place, format string, args ...any) error {
	return &Error{Problems: []Problem{{Place: at, Text: fmt.Sprintf(format, args...)}}}
}

func placeOf(n ast.Node) Place {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return Place{Line: t.Position.Line, Column: t.Position.Column}
	}
	return Place{}
}

type converter struct {
	anchors map[string]node
	made    int
}

func (c *converter) node(in ast.Node, depth int) (node, error) {
	at := placeOf(in)
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
			return node{}, mistake(at, "*%s: there is no &%s before it", cut(name), cut(name))
		}
		return n, c.count(n, at)
	case *ast.TagNode:
		if tag := v.Start.Value; tag == "!vault" || tag == "!unsafe" {
			return node{kind: secret, at: at}, nil
		}
		return c.node(v.Value, depth+1)
	case *ast.SequenceNode:
		n := node{kind: sequence, at: at}
		for _, e := range v.Values {
			m, err := c.node(e, depth+1)
			if err != nil {
				return node{}, err
			}
			n.values = append(n.values, m)
		}
		return n, nil
	case *ast.NullNode:
		return node{at: at}, nil
	case *ast.StringNode:
		return node{kind: scalar, at: at, text: v.Value}, nil
	case *ast.LiteralNode:
		return node{kind: scalar, at: at, text: v.Value.Value}, nil
	case ast.MapNode:
		return c.mapping(v, at, depth)
	case ast.ScalarNode:
		return node{kind: scalar, at: at, text: v.GetToken().Value}, nil
	}
	return node{}, mistake(at, "there is no use for %s here", strings.ToLower(in.Type().String()))
}

// count bounds the nodes that aliases repeat.
func (c *converter) count(n node, at Place) error {
	if c.made++; c.made > maxNodes {
		return mistake(at, "the file has too many values, because of its aliases")
	}
	for _, v := range n.values {
		if err := c.count(v, at); err != nil {
			return err
		}
	}
	return nil
}

func (c *converter) mapping(v ast.MapNode, at Place, depth int) (node, error) {
	n := node{kind: mapping, at: at}
	seen := map[string]bool{}
	var merged []node
	for it := v.MapRange(); it.Next(); {
		value, err := c.node(it.Value(), depth+1)
		if err != nil {
			return node{}, err
		}
		if _, ok := it.Key().(*ast.MergeKeyNode); ok {
			more, err := mergeable(value, placeOf(it.Key()))
			if err != nil {
				return node{}, err
			}
			merged = append(merged, more...)
			continue
		}
		k := key{it.Key().GetToken().Value, placeOf(it.Key())}
		if len(n.keys) == 0 {
			n.at = k.at
		}
		if seen[k.name] {
			return node{}, mistake(k.at, "%s: this key stands here twice", cut(k.name))
		}
		seen[k.name] = true
		n.keys, n.values = append(n.keys, k), append(n.values, value)
	}
	for _, m := range merged {
		for i, k := range m.keys {
			if !seen[k.name] {
				seen[k.name] = true
				n.keys, n.values = append(n.keys, k), append(n.values, m.values[i])
			}
		}
	}
	return n, nil
}

// mergeable returns the mappings that << merges. The first one that has a key wins.
func mergeable(n node, at Place) ([]node, error) {
	all := []node{n}
	if n.kind == sequence {
		all = n.values
	}
	for _, m := range all {
		if m.kind != mapping {
			return nil, mistake(at, "<< is %s: it takes a mapping, or a list of them", m.what())
		}
	}
	return all, nil
}
