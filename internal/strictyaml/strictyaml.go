// Package strictyaml reads YAML files and reports every mistake at once, with its line.
// Messages never repeat a value, because a file may hold secrets.
package strictyaml

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// A Problem is one mistake in a file. Line is 0 if something is missing.
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

// A File is the result of reading.
type File struct {
	// Lines maps each key in the file, such as store.url, to its line.
	Lines    map[string]int
	Problems []Problem
	bad      []string // could not be read
}

// Read fills the struct that v points to, by its yaml tags: structs, maps with text keys,
// lists, and plain values. Fields that are not in the data keep their values.
func Read(data []byte, v any) *File {
	f := &File{Lines: map[string]int{}}
	file, err := parser.ParseBytes(data, 0)
	switch {
	case err != nil:
		f.Problems = append(f.Problems, problemOf("", err))
	case len(file.Docs) > 1:
		f.Problems = append(f.Problems, Problem{Text: "more than one YAML document: use one"})
	case len(file.Docs) == 1 && file.Docs[0].Body != nil:
		f.read("", file.Docs[0].Body, reflect.ValueOf(v).Elem())
	}
	return f
}

// Add adds a mistake in the value of a key, unless one was found in reading it.
func (f *File) Add(key, format string, args ...any) {
	if !slices.Contains(f.bad, key) {
		f.Problems = append(f.Problems, f.At(key, format, args...))
	}
}

// At returns a problem with a key, at its LineOf.
func (f *File) At(key, format string, args ...any) Problem {
	return Problem{LineOf(f.Lines, key), key, fmt.Sprintf(format, args...)}
}

// LineOf returns the line of a key or of the nearest enclosing key.
func LineOf(lines map[string]int, key string) int {
	line := lines[key]
	for k := key; line == 0 && strings.Contains(k, "."); {
		k = k[:strings.LastIndex(k, ".")]
		line = lines[k]
	}
	return line
}

// Without drops the problems of keys whose value could not be read.
func (f *File) Without(problems []Problem) []Problem {
	return slices.DeleteFunc(problems, func(p Problem) bool { return slices.Contains(f.bad, p.Key) })
}

// Sort orders problems by line.
func Sort(problems []Problem) {
	sort.SliceStable(problems, func(i, j int) bool { return problems[i].Line < problems[j].Line })
}

// Tell formats the problems of a file.
func Tell(name string, problems []Problem) string {
	if len(problems) == 1 {
		return fmt.Sprintf("%s: %s", name, problems[0])
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d mistakes:", name, len(problems))
	for _, p := range problems {
		fmt.Fprintf(&b, "\n  %s", p)
	}
	return b.String()
}

func (f *File) problem(line int, key, format string, args ...any) {
	f.bad = append(f.bad, key)
	f.Problems = append(f.Problems, Problem{line, key, fmt.Sprintf(format, args...)})
}

func (f *File) read(key string, node ast.Node, v reflect.Value) {
	line := lineOf(node)
	if node.Type() == ast.NullType {
		return // `key:` without a value keeps the default
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Struct:
		f.structOf(key, node, v)
		return
	case reflect.Map:
		f.mapOf(key, node, v)
		return
	case reflect.Slice:
		f.listOf(key, node, v)
		return
	case reflect.String:
		switch node.Type() {
		case ast.IntegerType, ast.FloatType, ast.BoolType, ast.InfinityType, ast.NanType:
			// As written: a store's id may look like a number.
			v.SetString(node.GetToken().Value)
			return
		}
	}
	if err := yaml.NodeToValue(node, v.Addr().Interface(), yaml.Strict()); err != nil {
		f.problem(line, key, "%s", problemOf(key, err).Text)
	}
}

func (f *File) structOf(key string, node ast.Node, v reflect.Value) {
	m, ok := node.(ast.MapNode)
	if !ok {
		what := key
		if what == "" {
			what = "the file"
		}
		f.problem(lineOf(node), key, "%s takes keys with values, such as %s: …", what, fieldNames(v.Type())[0])
		return
	}
	for it := m.MapRange(); it.Next(); {
		name, full, at := f.keyOf(key, it.Key())
		field, ok := fieldOf(v, name)
		if !ok {
			f.problem(at, full, "no such key: here are %s", strings.Join(fieldNames(v.Type()), ", "))
			continue
		}
		f.read(full, it.Value(), field)
	}
}

func (f *File) mapOf(key string, node ast.Node, v reflect.Value) {
	m, ok := node.(ast.MapNode)
	if !ok {
		f.problem(lineOf(node), key, "%s takes names with values", key)
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for it := m.MapRange(); it.Next(); {
		name, full, _ := f.keyOf(key, it.Key())
		value := reflect.New(v.Type().Elem()).Elem()
		f.read(full, it.Value(), value)
		v.SetMapIndex(reflect.ValueOf(name).Convert(v.Type().Key()), value)
	}
}

func (f *File) listOf(key string, node ast.Node, v reflect.Value) {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		f.problem(lineOf(node), key, "%s takes a list, such as [a, b]", key)
		return
	}
	v.SetZero() // a list replaces the default
	for i, n := range list.Values {
		full := fmt.Sprintf("%s[%d]", key, i)
		f.Lines[full] = lineOf(n)
		value := reflect.New(v.Type().Elem()).Elem()
		f.read(full, n, value)
		v.Set(reflect.Append(v, value))
	}
}

func (f *File) keyOf(around string, key ast.MapKeyNode) (name, full string, line int) {
	// The text as written, without quotes.
	name = key.GetToken().Value
	full = name
	if around != "" {
		full = around + "." + name
	}
	line = key.GetToken().Position.Line
	f.Lines[full] = line
	return name, full, line
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

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// problemOf leaves out the lines of the file that the parser quotes, because they may hold
// secrets.
func problemOf(key string, err error) Problem {
	var y yaml.Error
	if !errors.As(err, &y) {
		return Problem{Key: key, Text: "cannot be read"}
	}
	p := Problem{Key: key, Text: quoted.ReplaceAllString(plainType.Replace(y.GetMessage()), "this")}
	if t := y.GetToken(); t != nil && t.Position != nil {
		p.Line = t.Position.Line
	}
	return p
}

var plainType = strings.NewReplacer("into Go value of type ", "into ", "Go struct field ", "", "time.Duration", "a time such as 20s")
