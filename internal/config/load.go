package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile bounds a config file in bytes; a larger one is something else.
const maxFile = 1 << 20

// A Problem is one mistake in a config file. Line is 0 where the mistake is
// that something is missing.
type Problem struct {
	Line int
	Key  string
	Text string
}

func (p Problem) String() string {
	s := p.Text
	if p.Key != "" {
		s = p.Key + ": " + s
	}
	if p.Line > 0 {
		s = fmt.Sprintf("line %d: %s", p.Line, s)
	}
	return s
}

// An Error is every mistake of one config file.
type Error struct {
	Path     string
	Problems []Problem
}

func (e *Error) Error() string {
	var b strings.Builder
	name := e.Path
	if name == "" {
		name = "(defaults)"
	}
	if len(e.Problems) == 1 {
		fmt.Fprintf(&b, "config %s: %s", name, e.Problems[0])
		return b.String()
	}
	fmt.Fprintf(&b, "config %s: %d mistakes:", name, len(e.Problems))
	for _, p := range e.Problems {
		fmt.Fprintf(&b, "\n  %s", p)
	}
	return b.String()
}

func newError(path string, problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	sort.SliceStable(problems, func(i, j int) bool { return problems[i].Line < problems[j].Line })
	return &Error{Path: path, Problems: problems}
}

// Load reads a config file. Its mistakes are one *Error. Relative paths in the
// file are made absolute, from the file's own folder.
func Load(path string) (*Config, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("read the config: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the config: %w", err)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("read the config: %s has %d bytes: that is no config file", path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the config: %w", err)
	}
	return Parse(path, data)
}

// Parse is Load for bytes; path names them in errors and is what relative
// paths are relative to.
func Parse(path string, data []byte) (*Config, error) {
	c := Default()
	c.path = path
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, newError(path, []Problem{problemOf("", err)})
	}
	if len(file.Docs) > 1 {
		return nil, newError(path, []Problem{{Text: "more than one YAML document: use one"}})
	}
	r := &reader{lines: c.lines}
	if len(file.Docs) == 1 && file.Docs[0].Body != nil {
		r.read("", file.Docs[0].Body, reflect.ValueOf(c).Elem())
	}
	c.resolve(filepath.Dir(path))
	problems := append(r.problems, c.check(r.bad)...)
	if err := newError(path, problems); err != nil {
		return nil, err
	}
	return c, nil
}

// A reader fills a struct from YAML, key by key, so that every mistake is
// found and not only the first.
type reader struct {
	lines    map[string]int
	bad      []string // keys whose value could not be read
	problems []Problem
}

func (r *reader) problem(line int, key, format string, args ...any) {
	r.bad = append(r.bad, key)
	r.problems = append(r.problems, Problem{line, key, fmt.Sprintf(format, args...)})
}

func (r *reader) read(key string, node ast.Node, v reflect.Value) {
	line := lineOf(node)
	if node.Type() == ast.NullType {
		return // `key:` with nothing behind it keeps the default
	}
	if v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if v.Kind() == reflect.String {
		switch node.Type() {
		case ast.IntegerType, ast.FloatType, ast.BoolType, ast.InfinityType, ast.NanType:
			// A store's id may look like a number; it is what was written.
			v.SetString(node.GetToken().Value)
			return
		}
	}
	if v.Kind() != reflect.Struct {
		if err := yaml.NodeToValue(node, v.Addr().Interface(), yaml.Strict()); err != nil {
			r.problem(line, key, "%s", problemOf(key, err).Text)
		}
		return
	}
	m, ok := node.(ast.MapNode)
	if !ok {
		what := key
		if what == "" {
			what = "a config"
		}
		r.problem(line, key, "%s takes keys with values, such as %s: …", what, fieldNames(v.Type())[0])
		return
	}
	for it := m.MapRange(); it.Next(); {
		name := it.Key().String()
		full := name
		if key != "" {
			full = key + "." + name
		}
		at := it.Key().GetToken().Position.Line
		r.lines[full] = at
		field, ok := fieldOf(v, name)
		if !ok {
			r.problem(at, full, "no such key: here are %s", strings.Join(fieldNames(v.Type()), ", "))
			continue
		}
		r.read(full, it.Value(), field)
	}
}

func fieldOf(v reflect.Value, name string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if tag := v.Type().Field(i).Tag.Get("yaml"); tag != "" && tag == name {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

func fieldNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		if tag := t.Field(i).Tag.Get("yaml"); tag != "" {
			names = append(names, tag)
		}
	}
	return names
}

func lineOf(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}

// problemOf makes a sentence of the parser's error, which quotes whole lines
// of the file: those may hold what a log should not.
func problemOf(key string, err error) Problem {
	var y yaml.Error
	if !errors.As(err, &y) {
		return Problem{Key: key, Text: err.Error()}
	}
	p := Problem{Key: key, Text: plainType.Replace(y.GetMessage())}
	if t := y.GetToken(); t != nil && t.Position != nil {
		p.Line = t.Position.Line
	}
	return p
}

var plainType = strings.NewReplacer("into Go value of type ", "into ", "Go struct field ", "", "time.Duration", "a time such as 20s")

// resolve makes the paths of a file absolute.
func (c *Config) resolve(dir string) {
	for _, p := range []*string{&c.Temporal.APIKeyFile, &c.Temporal.PayloadKey, &c.Store.Identity, &c.API.TokenFile, &c.Codex.Source} {
		*p = absolute(dir, *p)
	}
	for _, t := range []*TLS{c.Temporal.TLS, c.API.TLS} {
		if t != nil {
			for _, p := range []*string{&t.CA, &t.Cert, &t.Key} {
				*p = absolute(dir, *p)
			}
		}
	}
}

func absolute(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// at is a problem with a key that may or may not stand in the file.
func (c *Config) at(key, format string, args ...any) Problem {
	line := c.lines[key]
	for k := key; line == 0 && strings.Contains(k, "."); {
		k = k[:strings.LastIndex(k, ".")]
		line = c.lines[k]
	}
	return Problem{line, key, fmt.Sprintf(format, args...)}
}

func without(problems []Problem, bad []string) []Problem {
	return slices.DeleteFunc(problems, func(p Problem) bool { return slices.Contains(bad, p.Key) })
}
